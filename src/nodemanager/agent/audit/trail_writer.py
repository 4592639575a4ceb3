"""Writes the agent's records to the chain of the host: in a thread, never on the event loop.

No other part waits longer than a moment for it, whatever the disk or another process does: what cannot be
written waits, some of it, and is counted beyond that. Until there is a record or a chain, no module of the
chain is loaded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from nodemanager.host.process.threads import in_thread
from nodemanager.host.state.journal import STATE

if TYPE_CHECKING:  # loaded with the first record: most hosts have nothing to record for days
    from nodemanager.api.audit.record import Record
    from nodemanager.api.common.audit_chain import AuditChain
    from nodemanager.host.state.host_chain import HostChain

log = logging.getLogger(__name__)
RETRY: Final = 30.0
"""After so many seconds, a failed disk is tried again, and the wait for a slow disk ends."""
MOMENT: Final = 2.0
"""Seconds that a status or a reboot waits for the disk, and that we wait for other writers."""
MAX_WAITING: Final = 256
"""How many records wait for a disk; beyond that, the oldest are counted and not kept."""


class TrailWriter:
    """Accepts records, and writes them to disk in order. All but `close` runs on the event loop."""

    def __init__(
        self, root: str = "/", folder: str = STATE, host: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._root, self._folder, self._host = root, folder, host
        self._clock = clock
        self._chain: HostChain | None = None
        self._waiting: deque[Record] = deque()
        self._lost = 0
        self._patient_from = float("-inf")
        self._writing: asyncio.Task[None] | None = None
        self._noticed: int | None = None
        """The length of the file after others last added to it, so that a torn end is not reported again."""
        self.news = asyncio.Event()
        """Set while there is something to write."""
        self.anchor: AuditChain | None = None
        """The end of the chain when it was last synced."""
        self.told: list[str] = []
        """The newest records that the status shows."""
        self.looked = False
        """Whether we have looked; if so, no anchor means that there is no chain."""
        self.problem = ""
        """Why no record can be written; empty = records can be written."""

    def add(self, found: Sequence[Record]) -> None:
        """Add records; they are written later, or soon if a caller hurries."""
        from nodemanager.kube import times

        now = times.rfc3339(datetime.now().astimezone())
        self._waiting.extend(one if one.time else msgspec.structs.replace(one, time=now) for one in found)
        self._bound()
        self.news.set()

    def hurry(self) -> None:
        """Ask for a write now, without waiting for it; a failed disk is not tried so often."""
        if not self.problem:
            self._writing = self._writer()

    async def settle(self) -> None:
        """Write to disk what happened so far, and learn the end of the chain; wait for a moment at most."""
        if self._clock() < self._patient_from:
            return
        done, _ = await asyncio.wait({self._writer()}, timeout=MOMENT)
        if not done:
            self._patient_from = self._clock() + RETRY

    async def grew(self) -> bool:
        """Tell whether another program has added to the chain since we last looked at its end."""
        size = await in_thread(self._size) if self.looked else None
        known = self._chain.length() if self._chain is not None else 0
        if size in (None, known, self._noticed):
            return False
        self._noticed = size
        return True

    async def write(self) -> None:
        """Write the waiting records, however long the disk takes."""
        await asyncio.wait({self._writer()})

    async def finish(self) -> None:
        """Write the waiting records, and count the lost ones: the next process reports them."""
        if self.news.is_set() or (self._writing is not None and not self._writing.done()):
            await self.write()
        if missing := len(self._waiting) + self._lost:
            await in_thread(partial(self._lose, missing))

    def close(self) -> None:
        """Give back what is held open."""
        if self._chain is not None:
            self._chain.close()

    def _writer(self) -> asyncio.Task[None]:
        """Return the writing task: there is only one at a time, so that records stay in order."""
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._write())
        return self._writing

    async def _write(self) -> None:
        while True:
            self.news.clear()
            batch, lost = list(self._waiting), self._lost
            self._waiting.clear()
            self._lost = 0
            fine = self._settled(batch, lost, await in_thread(partial(self._on_disk, batch, lost)))
            if not fine or not self.news.is_set():
                return

    def _settled(self, batch: list[Record], lost: int, done: AuditChain | Exception | None) -> bool:
        """Take over the result of a batch, and return whether the disk works."""
        if not isinstance(done, Exception):
            if done != self.anchor:
                self._tell()
            self.anchor, self.looked = done, True
            if self.problem and (batch or lost):
                log.info("what is done on this host is recorded again")
                self.problem = ""
            return True
        self._patient_from = self._clock() + RETRY
        if not batch and not lost:  # no record is missing: the last synced end is still right
            return False
        if not isinstance(done, OSError):  # an error in our code, which the same records would cause again
            batch, lost = [], lost + len(batch)
        elif not self.problem:
            log.error("%s; what is done meanwhile is counted", done)
        self.problem = str(done) if isinstance(done, OSError) else f"{type(done).__name__}, see the log"
        self._waiting.extendleft(reversed(batch))
        self._lost += lost
        self._bound()
        self.news.set()
        return False

    def _tell(self) -> None:
        from nodemanager.api.audit import host_records

        self.told = host_records.told(self._chain.recent() if self._chain is not None else ())

    def _bound(self) -> None:
        while len(self._waiting) > MAX_WAITING:
            self._waiting.popleft()
            self._lost += 1

    # In a thread

    def _on_disk(self, batch: Sequence[Record], lost: int) -> AuditChain | Exception | None:
        """Return the end of the chain with these records, or why they are not in it."""
        try:
            if batch or lost:
                return self._opened().append(batch, lost)
            return self._opened().anchor() if self._chain is not None or self._is_there() else None
        except OSError as error:
            return error
        except Exception as error:
            log.exception("what was done on this host cannot be recorded, in a way that nobody foresaw")
            return error

    def _lose(self, count: int) -> None:
        with contextlib.suppress(OSError):
            self._opened().lose(count)

    def _opened(self) -> HostChain:
        if self._chain is None:
            from nodemanager.host.state.host_chain import HostChain

            self._chain = HostChain(self._root, self._folder, self._host, patience=MOMENT)
        return self._chain

    def _size(self) -> int | None:
        try:
            return os.lstat(f"{self._root.rstrip('/')}{self._folder}/audit.chain").st_size
        except OSError:
            return None

    def _is_there(self) -> bool:
        folder = f"{self._root.rstrip('/')}{self._folder}"
        return any(os.path.lexists(f"{folder}/{name}") for name in ("audit.chain", "audit.chain.1"))
