"""Writes a kubeconfig where only its owner can read it: whole or not at all, and never through a link."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from nodemanager.host.files.tree import Tree, TreeError, make_folder
from nodemanager.host.state import state_files
from nodemanager.kube.errors import ConfigError

FOLDER_MODE = 0o750


def check_target(path: Path) -> None:
    """Raise unless a credential can be put at a path safely; nothing is changed."""
    with _told(path), contextlib.closing(Tree("/")) as tree:
        _check(tree, path)


def write(path: Path, data: bytes) -> None:
    """Put a credential at a path, 0600, its folder made 0750 if it is missing."""
    with _told(path), contextlib.closing(Tree("/")) as tree:
        _check(tree, path)
        folder = path.absolute().parent
        if not os.path.lexists(folder):
            place = tree.place(str(folder), make_parents=True)
            os.close(make_folder(place.folder, place.name, FOLDER_MODE))  # not left to the umask
        state_files.write(tree, str(path.absolute()), data)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say in one line what cannot be written, and why."""
    try:
        yield
    except (OSError, TreeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot write {path}: {why}") from error


def _check(tree: Tree, path: Path) -> None:
    folder = path.absolute().parent
    while not os.path.lexists(folder):
        folder = folder.parent
    found = tree.folder(str(folder))  # follows no link that others may have planted
    _check_folder(path, folder, found)
    if path.is_symlink():
        raise ConfigError(f"cannot write {path}: it is a symbolic link; remove it, or name what it points to")
    if path.is_dir():
        raise ConfigError(f"cannot write {path}: it is a directory")
    if path.exists() and not path.is_file():  # /dev/null is not to be replaced
        raise ConfigError(f"cannot write {path}: it is not a regular file")


def _check_folder(path: Path, folder: Path, descriptor: int) -> None:
    found = os.fstat(descriptor)
    if found.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"cannot write {path}: {folder} belongs to user {found.st_uid}, not to us")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX:
        raise ConfigError(f"cannot write {path}: others may write to {folder}; run chmod go-w {folder}")
    if os.fstatvfs(descriptor).f_flag & os.ST_RDONLY:
        raise ConfigError(f"cannot write {path}: the file system of {folder} is mounted read-only")
    if not os.access(".", os.W_OK | os.X_OK, dir_fd=descriptor):
        fix = "look at lsattr -d" if os.geteuid() == 0 else "run as root, or write elsewhere"
        raise ConfigError(f"cannot write {path}: {folder} is not writable; {fix}")
