"""How many backups a status shows: as many as fit, those of declared files first.

A directory that is purged gets entries under ever new names, and each of them is backed up. All backups are
on the host (`nodemanager backups`); a status is an object in the API, and must not grow with them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

MAX_BYTES: Final = 256 * 1024
"""An API takes objects of 1.5 MiB; this is room for some two thousand files."""
_EACH: Final = 72
"""The size of a record besides its path: a SHA-256 and some quotes."""


def known(before: Mapping[str, str], new: Mapping[str, str], kept: AbstractSet[str] | None) -> dict[str, str]:
    """Return where the first content of each file is, by path; what is no longer `kept` is nowhere.

    None: nothing was removed.
    """
    found = {**new, **before}  # the first one is the one worth keeping
    if kept is None:
        return found
    there = kept | set(new.values())
    return {path: digest for path, digest in found.items() if digest in there}


def fitting(records: Mapping[str, str], declared: Collection[str]) -> dict[str, str]:
    """Return the records, by path, for which there is room.

    Who declares a file asks for what was there before: of all others, which were in the way, those that come
    last are left out first.
    """
    room = MAX_BYTES - sum(map(_size, records))
    if room >= 0:
        return dict(records)
    last_first, dropped = list(records)[::-1], set()
    for path in sorted(last_first, key=lambda one: one in declared):
        dropped.add(path)
        room += _size(path)
        if room >= 0:
            break
    return {path: digest for path, digest in records.items() if path not in dropped}


def _size(path: str) -> int:
    return _EACH + len(path.encode(errors="surrogatepass"))
