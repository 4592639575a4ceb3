"""What goes with the programs of a release: the bill of materials and signatures."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tools.release import sbom, signing, sources
from tools.release.sources import CannotBuild

IMAGE = "nodemanager-1.0-linux-amd64.oci.tar"
FILES = {"nodemanager-1.0-linux-amd64": "0a" * 32, IMAGE: "0b" * 32}
BILL = {
    "packages": [
        {"name": "expat", "versionInfo": "2.8.2"},
        {"name": "hacl-star", "versionInfo": "bb3d"},
        {"name": "libb2", "versionInfo": "0.98.1", "externalRefs": []},
        {"name": "mpdecimal", "versionInfo": "2.5.1", "externalRefs": [
            {"referenceLocator": "cpe:2.3:a:bytereef:mpdecimal:2.5.1:*:*:*:*:*:*:*"},
        ]},
    ]
}  # fmt: skip
"""What the sources of the interpreter say of others, as CPython writes it."""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name, said in {
        "nodemanager": "",
        "PyYAML": "License: MIT",
        "h11": "License-Expression: MIT OR 0BSD",
    }.items():
        folder = tmp_path / f"site/{name}-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n{said}\n")
    return tmp_path / "site"


@pytest.fixture
def python(tmp_path: Path) -> Path:
    (tmp_path / "python/Misc").mkdir(parents=True)
    (tmp_path / "python/Misc/sbom.spdx.json").write_text(json.dumps(BILL))
    return tmp_path / "python"


def test_the_bill_names_all_parts_and_is_the_same_for_the_same_programs(site: Path, python: Path) -> None:
    parts = [*sbom.of_sources(sources.all_pinned().values()), *sbom.of_site(site)]
    parts += [*sbom.of_interpreter(python), *sbom.of_compiler("0.17.0")]
    text = sbom.document("1.0", 0, parts, FILES)
    assert sbom.document("1.0", 0, reversed(parts), FILES) == text
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["timestamp"] == "1970-01-01T00:00:00Z"
    by_name = {each["name"]: each for each in bill["components"]}
    assert by_name["PyYAML"]["purl"] == "pkg:pypi/pyyaml@1.0"
    assert by_name["h11"]["licenses"] == [{"expression": "MIT OR 0BSD"}]
    assert by_name["openssl"]["hashes"][0]["content"] == sources.all_pinned()["openssl"].sha256
    assert by_name["nodemanager-1.0-linux-amd64"]["hashes"][0]["content"] == "0a" * 32
    assert by_name["mpdecimal"]["version"] == "2.5.1"
    assert by_name["mpdecimal"]["cpe"].startswith("cpe:2.3:a:bytereef:mpdecimal:2.5.1:")
    assert {"hacl-star", "libb2", "musl (of zig)", "compiler-rt (of zig)"} <= by_name.keys()
    assert (by_name[IMAGE]["type"], by_name["nodemanager-1.0-linux-amd64"]["type"]) == ("container", "file")
    assert not {"nodemanager", "openssl-patches", "expat"} & by_name.keys()
    references = {each["bom-ref"] for each in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    assert all({each["ref"], *each["dependsOn"]} <= references for each in bill["dependencies"])
    assert len(references) == len(bill["components"]) + 1


def test_a_part_that_the_interpreter_has_no_more_is_no_part(python: Path) -> None:
    (python / "Misc/sbom.spdx.json").write_text(json.dumps({"packages": BILL["packages"][:3]}))
    with pytest.raises(CannotBuild, match="does not name mpdecimal"):
        sbom.of_interpreter(python)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nodemanager-0.1.0-linux-amd64", True),
        ("nodemanager_0.1.0_amd64.deb", True),
        ("nodemanager-0.1.0-r0.x86_64.apk", True),
        (IMAGE.replace("1.0", "0.1.0"), True),
        ("nodemanager-0.1.0.cdx.json", False),
        ("nodemanager-0.1.0rc1-linux-amd64", False),
        ("nodemanager-0.1.01-linux-amd64", False),
    ],
)
def test_all_files_of_a_version_are_listed_but_the_bill_itself(name: str, expected: bool) -> None:
    assert sbom.lists(name, "0.1.0") is expected


def test_without_a_key_that_is_there_nothing_is_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/true")
    with pytest.raises(CannotBuild, match=r"cannot sign: there is no key .*; make one with minisign -G"):
        signing.sign([tmp_path / "file"], tmp_path / "key", "1.0", 0)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(CannotBuild, match="cannot sign: there is no minisign; install it"):
        signing.sign([tmp_path / "file"], tmp_path / "key", "1.0", 0)


@pytest.mark.skipif(shutil.which("minisign") is None, reason="minisign is not installed")
def test_minisign_takes_the_signature_and_notices_a_change(tmp_path: Path) -> None:
    key, public, file = tmp_path / "key", tmp_path / "key.pub", tmp_path / "nodemanager"
    file.write_bytes(b"a program")
    subprocess.run(
        ["minisign", "-G", "-W", "-s", key, "-p", public], capture_output=True, timeout=60, check=True
    )
    signing.check(key)
    with pytest.raises(CannotBuild, match=r"cannot sign a small file: minisign failed; is .* a secret"):
        signing.check(public)
    (signature,) = signing.sign([file], key, "1.0", 12)
    check = ["minisign", "-V", "-p", str(public), "-m", str(file)]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60, check=True)
    assert "timestamp:12\tfile:nodemanager\tversion:1.0" in done.stdout
    assert signature.name == "nodemanager.minisig"
    file.write_bytes(b"another program")
    assert subprocess.run(check, capture_output=True, timeout=60, check=False).returncode != 0
