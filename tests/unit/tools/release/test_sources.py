"""The sources of the static program: pinned, found by digest, and refused otherwise."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tools.release import program, sources
from tools.release.sources import CannotBuild, Source

CONTENT = b"an archive"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
PINNED = f"""
[zlib]
version = "1.3"
path = "pool/zlib.tar.gz"
sha256 = "{DIGEST}"
licence = "Zlib"
purl = "pkg:generic/zlib@1.3"
"""


@pytest.fixture
def source() -> Source:
    return sources.pinned(PINNED)["zlib"]


def mirror(folder: Path, content: bytes) -> str:
    """Return the address of an archive that has this instead."""
    (folder / "pool").mkdir(parents=True)
    (folder / "pool/zlib.tar.gz").write_bytes(content)
    return folder.as_uri()


def test_our_lock_names_everything_by_digest_and_no_address() -> None:
    found = sources.all_pinned()
    assert {"python", "openssl", "zlib", "libyaml"} <= found.keys()
    text = (sources.HERE / "sources.toml").read_text()
    assert "://" not in text
    assert "://" not in (program.ROOT / "requirements/release.txt").read_text()


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (DIGEST, "0a", "sha256 of zlib is '0a'"),
        ('licence = "Zlib"\n', "", "zlib needs licence, path, purl, sha256, version"),
        ('version = "1.3"', 'version = "1.3"\nmirror = "x"', "zlib needs"),
        ("pool/zlib.tar.gz", "https://example.org/zlib.tar.gz", "path of zlib is 'https://example.org"),
    ],
)
def test_a_lock_with_a_mistake_is_refused(before: str, after: str, told: str) -> None:
    with pytest.raises(CannotBuild, match=r"cannot read sources\.toml") as raised:
        sources.pinned(PINNED.replace(before, after))
    assert told in str(raised.value)


def test_a_source_comes_from_the_first_archive_that_has_it(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sites = [
        (tmp_path / "none").as_uri(),
        mirror(tmp_path / "changed", b"x"),
        mirror(tmp_path / "good", CONTENT),
    ]
    monkeypatch.setattr(sources, "apt_sites", lambda: sites)
    assert sources.fetch(source, tmp_path / "cache").read_bytes() == CONTENT
    monkeypatch.setattr(sources, "apt_sites", list)
    assert sources.fetch(source, tmp_path / "cache").read_bytes() == CONTENT


def test_what_nobody_has_is_told_with_what_to_do(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "apt_sites", lambda: [mirror(tmp_path / "changed", b"x")])
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/zlib.tar.gz").write_bytes(b"somebody changed it")
    with pytest.raises(
        CannotBuild, match=r"cannot fetch zlib\.tar\.gz: .*another digest; put a file"
    ) as raised:
        sources.fetch(source, tmp_path / "cache")
    assert DIGEST in str(raised.value)


def test_every_extension_is_locked_or_ours() -> None:
    locked = sources.locked_packages(program.LOCK.read_text())
    for extension in program.EXTENSIONS:
        if extension.package:
            assert locked[extension.package][1]
        else:
            assert f"PyInit_{extension.module}" in (program.ROOT / extension.source).read_text()


def test_a_lock_of_pip_is_read_with_its_digests() -> None:
    text = (
        "a-b==1.0 \\\n    --hash=sha256:"
        + "0" * 64
        + " \\\n    --hash=sha256:"
        + "1" * 64
        + "\n    # via c\nc==2\n"
    )
    assert sources.locked_packages(text) == {"a-b": ("1.0", ("0" * 64, "1" * 64)), "c": ("2", ())}
