"""Where a copy of the log goes: what the exporter asks of a folder, or of object storage."""

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
    """Name of the segment that is not sealed yet; empty = there is none."""
    data: bytes
    """Its lines, with the newest checkpoint where that covers records of it."""
    keys: tuple[str, ...]
    note: str
    """The newest checkpoint."""


class Copy(Protocol):
    """A place outside the API."""

    name: str
    """For people, without a secret."""

    async def keep(self, name: str, data: bytes) -> None:
        """Put a segment that does not change any more; raises LostTrack where that cannot be."""

    async def show(self, newest: Newest, now: datetime, /) -> bool:
        """Write the open segment, keys and checkpoint; True = done, or not due yet. Raises LostTrack."""
