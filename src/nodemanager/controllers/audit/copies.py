"""Where a copy of the log goes: what the exporter needs from a folder, or from object storage."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Newest:
    """The end of the log, which changes with every record."""

    size: int
    """How many records there are."""
    segment: str
    """The name of the segment that is still open; empty = there is none."""
    data: bytes
    """Its lines, with the newest checkpoint if that covers records of it."""
    keys: tuple[str, ...]
    note: str
    """The newest checkpoint."""


class Copy(Protocol):
    """A place for the copy outside the API."""

    name: str
    """The name for people, without a secret."""

    async def keep(self, name: str, data: bytes) -> None:
        """Store a segment that does not change any more; raises LostTrack if that is not possible."""

    async def show(self, newest: Newest, now: datetime, /) -> bool:
        """Write the open segment, keys and checkpoint; True = done, or not due yet. Raises LostTrack."""
