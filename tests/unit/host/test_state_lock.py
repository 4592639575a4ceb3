"""One process at a time changes a host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodemanager.host.base import Busy
from nodemanager.host.state_lock import StateLock
from nodemanager.host.tree import Tree


def test_the_second_is_told_who_the_first_is(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path))
    first, second = StateLock(tree, "/state"), StateLock(tree, "/state")
    first.take()
    with pytest.raises(Busy, match=f"another nodemanager \\(process {os.getpid()}\\) is at work"):
        second.take()
    first.release()
    second.take()
    second.release()
    tree.close()


def test_where_nothing_can_be_recorded_there_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    tree = Tree(str(tmp_path))
    StateLock(tree, "/state").take()
    tree.close()
