"""Reads package databases below a root, again only when they changed."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from nodemanager.host.base import HostError
from nodemanager.host.files.file_facts import is_fresh
from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files

MAX_DATABASE: Final = 256 * 1024 * 1024
MAX_ENTRIES: Final = 200_000
T = TypeVar("T")
Stamp = tuple[tuple[int, int, int, int] | None, ...]


class CachedValue(Generic[T]):
    """A value that is calculated again only when its files change."""

    def __init__(self) -> None:
        self._stamp: object = None
        self._value: T | None = None

    async def get(self, stamp: object, make: Callable[[], Awaitable[T]]) -> T:
        """Return the value for a stamp; no stamp means that nothing can be kept."""
        if stamp is None or stamp != self._stamp or self._value is None:
            self._value = await make()
            self._stamp = stamp
        return self._value


def stamp(tree: Tree, *paths: str) -> Stamp | None:
    """Return what changes when one of these files does.

    None if there is none of them, or if one was changed just now: it may be again within the same tick.
    """
    seen = [_look(tree, path) for path in paths]
    found = tuple(_identity(one) for one in seen)
    if any(one is not None and told and is_fresh(one) for one, told in zip(seen, found, strict=True)):
        return None
    return found if any(found) else None


def identities(tree: Tree, *paths: str) -> Stamp:
    """Return which files these are, however fresh: two such answers differ if one was replaced in between."""
    return tuple(_identity(_look(tree, path)) for path in paths)


def exists(tree: Tree, path: str) -> bool:
    """Tell whether there is something at a path."""
    return _look(tree, path) is not None


def age(tree: Tree, path: str) -> float:
    """Return how many seconds ago something was last changed; infinitely many if it is not there."""
    seen = _look(tree, path)
    return time.time() - seen.st_mtime if seen else float("inf")


def _look(tree: Tree, path: str) -> os.stat_result | None:
    try:
        place = tree.place(path)
        return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except OSError:
        return None
    finally:
        tree.forget()


def _identity(seen: os.stat_result | None) -> tuple[int, int, int, int] | None:
    """The log of a SQLite database comes and goes with every reader, empty; it tells nothing then."""
    if seen is None or (stat.S_ISREG(seen.st_mode) and seen.st_size == 0):
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def read(tree: Tree, path: str) -> bytes | None:
    """Return the content of a database, None if it is not there."""
    try:
        data = state_files.read(tree, path, MAX_DATABASE + 1)
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror or error}") from error
    finally:
        tree.forget()
    if data is not None and len(data) > MAX_DATABASE:
        raise HostError(f"cannot read {path}: it is larger than {MAX_DATABASE} bytes")
    return data


def entries(tree: Tree, path: str) -> list[str] | None:
    """Return the names in a folder, sorted; None if it is not there."""
    try:
        with tree.readable(tree.folder(path)) as folder:
            names = sorted(os.listdir(folder))  # noqa: PTH208 - a descriptor has no path
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HostError(f"cannot list {path}: {error.strerror or error}") from error
    finally:
        tree.forget()
    if len(names) > MAX_ENTRIES:
        raise HostError(f"cannot list {path}: it has more than {MAX_ENTRIES} entries")
    return names
