"""A copy of the log in a folder: a file of JSON lines for each segment, and the newest checkpoint.

    segment-000000000000.jsonl   a segment as `nodemanager audit verify` reads it; the last one grows
    checkpoint                   the newest checkpoint, a signed note
    keys                         the public keys that have signed, one on each line

Files are written beside their place and renamed, so that none is ever incomplete. A file that has records
which the new one lacks is of another log, or was altered: it is never overwritten.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from nodemanager.controllers.audit.copies import Newest
from nodemanager.controllers.audit.storing import LostTrack
from nodemanager.fleet.audit import evidence

T = TypeVar("T")


class FolderCopy:
    """Copies to a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = str(folder)

    async def keep(self, name: str, data: bytes) -> None:
        """Store a segment that does not change any more; raises LostTrack if that is not possible."""
        await self._put_segment(f"{name}.jsonl", data)

    async def show(self, newest: Newest, _now: datetime) -> bool:
        """Store the open segment, keys and checkpoint; return whether that was done. Raises LostTrack."""
        if newest.segment:
            await self._put_segment(f"{newest.segment}.jsonl", newest.data)
        await self._put("keys", "".join(f"{key}\n" for key in newest.keys).encode())
        await self._put("checkpoint", newest.note.encode())
        return True

    async def _put_segment(self, name: str, data: bytes) -> None:
        if not await self._done(goes_on, name, data):
            raise LostTrack(
                f"cannot export the audit log to {self._folder}: {name} is there, and has other records: it"
                " is of another log, or somebody changed it; it is not overwritten. Keep it, and give"
                " --audit-export another folder"
            )
        await self._put(name, data)

    async def _put(self, name: str, data: bytes) -> None:
        await self._done(replace, name, data)

    async def _done(self, work: Callable[[Path, str, bytes], T], name: str, data: bytes) -> T:
        try:
            return await asyncio.to_thread(work, self._folder, name, data)
        except OSError as error:
            raise LostTrack(
                f"cannot export the audit log to {self._folder}: {error.strerror}; see that the operator may"
                " write there, and that there is room"
            ) from error


def goes_on(folder: Path, name: str, data: bytes) -> bool:
    """Tell whether a segment has all records of the existing file with its name."""
    try:
        with open(folder / name, "rb", opener=_private) as file:
            there = _records(file.read())
    except FileNotFoundError:
        return True
    return _records(data)[: len(there)] == there


def _records(data: bytes) -> list[bytes]:
    marks = (evidence.KEY, evidence.SEGMENT, evidence.CHECKPOINT)
    return [line for line in data.splitlines() if not line.startswith(marks)]


def replace(folder: Path, name: str, data: bytes) -> None:
    """Replace a file at once; it is on disk when this returns."""
    beside = folder / f".{name}.new"
    with open(beside, "wb", opener=_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(folder / name)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
