"""Removes every Event an hour after it was last written, as kube-apiserver does.

The time is in its metadata: when it was created, and when each of its managers wrote it. Both are the
server's own notes. A client may forge the latter, but a time that is yet to come counts for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime
from typing import Final

import msgspec

from nodemanager.kube.objects import Struct
from nodemanager.server.hub import Hub
from nodemanager.server.kinds.builtin_kinds import EVENTS
from nodemanager.store.base import KeyMissing, Mismatch, StoreError, StoreRecord

SECONDS: Final = 3600.0
LOOK_SECONDS: Final = 30.0
BATCH: Final = 200


class _Entry(Struct):
    time: str | None = None


class _Meta(Struct):
    creation_timestamp: str | None = None
    managed_fields: list[_Entry] | None = None


class _Dated(Struct):
    metadata: _Meta = _Meta()


class Expiry:
    """Removes expired Events."""

    def __init__(self, hub: Hub, seconds: float = SECONDS) -> None:
        self._hub = hub
        self._seconds = seconds
        self._known: dict[str, tuple[int, float]] = {}
        """The revision of each Event at the last look, and when that was written."""

    async def run(self) -> None:
        """Look now and then, until cancelled; while nothing can be written, all Events stay."""
        while True:
            with contextlib.suppress(StoreError):
                await self.sweep()
            await asyncio.sleep(LOOK_SECONDS)

    async def sweep(self) -> None:
        """Remove what is over by now."""
        now, found, over = self._hub.now().timestamp(), {}, []
        for number, record in enumerate(self._hub.store.list(EVENTS.prefix()).records):
            seen = self._known.get(record.key)
            if seen is None or seen[0] != record.revision:
                seen = (record.revision, written(record, now))
                if number % BATCH == 0:
                    await self._hub.turn.take()  # there may be many, and others wait
            found[record.key] = seen
            if seen[1] + self._seconds <= now:
                over.append(record)
        self._known = found
        for start in range(0, len(over), BATCH):
            await asyncio.gather(*(self._remove(record) for record in over[start : start + BATCH]))

    async def _remove(self, record: StoreRecord) -> None:
        with contextlib.suppress(KeyMissing, Mismatch):  # another writer was faster, or has just written it
            await self._hub.store.delete(record.key, record.revision)


def written(record: StoreRecord, now: float) -> float:
    """Return when an Event was last written; one without any date counts as written now."""
    try:
        meta = msgspec.json.decode(record.value, type=_Dated).metadata
    except msgspec.MsgspecError:
        return now
    texts = [meta.creation_timestamp, *(one.time for one in meta.managed_fields or [])]
    times = (_seconds(text) for text in texts if text)
    return max((time for time in times if time <= now), default=now)


def _seconds(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return float("inf")
    return moment.timestamp() if moment.tzinfo else float("inf")
