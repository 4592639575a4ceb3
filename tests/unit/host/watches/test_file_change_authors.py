"""Who changed a file, as the kernel tells it. Aspects: kinds of changes, ourselves, others, bad input."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.host.base import NotSupported
from nodemanager.host.files.tree import Tree
from nodemanager.host.watches import fanotify, file_change_authors
from nodemanager.host.watches.file_change_authors import FileChangeAuthors, describe
from support.root_tree import needs_root

OBEDIENT = "import os, sys\nfor line in sys.stdin:\n    exec(line)\n    print(flush=True)\n"


class Somebody:
    """Another process, which stays: whoever looks at it afterwards finds it."""

    def __init__(self) -> None:
        argv = [sys.executable, "-c", OBEDIENT]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @property
    def words(self) -> str:
        return describe(self.process.pid)

    def do(self, line: str) -> None:
        """Have it do something itself, and wait until it has."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "\n"


def touch(path: Path) -> int:
    """Have a program touch a file, and return its number once it has ended."""
    with subprocess.Popen(["touch", path]) as process:
        assert process.wait(90) == 0
    return process.pid


@pytest.fixture
def somebody() -> Iterator[Somebody]:
    found = Somebody()
    with found.process:
        yield found
        found.process.communicate()


@pytest.fixture
async def watch(tmp_path: Path) -> AsyncIterator[FileChangeAuthors]:
    tree = Tree("/")
    try:
        found = FileChangeAuthors(tree)
    except NotSupported as error:
        tree.close()
        pytest.skip(str(error))
    (tmp_path / "managed").write_text("hello\n")
    (tmp_path / "purged").mkdir()
    found.follow([f"{tmp_path}/managed", f"{tmp_path}/purged"], [f"{tmp_path}/purged"])
    yield found
    found.close()
    tree.close()


@needs_root
@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("open('{}/managed', 'w').write('bye')", "managed"),
        ("open('{}/managed', 'a').write('bye')", "managed"),
        ("os.chmod('{}/managed', 0o600)", "managed"),
        ("os.chown('{}/managed', 1, 1)", "managed"),
        ("os.unlink('{}/managed')", "managed"),
        ("open('{0}/.new', 'w').close(); os.rename('{0}/.new', '{0}/managed')", "managed"),
        ("os.symlink('/etc', '{0}/.new'); os.rename('{0}/.new', '{0}/managed')", "managed"),
        ("os.rename('{0}/purged', '{0}/moved'); os.mkdir('{0}/purged')", "purged"),
        ("os.mkdir('{}/purged/stray')", "purged/stray"),
        ("open('{}/purged/stray', 'w').close()", "purged/stray"),
    ],
)
async def test_it_was_somebody(
    watch: FileChangeAuthors, somebody: Somebody, tmp_path: Path, line: str, path: str
) -> None:
    somebody.do(line.format(tmp_path))
    assert watch.who(f"{tmp_path}/{path}") == somebody.words
    assert watch.who(f"{tmp_path}/{path}") == ""  # told once


@needs_root
async def test_it_was_the_last_of_them(watch: FileChangeAuthors, somebody: Somebody, tmp_path: Path) -> None:
    touch(tmp_path / "managed")
    somebody.do(f"os.utime('{tmp_path}/managed')")
    (tmp_path / "managed").write_text("we ourselves are not meant")
    assert watch.who(f"{tmp_path}/managed") == somebody.words


@needs_root
async def test_a_process_that_has_ended_has_a_number(watch: FileChangeAuthors, tmp_path: Path) -> None:
    number = touch(tmp_path / "managed")  # before anybody has read an event
    assert watch.who(f"{tmp_path}/managed") == f"process {number}, which has ended"


@needs_root
async def test_others_are_not_remembered(
    watch: FileChangeAuthors, somebody: Somebody, tmp_path: Path
) -> None:
    somebody.do(f"[open(f'{tmp_path}/other{{n}}', 'w').close() for n in range(100)]")
    watch.who("/nothing")
    assert not watch._did


@needs_root
async def test_what_is_followed_can_change(
    watch: FileChangeAuthors, somebody: Somebody, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    watch.follow([f"{tmp_path}/a/f", f"{tmp_path}/gone/f"], [])
    somebody.do(f"open('{tmp_path}/managed', 'w').close(); open('{tmp_path}/a/f', 'w').close()")
    assert watch.who(f"{tmp_path}/managed") == ""
    assert watch.who(f"{tmp_path}/a/f") == somebody.words
    somebody.do(f"os.rename('{tmp_path}/a', '{tmp_path}/old'); os.mkdir('{tmp_path}/a')")
    watch.follow([f"{tmp_path}/a/f", f"{tmp_path}/b/f"], [])
    somebody.do(f"open('{tmp_path}/a/f', 'w').close(); open('{tmp_path}/b/f', 'w').close()")
    assert watch.who(f"{tmp_path}/a/f") == somebody.words
    assert watch.who(f"{tmp_path}/b/f") == somebody.words


@needs_root
async def test_memory_is_bounded_and_fades(
    watch: FileChangeAuthors, somebody: Somebody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_change_authors, "MAX_KNOWN", 10)
    somebody.do(f"[open(f'{tmp_path}/purged/{{n}}', 'w').close() for n in range(100)]")
    watch.who("/nothing")
    assert len(watch._did) == 10
    monkeypatch.setattr(file_change_authors, "MAX_AGE", 0.0)
    assert watch.who(f"{tmp_path}/purged/99") == ""


async def test_nothing_is_known_where_the_kernel_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise NotSupported("cannot tell who changes files: fanotify: Operation not permitted")

    monkeypatch.setattr(file_change_authors, "Fanotify", refuse)
    tree = Tree("/")
    assert file_change_authors.watch(tree) is None
    tree.close()


def test_a_process_may_call_itself_anything(tmp_path: Path) -> None:
    process = tmp_path / "7"
    process.mkdir()
    (process / "comm").write_bytes(b"x\x1b[2J\xff\n")
    (process / "loginuid").write_text("1000")
    (process / "cgroup").write_text("1:name=systemd:/\n0::/system.slice/puppet.service/child\n")
    uid = os.geteuid()
    assert describe(7, tmp_path) == f"x?[2J?[7], uid {uid}, login uid 1000, in puppet.service"
    (process / "loginuid").write_text("4294967295")
    (process / "cgroup").write_text("0::/\n")
    assert describe(7, tmp_path) == f"x?[2J?[7], uid {uid}"
    assert describe(8, tmp_path) == "process 8, which has ended"


@given(st.lists(st.binary(max_size=80)))
def test_whatever_is_read_is_read_to_its_end(parts: list[bytes]) -> None:
    whole = b"".join(
        struct.pack("=IBBHQii", 24 + len(part), 3, 0, 24, fanotify.CREATE, -1, 1) + part for part in parts
    )
    assert len(list(fanotify.parse(whole))) <= len(parts)
    for end in range(0, len(whole), 7):
        list(fanotify.parse(whole[:end]))
