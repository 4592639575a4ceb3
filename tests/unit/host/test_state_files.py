"""Small private files of the agent, written by several processes of ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodemanager.host.files import staging
from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files


def test_what_is_half_written_is_not_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process of ours that begins tidies up just then."""
    renamed, tree, swept = os.rename, Tree("/"), []

    def rename(name: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        swept.append(staging.sweep(tree, str(tmp_path)))
        renamed(name, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", rename)
    state_files.write(tree, f"{tmp_path}/x", b"new")
    tree.close()
    assert ((tmp_path / "x").read_bytes(), swept) == (b"new", [(0, 1)])
    assert [one.name for one in tmp_path.iterdir()] == ["x"]
