"""One process at a time changes a host."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from nodemanager.host.base import Busy, HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.state.state_lock import StateLock


def test_the_second_is_told_who_the_first_is(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path))
    first, second = StateLock(tree, "/state"), StateLock(tree, "/state")
    assert first.take(make=True)
    assert not first.take(make=True)  # ours already
    with pytest.raises(Busy, match=f"another nodemanager \\(process {os.getpid()}\\) is at work"):
        second.take(make=False)
    first.release()
    assert second.take(make=False)
    second.release()
    tree.close()


def test_where_nothing_can_be_recorded_there_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    tree = Tree(str(tmp_path))
    assert not StateLock(tree, "/state").take(make=True)
    assert not StateLock(tree, "/other").take(make=False)
    assert not (tmp_path / "other").exists()
    tree.close()


def test_a_full_disk_keeps_only_the_number_of_the_process_from_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(str(tmp_path))
    first, second = StateLock(tree, "/state"), StateLock(tree, "/state")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", full)
        assert first.take(make=True)
    assert not first.take(make=True)  # ours already, and not in our own way
    with pytest.raises(Busy, match="process unknown"):
        second.take(make=False)
    first.release()
    assert second.take(make=False)
    second.release()
    tree.close()


def test_a_lock_that_cannot_be_had_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(str(tmp_path))
    lock = StateLock(tree, "/state")

    def broken(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", broken)
        with pytest.raises(HostError, match="No locks available"):
            lock.take(make=True)
    assert lock.take(make=True)
    lock.release()
    tree.close()
