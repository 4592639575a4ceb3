"""Temporary files of a process that is at work stay; those of one that was killed go."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.host.files import private, staging, writers
from nodemanager.host.files.tree import Tree
from nodemanager.host.process import processes

WRITING = """\
import os, sys
from nodemanager.host.files import private
os.chdir(sys.argv[1])
open(private.temporary_name(), "w").close()
os.symlink("/etc", private.temporary_name())
folder = private.PrivateFolder(os.open(".", os.O_RDONLY))
open(f"{folder.name}/{private.temporary_name()}", "w").close()
print("written", flush=True)
sys.stdin.read()
"""


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> Iterator[Tree]:
    tree = Tree(str(tmp_path))
    yield tree
    tree.close()


def test_what_another_process_writes_is_left_alone_until_that_was_killed(tree: Tree) -> None:
    """A file, a link and a folder of its own, as `restore` and `apply` make them beside an agent."""
    argv = [sys.executable, "-c", WRITING, tree.root]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"written\n"
        assert staging.sweep(tree, "/") == (0, 3)
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # ended, and nobody has asked how
        assert staging.sweep(tree, "/") == (3, 0)
    assert not list(Path(tree.root).iterdir())


def test_what_this_process_writes_is_in_use() -> None:
    assert writers.in_use(writers.new_name(), time.time())


def test_after_a_fork_names_are_those_of_the_child() -> None:
    assert writers._own(os.getppid()).pid == os.getppid()
    assert writers.new_name().split("-")[1] == f"{os.getpid():x}"


def test_a_number_that_was_given_to_another_process_is_not_the_one_that_wrote() -> None:
    begin, pid, started, namespace = writers.new_name().split("-")
    assert not writers.in_use(f"{begin}-{pid}-{int(started, 16) - 1:x}-{namespace}", time.time())


@pytest.mark.parametrize(
    "name", ["0123456789ab", "file", "0123456789ab-1-2", "0123456789ab-1-2-3-4", "x-1-2-3"]
)
def test_what_is_named_otherwise_was_left_by_an_older_version(name: str) -> None:
    assert not writers.in_use(name, time.time())


@pytest.mark.parametrize(("age", "used"), [(0.0, True), (2 * writers.UNKNOWN_SECONDS, False)])
def test_what_a_container_writes_whose_processes_are_not_seen_stays_for_a_while(
    age: float, used: bool
) -> None:
    begin, pid, started, namespace = writers.new_name().split("-")
    name = f"{begin}-{pid}-{started}-{int(namespace, 16) + 1:x}"
    assert writers.in_use(name, time.time() - age) is used


def test_without_proc_whoever_has_the_number_may_be_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "find", lambda _pid: None)
    monkeypatch.setattr(writers, "_NAMESPACE", "/nothing")
    writers._own.cache_clear()
    try:
        name = writers.new_name()
        assert name.endswith("-0-0")
        assert writers.in_use(name, 0.0)
        with subprocess.Popen(["true"]) as ended:
            pass
        assert not writers.in_use(f"{name.split('-')[0]}-{ended.pid:x}-0-0", time.time())
    finally:
        writers._own.cache_clear()


def test_the_process_of_somebody_else_may_be_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert writers.in_use(writers.new_name(), 0.0)


def test_all_temporary_names_tell_who_made_them() -> None:
    assert writers.in_use(private.temporary_name().removeprefix(private.PREFIX), time.time())
