from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nodemanager.server.http import private_files
from nodemanager.server.http.private_files import UnsafeFile


def test_a_written_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    private_files.write(path, b"one")
    private_files.write(path, b"two")
    assert path.stat().st_mode & 0o777 == 0o600
    assert private_files.read(path) == b"two"
    assert [one.name for one in tmp_path.iterdir()] == ["secret"]


def test_create_never_writes_over(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    assert private_files.create(path, b"first")
    assert not private_files.create(path, b"second")
    assert private_files.read(path) == b"first"
    assert [one.name for one in tmp_path.iterdir()] == ["secret"]


def test_a_missing_file_is_none(tmp_path: Path) -> None:
    assert private_files.read(tmp_path / "nothing") is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o677])
def test_a_file_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"x")
    path.chmod(mode)
    with pytest.raises(UnsafeFile, match=r"others may read or write it; run chmod 600"):
        private_files.read(path)


def test_links_folders_pipes_and_giants_are_refused(tmp_path: Path) -> None:
    target = tmp_path / "target"
    private_files.write(target, b"x")
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "folder").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "pipe", 0o600)
    private_files.write(tmp_path / "giant", b"x" * (private_files.MAX_SIZE + 1))
    for name in ("link", "folder", "pipe", "giant"):
        with pytest.raises(UnsafeFile, match="cannot"):
            private_files.read(tmp_path / name)


def test_a_folder_that_others_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    private_files.prepare_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o770)
    with pytest.raises(UnsafeFile, match=r"run chmod go-w"):
        private_files.prepare_folder(folder)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failing_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "secret"
    private_files.write(path, b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    owner: object = os if call == "fsync" else Path
    monkeypatch.setattr(owner, call, full)
    with pytest.raises(OSError, match="No space"):
        private_files.write(path, b"new")
    monkeypatch.undo()
    assert private_files.read(path) == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["secret"]
