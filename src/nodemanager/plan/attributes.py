"""Owner, group and mode: what a declaration wants, what differs, and whether an existing file may get it.

A user who can write into a directory may have put what is at a path there: a file of hers, open or
mapped in her programs for ever, or a file of root that she may move but not read. To change its
owner or mode would give root's name to the one, or the other to her. So where others can write,
what is there is replaced by something new, and nothing is taken over from what was not root's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from nodemanager.api.common.declarations import File
from nodemanager.plan.facts import NOBODY, Facts, FileFact, Kind

NEW_FILE: Final = 0o644
NEW_SECRET: Final = 0o600
NEW_DIRECTORY: Final = 0o755
POWERS: Final = 0o7000
"""Setuid, setgid and sticky: a file has them because a declaration says so, or not at all."""
OTHERS_WRITE: Final = 0o022


class UnknownOwner(ValueError):
    """The host has no such user or group."""


@dataclass(frozen=True, slots=True)
class FileAttributes:
    """What shall hold; None = as it is."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None


def declared(declaration: File, facts: Facts) -> FileAttributes:
    """Return what a declaration asks for; a file belongs to root unless it says otherwise."""
    uid = _number("owner", "user", declaration.owner, facts.users)
    gid = _number("group", "group", declaration.group, facts.groups)
    if declaration.ensure == "file":
        uid, gid = uid or 0, gid or 0
    return FileAttributes(mode_of(declaration.mode) if declaration.mode else None, uid, gid)


@lru_cache(maxsize=64)
def mode_of(text: str) -> int:
    """Return the mode that a declaration names, such as 0644 or 0o644."""
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


def of_new_file(wanted: FileAttributes, before: FileFact, *, secret: bool) -> tuple[int, int, int]:
    """Return uid, gid and mode of a file that replaces what is there, if anything."""
    mode = wanted.mode
    if mode is None and _may_inherit(wanted, before):
        kept_apart = before.uid == 0 and before.writer in (NOBODY, wanted.uid)
        mode = before.mode & ~POWERS & ~(0 if kept_apart else OTHERS_WRITE)
        mode = mode & ~0o007 if secret else mode
    if mode is None:
        mode = NEW_SECRET if secret else NEW_FILE
    return wanted.uid or 0, wanted.gid or 0, mode


def _may_inherit(wanted: FileAttributes, before: FileFact) -> bool:
    """Tell whether only root and the declared owner can have chosen the mode of a file.

    If another user may have moved a file of root there, that is no reason to open what was closed.
    """
    theirs = before.uid == 0 or (before.uid == wanted.uid and before.writer in (NOBODY, wanted.uid))
    return before.kind is Kind.FILE and theirs


def hardened(wanted: FileAttributes, before: FileFact, *, secret: bool) -> FileAttributes:
    """Return attributes that leave an undeclared mode no more than it may have.

    A secret is private; where others can write, they must not be able to change files of root.
    """
    if wanted.mode is not None:
        return wanted
    mode = before.mode & ~0o007 if secret else before.mode
    if before.writer not in (NOBODY, wanted.uid):
        mode &= ~(POWERS | OTHERS_WRITE)
    return wanted if mode == before.mode else FileAttributes(mode, wanted.uid, wanted.gid)


def file_may_stay(wanted: FileAttributes, before: FileFact) -> bool:
    """Tell whether a file with the declared content may get its attributes, or has to be made anew.

    A user who could write to it before may still have it open, which cannot be undone.
    """
    mode = before.mode if wanted.mode is None else wanted.mode
    lost = before.mode & OTHERS_WRITE & ~mode
    regrouped = wanted.gid not in (None, before.gid) and before.mode & 0o020
    return before.writer == NOBODY and before.uid in (0, wanted.uid) and not lost and not regrouped


def directory_may_stay(wanted: FileAttributes, before: FileFact) -> bool:
    """Tell whether a directory may get its attributes.

    Where others can write, they can move a directory of root's to the path: it is neither given away nor
    opened. What belongs to the declared owner already is theirs anyway.
    """
    if before.writer == NOBODY:
        return True
    if wanted.uid not in (None, before.uid):
        return False
    tightened = wanted.mode is None or not wanted.mode & ~before.mode
    return bool(before.uid) or (tightened and wanted.gid in (None, before.gid))


def may_be_purged(before: FileFact) -> bool:
    """Tell whether the content of a directory may be removed: no user can have moved another one there.

    It also may if the directory belongs to the one user who can: she could remove the content herself.
    """
    return before.writer in (NOBODY, before.uid) or before.marked


def lacking(wanted: FileAttributes, before: FileFact) -> list[str]:
    """Return, in words, how the attributes of what is there differ from those that shall hold."""
    said = []
    if wanted.mode is not None and wanted.mode != before.mode:
        said.append(f"mode is {before.mode:04o}, not {wanted.mode:04o}")
    if wanted.uid is not None and wanted.uid != before.uid:
        said.append(f"owner is {before.uid}, not {wanted.uid}")
    if wanted.gid is not None and wanted.gid != before.gid:
        said.append(f"group is {before.gid}, not {wanted.gid}")
    if before.acl:
        said.append("an access control list says more than its mode")
    return said
