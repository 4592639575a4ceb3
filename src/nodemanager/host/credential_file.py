"""Writes a kubeconfig where only its owner can read it: whole or not at all, and never through a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from nodemanager.api.errors import ConfigError
from nodemanager.host import state_files
from nodemanager.host.tree import Tree, TreeError

FOLDER_MODE = 0o750


def check_target(path: Path) -> None:
    """Raise unless a credential can be put at a path safely; nothing is changed."""
    if path.is_symlink():
        raise ConfigError(f"cannot write {path}: it is a symbolic link; remove it, or name what it points to")
    if path.is_dir():
        raise ConfigError(f"cannot write {path}: it is a directory")
    if path.exists() and not path.is_file():  # /dev/null is not to be replaced
        raise ConfigError(f"cannot write {path}: it is not a regular file")
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    found = folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise ConfigError(f"cannot write {path}: {folder} is not a directory")
    if found.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"cannot write {path}: {folder} belongs to user {found.st_uid}, not to us")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX:
        raise ConfigError(f"cannot write {path}: others may write to {folder}; run chmod go-w {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"cannot write {path}: {folder} is not writable; run as root, or elsewhere")


def write(path: Path, data: bytes) -> None:
    """Put a credential at a path, 0600, its folder made 0750 if it is missing."""
    check_target(path)
    tree = Tree("/")
    try:
        _make_folder(path.absolute().parent)
        state_files.write(tree, str(path.absolute()), data)
    except (OSError, TreeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot write {path}: {why}") from error
    finally:
        tree.close()


def _make_folder(folder: Path) -> None:
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=FOLDER_MODE)
        folder.chmod(FOLDER_MODE)  # not left to the umask
