"""Objects by key and by index: the memory of a cache, without its network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from nodemanager.api.objects import HasMetadata, ObjectKey

T = TypeVar("T", bound=HasMetadata)
IndexFunction = Callable[[T], Iterable[str]]
"""Returns the values under which an object is to be found."""


class IndexedObjects(Generic[T]):
    """A snapshot that is changed one object at a time, with its indexes kept true."""

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, T] = {}
        self._functions: dict[str, IndexFunction[T]] = {}
        self._indexes: dict[str, dict[str, dict[ObjectKey, T]]] = {}

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
            self._enter(name, key, obj)

    def find(self, index: str, value: str) -> list[T]:
        """Return the objects that an index has under a value."""
        return list(self._indexes[index].get(value, {}).values())

    def put(self, key: ObjectKey, obj: T) -> T | None:
        """Add or replace an object; return the one that was there."""
        old = self._objects.get(key)
        self._objects[key] = obj
        for name in self._functions:
            if old is not None:
                self._leave(name, key, old)
            self._enter(name, key, obj)
        return old

    def pop(self, key: ObjectKey) -> T | None:
        """Remove an object; return it."""
        old = self._objects.pop(key, None)
        if old is not None:
            for name in self._functions:
                self._leave(name, key, old)
        return old

    def _enter(self, name: str, key: ObjectKey, obj: T) -> None:
        for value in self._functions[name](obj):
            self._indexes[name].setdefault(value, {})[key] = obj

    def _leave(self, name: str, key: ObjectKey, obj: T) -> None:
        index = self._indexes[name]
        for value in self._functions[name](obj):
            entries = index.get(value)
            if entries is not None:
                entries.pop(key, None)
                if not entries:
                    del index[value]
