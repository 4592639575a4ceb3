"""Whether init may start a program as root at every boot from now on."""

from __future__ import annotations

import os
import posixpath
import stat
import sys
from pathlib import Path
from typing import Final

from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree, TreeError

PASSING: Final = (
    "/tmp", "/var/tmp", "/run", "/var/run", "/dev", "/proc", "/sys",  # noqa: S108 - to refuse them
    "/mnt", "/media", "/home", "/root", "/usr/home",
)  # fmt: skip
"""Places whose content disappears: at the next boot, with a medium, or with a user."""
MAX_LINKS: Final = 8


def plain(path: str) -> str:
    """Return a whole path without detours; two slashes in front are one, which normpath leaves alone."""
    return "/" + posixpath.normpath(path).lstrip("/")


def own_path() -> str:
    """Return the path of the running program; a static one only knows the name that was typed."""
    import shutil  # an agent that is never upgraded needs none of what comes with it

    name = sys.argv[0]
    found = name if "/" in name else shutil.which(name) or name
    return plain(str(Path(found).absolute()))


def check(tree: Tree, path: str) -> None:
    """Raise unless the path is of a program that stays, and that only root can replace."""
    try:
        _check(tree, path)
    except TreeError as error:
        raise _unfit(path, str(error), install(tree, path)) from error
    finally:
        tree.forget()


def install(tree: Tree, path: str) -> str:
    """Return what to do with a program that is not in a place for programs."""
    if _is_in_environment(tree, path):  # a script of three lines, which would not work elsewhere
        return "run make build, install -m 0755 bin/manager /usr/local/bin/nodemanager, and then that one"
    return f"run install -m 0755 {path} /usr/local/bin/nodemanager, and then that one"


def _is_in_environment(tree: Tree, path: str) -> bool:
    """Tell whether a program is a script of a virtual environment."""
    try:
        above = tree.folder(posixpath.dirname(posixpath.dirname(path)) or "/")
        os.stat("pyvenv.cfg", dir_fd=above, follow_symlinks=False)
    except OSError:
        return False
    return True


def _check(tree: Tree, path: str) -> None:
    here = plain(path)
    for _ in range(MAX_LINKS):
        folder = _passing(here)
        if folder:
            raise _unfit(path, f"what is in {folder} does not stay there", install(tree, path))
        _check_folders(tree, path, posixpath.dirname(here))
        place = tree.place(here)
        try:
            found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        except OSError as error:
            raise _unfit(path, error.strerror or "it is not there", "name the program with --exec") from error
        if not stat.S_ISLNK(found.st_mode):
            _check_file(path, found)
            return
        target = os.readlink(place.name, dir_fd=place.folder)
        here = plain(posixpath.join(posixpath.dirname(here), target))
    raise _unfit(path, "too many links lead to each other", "name the program with --exec")


def _check_folders(tree: Tree, path: str, folder: str) -> None:
    while True:
        _check_owner(path, folder, os.fstat(tree.folder(folder)))
        if folder == "/":
            return
        folder = posixpath.dirname(folder)


def _check_file(path: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _unfit(path, "it is not a file", "name the program with --exec")
    if not found.st_mode & 0o100:
        raise _unfit(path, "it is not executable", f"run chmod 0755 {path}, or name another one with --exec")
    _check_owner(path, path, found)


def _check_owner(path: str, what: str, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.geteuid()):
        owner = f"{what} belongs to user {found.st_uid}, who could have root run anything"
        raise _unfit(path, owner, f"run chown root {what}")
    if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and found.st_gid != 0):
        raise _unfit(path, f"others may write to {what}", f"run chmod go-w {what}")


def _passing(path: str) -> str:
    return next((folder for folder in PASSING if path.startswith(f"{folder}/")), "")


def _unfit(path: str, why: str, advice: str) -> HostError:
    return HostError(f"cannot start {path} as a service: {why}; {advice}")
