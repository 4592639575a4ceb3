"""Objects that ServiceAccount tokens depend on, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2026, 1, 1, tzinfo=UTC)


class Objects:
    """Objects by resource, namespace and name; a test deletes and replaces them at will."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str, str], dict[str, Any]] = {}

    def add(self, resource: str, namespace: str, name: str, uid: str, **more: Any) -> None:
        """Put an object there."""
        self.kept[resource, namespace, name] = {"metadata": {"name": name, "uid": uid}, **more}

    def get(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return an object, or None."""
        return self.kept.get((resource, namespace, name))


class Clock:
    """A wall clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)
