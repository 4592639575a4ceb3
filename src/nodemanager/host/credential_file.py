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
    folder = path.parent
    if path.is_dir() and not path.is_symlink():
        raise ConfigError(f"cannot write {path}: it is a directory")
    while not folder.exists():
        folder = folder.parent
    found = folder.stat()
    if found.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"cannot write {path}: {folder} belongs to user {found.st_uid}, not to us")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX:
        raise ConfigError(f"cannot write {path}: others may write to {folder}; run chmod go-w {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"cannot write {path}: {folder} is not writable; run as root, or elsewhere")


def write(path: Path, data: bytes) -> None:
    """Put a credential at a path, 0600, its folder made 0750 if it is missing."""
    check_target(path)
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    if not path.parent.exists():
        path.parent.mkdir(mode=FOLDER_MODE)
        path.parent.chmod(FOLDER_MODE)  # not left to the umask
    tree = Tree("/")
    try:
        state_files.write(tree, str(path.absolute()), data)
    except (OSError, TreeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot write {path}: {why}") from error
    finally:
        tree.close()
