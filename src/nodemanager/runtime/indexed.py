"""Objects by key and by index: the memory of a cache, without its network."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from nodemanager.kube.objects import HasMetadata, ObjectKey

log = logging.getLogger(__name__)
T = TypeVar("T", bound=HasMetadata)
IndexFunction = Callable[[T], Iterable[str]]
"""Returns the values under which an object is to be found."""


class IndexedObjects(Generic[T]):
    """A snapshot that is changed one object at a time, with its indexes kept true."""

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, T] = {}
        self._functions: dict[str, IndexFunction[T]] = {}
        self._indexes: dict[
            str, dict[str, dict[ObjectKey, None]]
        ] = {}  # a dict keeps the order, a set does not

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._objects)

    def get(self, key: ObjectKey) -> T | None:
        """Return an object, or None."""
        return self._objects.get(key)

    def values(self) -> list[T]:
        """Return all objects."""
        return list(self._objects.values())

    def items(self) -> list[tuple[ObjectKey, T]]:
        """Return all objects with their keys."""
        return list(self._objects.items())

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Keep an index from now on, also over the objects that are already there."""
        self._functions[name] = function
        self._indexes[name] = {}
        for key, obj in self._objects.items():
            self._enter(name, key, self._values(name, function, key, obj))

    def find(self, index: str, value: str) -> list[T]:
        """Return the objects that an index has under a value."""
        return [self._objects[key] for key in self._indexes[index].get(value, ())]

    def put(self, key: ObjectKey, obj: T) -> T | None:
        """Add or replace an object; return the one that was there."""
        old = self._objects.get(key)
        self._objects[key] = obj
        for name, function in self._functions.items():
            before = [] if old is None else self._values(name, function, key, old)
            now = self._values(name, function, key, obj)
            if before != now:  # mostly an object changes where no index looks
                self._leave(name, key, before)
                self._enter(name, key, now)
        return old

    def pop(self, key: ObjectKey) -> T | None:
        """Remove an object; return it."""
        old = self._objects.pop(key, None)
        if old is not None:
            for name, function in self._functions.items():
                self._leave(name, key, self._values(name, function, key, old))
        return old

    def _values(self, name: str, function: IndexFunction[T], key: ObjectKey, obj: T) -> list[str]:
        """Call an index function; if it fails, the object has no key in that index, without an error."""
        try:
            return list(function(obj))
        except Exception:
            log.exception("the index %s failed on %s", name, key)
            return []

    def _enter(self, name: str, key: ObjectKey, values: Iterable[str]) -> None:
        for value in values:
            self._indexes[name].setdefault(value, {})[key] = None

    def _leave(self, name: str, key: ObjectKey, values: Iterable[str]) -> None:
        index = self._indexes[name]
        for value in values:
            entries = index.get(value)
            if entries is not None:
                entries.pop(key, None)
                if not entries:
                    del index[value]
