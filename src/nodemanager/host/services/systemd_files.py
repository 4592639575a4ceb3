"""Unit files that systemd has not read yet, and does not know about.

NeedDaemonReload notices that a file which was read has changed. It does not notice a drop-in in a
directory that is new, nor a unit file in /etc that goes before one of a package: systemd finds files
by a list of names that it makes when it reloads. Both are what configuration management does first.
"""

from __future__ import annotations

import os
import stat
from itertools import islice
from typing import Final

from nodemanager.host.services.systemd_units import Status
from nodemanager.host.tree import Tree, TreeError

SYSTEM: Final = ("/etc/systemd/system", "/run/systemd/system")
USER: Final = ("/etc/systemd/user", "/run/systemd/user")
MAX_ENTRIES: Final = 1000


def unread(tree: Tree, status: Status, folders: tuple[str, ...]) -> frozenset[str]:
    """Return the files of a unit in these folders that systemd does not name among those it has read."""
    found: set[str] = set()
    for folder in folders:
        for name in names(status.id):
            above = f"{folder}/{name}.d"
            found.update(f"{above}/{entry}" for entry in _drop_ins(tree, above))
        if status.fragment.startswith(("/usr/", "/lib/")) and _is_file(tree, f"{folder}/{status.id}"):
            found.add(f"{folder}/{status.id}")
    return frozenset(found - set(status.drop_ins))


def names(unit: str) -> list[str]:
    """Return the names whose drop-ins a unit takes: its own, and that of its template."""
    prefix, dot, kind = unit.rpartition(".")
    template, at, _ = prefix.partition("@")
    return [unit, f"{template}@{dot}{kind}"] if at else [unit]


def _drop_ins(tree: Tree, path: str) -> list[str]:
    try:
        with tree.readable(tree.folder(path)) as folder, os.scandir(folder) as listing:
            entries = [entry.name for entry in islice(listing, MAX_ENTRIES)]
    except (TreeError, OSError):
        return []
    return [entry for entry in entries if entry.endswith(".conf") and not entry.startswith(".")]


def _is_file(tree: Tree, path: str) -> bool:
    try:
        place = tree.place(path)
        return stat.S_ISREG(os.lstat(place.name, dir_fd=place.folder).st_mode)
    except (TreeError, OSError):
        return False
