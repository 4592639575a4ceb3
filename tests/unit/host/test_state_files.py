"""Small private files of the agent, written by several processes of ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files


def test_what_is_taken_away_half_written_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process of ours that begins tidies up, and cannot tell whose it is."""
    renamed = os.rename
    taken: list[str] = []

    def rename(name: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        if not taken:
            taken.append(name)
            os.unlink(name, dir_fd=src_dir_fd)
        renamed(name, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", rename)
    tree = Tree("/")
    state_files.write(tree, f"{tmp_path}/x", b"new")
    tree.close()
    assert ((tmp_path / "x").read_bytes(), len(taken)) == (b"new", 1)
    assert [one.name for one in tmp_path.iterdir()] == ["x"]
