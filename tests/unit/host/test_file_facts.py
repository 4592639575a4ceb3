"""What is remembered of a file is what is there, whatever happens to it between two looks."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from nodemanager.host.files import file_facts
from nodemanager.host.files.file_facts import DigestCache, observe
from nodemanager.host.files.tree import Tree
from nodemanager.plan.desired import Content, encoded
from nodemanager.plan.facts import FileFact, Kind

LONG_AGO = time.time_ns() + 3600 * file_facts.SECOND
"""Seen from then, a file that was written just now is old."""


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: LONG_AGO)


class Watched:
    """A file that is looked at again and again."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "file"
        self.file.write_bytes(b"same size")
        self.digests = DigestCache()
        self.tree = Tree(str(folder))

    def look(self) -> FileFact:
        found = file_facts.observe_all(self.tree, {"/file": 9}, (), self.digests)[0]["/file"]
        assert found == observe(
            self.tree, "/file", 9, DigestCache()
        )  # what somebody sees who remembers nothing
        return found


@pytest.fixture
def watched(tmp_path: Path) -> Any:
    found = Watched(tmp_path)
    yield found
    found.tree.close()


@pytest.mark.usefixtures("old")
def test_a_file_that_nothing_happens_to_is_read_once(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = watched.look()

    def refuse(*_: object) -> str:
        raise AssertionError("it was read again")

    monkeypatch.setattr(file_facts, "hash_descriptor", refuse)
    again = file_facts.observe_all(watched.tree, {"/file": 9}, (), watched.digests)[0]["/file"]
    assert again is first


def _meddle(what: str, file: Path) -> None:
    stamps, other = file.stat(), file.with_name("other")
    if what == "mode":
        file.chmod(0o600)
    elif what == "owner":
        os.chown(file, 12345, 12345)
    elif what == "names":
        other.hardlink_to(file)
    elif what == "other inode":
        other.write_bytes(b"SAME SIZE")
        other.rename(file)
    else:
        file.write_bytes(b"SAME SIZE")
        if what == "restored times":
            os.utime(file, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))


@pytest.mark.usefixtures("old")
@pytest.mark.parametrize("what", ["content", "mode", "owner", "names", "other inode", "restored times"])
def test_whatever_happens_to_a_file_is_seen(watched: Watched, what: str) -> None:
    before = watched.look()
    if what == "owner" and os.geteuid() != 0:
        pytest.skip("giving files away needs root")
    _meddle(what, watched.file)
    assert watched.look() != before


@pytest.mark.parametrize(
    ("age", "fraction", "kept"),
    [
        pytest.param(0.01, 1, False, id="just-written"),
        pytest.param(0.2, 1, True, id="a-moment-ago"),
        pytest.param(1.0, 0, False, id="whole-seconds-a-second-ago"),
        pytest.param(3.0, 0, True, id="whole-seconds-long-ago"),
    ],
)
def test_a_file_may_change_again_within_the_grain_of_its_time_stamp(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, age: float, fraction: int, *, kept: bool
) -> None:
    changed = 1_700_000_000 * file_facts.SECOND + fraction
    values = {"st_mtime_ns": changed, "st_ctime_ns": changed}
    found = os.stat_result(watched.file.stat(), values)
    assert found.st_ctime_ns == changed
    monkeypatch.setattr(time, "time_ns", lambda: changed + int(age * file_facts.SECOND))
    place = watched.tree.place("/file")
    watched.digests.put("/file", found, FileFact(Kind.FILE))
    assert (watched.digests.get(place, found) is not None) is kept


@pytest.mark.usefixtures("old")
def test_what_is_no_longer_looked_at_is_forgotten(watched: Watched) -> None:
    watched.look()
    found, place = watched.file.stat(), watched.tree.place("/file")
    assert watched.digests.get(place, found) is not None
    file_facts.observe_all(watched.tree, {}, (), watched.digests)
    assert watched.digests.get(place, found) is None


@pytest.mark.parametrize("source", ["", "plain", "grün", "\udcff", b"\x00\xff"])
def test_a_content_knows_its_size_without_a_copy(source: str | bytes) -> None:
    content = Content(source, "")
    assert content.size == len(content.data)
    assert content.data == (source if isinstance(source, bytes) else encoded(source))
