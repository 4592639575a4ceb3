"""Backends say what they can do, by the words of `api/edge/capabilities.py`.

Who has a word has the methods of its Protocol, and no others have them: so `isinstance(backend,
Snapshotting)` asks for it, and `lacks` is what to say of a backend of which that is not true.
"""

from __future__ import annotations

from typing import Protocol

from nodemanager.api.edge.capabilities import SitePart
from nodemanager.backends.errors import Unsupported


class Declaring(Protocol):
    """Something that says what it can do."""

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
