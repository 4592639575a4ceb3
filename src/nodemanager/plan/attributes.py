"""Owner, group and mode: what a declaration wants, and what is lacking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from nodemanager.api.declarations import File
from nodemanager.plan.facts import Facts, FileFact, Kind

NEW_FILE: Final = 0o644
NEW_SECRET: Final = 0o600
NEW_DIRECTORY: Final = 0o755


class UnknownOwner(ValueError):
    """The host has no such user or group."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """What shall hold; None = as it is."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None


def wish(declaration: File, facts: Facts) -> Attributes:
    """Return what a declaration asks for; a file belongs to root unless it says otherwise."""
    uid = _number("owner", "user", declaration.owner, facts.users)
    gid = _number("group", "group", declaration.group, facts.groups)
    if declaration.ensure == "file":
        uid, gid = uid or 0, gid or 0
    return Attributes(_mode(declaration.mode) if declaration.mode else None, uid, gid)


@lru_cache(maxsize=64)
def _mode(text: str) -> int:
    return int(text.lower().replace("o", "", 1), 8)


def _number(field: str, what: str, name: str, known: Mapping[str, int]) -> int | None:
    if not name:
        return None
    if name.isdecimal() and name.isascii():
        return int(name)
    number = known.get(name)
    if number is None:
        raise UnknownOwner(
            f"cannot set {field}: this host has no {what} {name!r}; create it, or correct {field}"
        )
    return number


def of_new_file(wanted: Attributes, before: FileFact, *, secret: bool) -> tuple[int, int, int]:
    """Return uid, gid and mode of a file that replaces what is there, if anything."""
    mode = wanted.mode
    if mode is None and before.kind is Kind.FILE:
        mode = before.mode & ~0o007 if secret else before.mode
    if mode is None:
        mode = NEW_SECRET if secret else NEW_FILE
    return wanted.uid or 0, wanted.gid or 0, mode


def lacking(wanted: Attributes, before: FileFact) -> list[str]:
    """Return, in words, how the attributes of what is there differ from the wish."""
    said = []
    if wanted.mode is not None and wanted.mode != before.mode:
        said.append(f"mode is {before.mode:04o}, not {wanted.mode:04o}")
    if wanted.uid is not None and wanted.uid != before.uid:
        said.append(f"owner is {before.uid}, not {wanted.uid}")
    if wanted.gid is not None and wanted.gid != before.gid:
        said.append(f"group is {before.gid}, not {wanted.gid}")
    return said
