"""Unit files and links that systemd has not read yet, and does not know about.

NeedDaemonReload notices that a file which was read has changed. It does not notice a drop-in in a
directory that is new, nor a unit file in /etc that goes before one of a package: systemd finds files
by a list of names that it makes when it reloads. Both are what configuration management does first.

Nor does it notice that a link which has a unit start at boot came or went: it remembers for each unit
whether it is enabled, until it reloads.
"""

from __future__ import annotations

import os
import stat
from itertools import islice
from typing import Final

from nodemanager.host.files.tree import Tree, TreeError
from nodemanager.host.services.systemd_units import UnitStatus

SYSTEM: Final = ("/etc/systemd/system", "/run/systemd/system")
USER: Final = ("/etc/systemd/user", "/run/systemd/user")
MAX_ENTRIES: Final = 1000
MAX_LINKS: Final = 10_000
_PULLING: Final = (".wants", ".requires", ".upholds")
"""Suffixes of directories with links to units that another unit starts."""


def unread(tree: Tree, status: UnitStatus, folders: tuple[str, ...]) -> frozenset[str]:
    """Return the files of a unit in these folders that systemd does not name among those it has read."""
    found: set[str] = set()
    for folder in folders:
        for name in names(status.id):
            above = f"{folder}/{name}.d"
            entries = [one for one in _entries(tree, above) if one.endswith(".conf") and one[0] != "."]
            found.update(f"{above}/{entry}" for entry in entries)
        if status.fragment.startswith(("/usr/", "/lib/")) and _is_file(tree, f"{folder}/{status.id}"):
            found.add(f"{folder}/{status.id}")
    return frozenset(found - set(status.drop_ins))


def names(unit: str) -> list[str]:
    """Return the names whose drop-ins a unit takes: its own, and that of its template."""
    prefix, dot, kind = unit.rpartition(".")
    template, at, _ = prefix.partition("@")
    return [unit, f"{template}@{dot}{kind}"] if at else [unit]


def linked(tree: Tree) -> set[str]:
    """Return the units of the host that links have started with others, at boot."""
    return {name for folder in link_folders(tree) for name in _entries(tree, folder, MAX_LINKS)}


def link_folders(tree: Tree) -> list[str]:
    """Return the directories that such links are in."""
    return [f"{SYSTEM[0]}/{name}" for name in _entries(tree, SYSTEM[0]) if name.endswith(_PULLING)]


def _entries(tree: Tree, path: str, limit: int = MAX_ENTRIES) -> list[str]:
    try:
        walked = tree.walk(path)
    except (TreeError, OSError):
        return []
    try:
        with tree.readable(walked) as folder, os.scandir(folder) as listing:
            return [entry.name for entry in islice(listing, limit)]
    except OSError:
        return []
    finally:
        os.close(walked)


def _is_file(tree: Tree, path: str) -> bool:
    try:
        place = tree.place(path)
        return stat.S_ISREG(os.lstat(place.name, dir_fd=place.folder).st_mode)
    except (TreeError, OSError):
        return False
