"""Backends declare what they can do, by the words of `api/edge/capabilities.py`.

A backend with a word has the methods of its Protocol, and no other backend has them: so `isinstance(backend,
Snapshotting)` asks for it, and `lacks` is the error text about a backend without it.
"""

from __future__ import annotations

from typing import Protocol

from nodemanager.api.edge.capabilities import SitePart
from nodemanager.backends.errors import Unsupported


class Declaring(Protocol):
    """An object that declares what it can do."""

    @property
    def name(self) -> str:
        """How profiles call it."""

    @property
    def capabilities(self) -> frozenset[str]:
        """What it can do."""


def lacks(backend: Declaring, part: SitePart, capability: str) -> Unsupported:
    """Return what to say where a backend cannot do something that is needed."""
    return Unsupported(
        f"cannot use {capability}: {backend.name} has none; choose another spec.{part.field}, or leave out"
        " what needs it"
    )
