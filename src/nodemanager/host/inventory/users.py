"""Numbers of users and groups: of this system by its own rules, of another root by its files."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable, Iterable

from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files

MAX_BYTES = 16 * 1024 * 1024


def user_numbers(tree: Tree, names: Iterable[str]) -> dict[str, int]:
    """Return the numbers of those users that exist."""
    if tree.root != "/":
        return _from_file(tree, "/etc/passwd", names)
    return _known(names, lambda name: pwd.getpwnam(name).pw_uid)


def group_numbers(tree: Tree, names: Iterable[str]) -> dict[str, int]:
    """Return the numbers of those groups that exist."""
    if tree.root != "/":
        return _from_file(tree, "/etc/group", names)
    return _known(names, lambda name: grp.getgrnam(name).gr_gid)


def _known(names: Iterable[str], look_up: Callable[[str], int]) -> dict[str, int]:
    found = {}
    for name in names:
        try:
            found[name] = look_up(name)
        except KeyError:
            continue
    return found


def _from_file(tree: Tree, path: str, names: Iterable[str]) -> dict[str, int]:
    wanted = set(names)
    if not wanted:
        return {}
    try:
        data = state_files.read(tree, path, MAX_BYTES)
    except OSError:
        return {}
    known = {"root": 0} if data is None else parse(data.decode(errors="replace"))  # a folder still has a root
    return {name: number for name, number in known.items() if name in wanted}


def parse(text: str) -> dict[str, int]:
    """Return the numbers in a passwd or group file; lines that are none are passed over."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[0] and fields[2].isdecimal():
            found.setdefault(fields[0], int(fields[2]))
    return found
