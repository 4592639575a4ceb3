"""Installs and removes the files of a service; never a file that we did not write."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.init import systems
from nodemanager.host.init.systems import System
from nodemanager.host.state import state_files
from nodemanager.host.state.state_files import Owner

MAX_BYTES: Final = 1024 * 1024
NEW: Final = 0o644


def check(tree: Tree, system: System) -> None:
    """Raise if the service file, or one that a package brought, is not ours to replace."""
    theirs = read(tree, system.path)
    if theirs is not None and systems.WRITTEN not in theirs:
        raise HostError(
            f"cannot replace {system.path}: it was not written by install-service; look at it, and give"
            " --force if it may go"
        )
    for path in system.packaged:
        if read(tree, path) is not None:
            raise HostError(
                f"cannot replace the service of a package, {path}; it needs nothing but {system.start}; give"
                " --force to have another one beside it"
            )


def put(tree: Tree, path: str, text: str, mode: int | None) -> bool:
    """Write a file unless it is like that already; return whether it was written.

    Without a mode it stays whose it is, with the mode that it has; everybody may read a new one.
    """
    try:
        found = _stat(tree, path)
        has = None if found is None else stat.S_IMODE(found.st_mode)
        if has is not None and mode in (None, has) and read(tree, path) == text:
            return False
        kept = None if found is None or mode is not None else Owner(found.st_uid, found.st_gid)
        tree.place(path, make_parents=True)
        state_files.write(tree, path, text.encode(), mode or has or NEW, kept)
    except HostError:
        raise
    except OSError as error:
        raise HostError(f"cannot write {tree.outside(path)}: {error.strerror or error}") from error
    finally:
        tree.forget()
    return True


def _stat(tree: Tree, path: str) -> os.stat_result | None:
    """Return the owner of a file and who may read it; None if there is no file."""
    try:
        place = tree.place(path)
        found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def is_there(tree: Tree, path: str) -> bool:
    """Tell whether there is something at a path; a link counts, wherever it leads."""
    try:
        place = tree.place(path)
        os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    finally:
        tree.forget()
    return True


def has_user(tree: Tree, name: str) -> bool:
    """Tell whether a host has a user of this name in its own file of users."""
    return any(line.startswith(f"{name}:") for line in (read(tree, "/etc/passwd") or "").splitlines())


def take_away(tree: Tree, path: str) -> None:
    """Remove a file."""
    try:
        place = tree.place(path)
        os.unlink(place.name, dir_fd=place.folder)
        with tree.readable(place.folder) as folder:
            os.fsync(folder)
    except OSError as error:
        raise HostError(f"cannot remove {tree.outside(path)}: {error.strerror or error}") from error
    finally:
        tree.forget()


def read(tree: Tree, path: str) -> str | None:
    """Return a text, None where there is none; a link is somebody's decision, which we do not undo.

    A unit that is a link to /dev/null was masked.
    """
    try:
        data = state_files.read(tree, path, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise HostError(
                f"cannot use {path}: it is a link, as of a unit that was masked; remove it first"
            ) from error
        if isinstance(error, FileNotFoundError):
            return None
        raise HostError(f"cannot read {path}: {error.strerror or error}") from error
    finally:
        tree.forget()
    return None if data is None else data.decode("utf-8", "replace")
