"""What goes with the programs of a release: the bill of materials and signatures."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tools.release import sbom, signing, sources
from tools.release.sources import CannotBuild

FILES = {"nodemanager-1.0-linux-amd64": "0a" * 32}


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


def test_the_bill_names_all_parts_and_is_the_same_for_the_same_programs(site: Path) -> None:
    parts = [*sbom.of_sources(sources.all_pinned().values()), *sbom.of_site(site)]
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
    assert not {"nodemanager", "openssl-patches"} & by_name.keys()
    references = {each["bom-ref"] for each in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    assert all({each["ref"], *each["dependsOn"]} <= references for each in bill["dependencies"])
    assert len(references) == len(bill["components"]) + 1


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
    (signature,) = signing.sign([file], key, "1.0", 12)
    check = ["minisign", "-V", "-p", str(public), "-m", str(file)]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60, check=True)
    assert "timestamp:12\tfile:nodemanager\tversion:1.0" in done.stdout
    assert signature.name == "nodemanager.minisig"
    file.write_bytes(b"another program")
    assert subprocess.run(check, capture_output=True, timeout=60, check=False).returncode != 0
