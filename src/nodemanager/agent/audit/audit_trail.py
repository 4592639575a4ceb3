"""Writes the work of the agent to the chain of the host, at most once a second.

    passes, repairs, drifts -> within a second, and before the status that tells of them -> on disk
    tasks, upgrades         -> at once, and before a reboot                              -> on disk

Memory cards wear out, so other records are not synced separately. A disk that is full, slow or read-only
stops no work; the log and the condition Recorded report it. They also report a chain other than the one
that the status had before: it was removed, or an old one was restored.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from nodemanager.agent.audit.trail_writer import RETRY, TrailWriter
from nodemanager.agent.passes.host_state import DriftRecorder
from nodemanager.agent.report import status
from nodemanager.api.common import node_conditions
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import DriftRecord, ManagedNodeStatus
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.host.state.journal import STATE
from nodemanager.kube import conditions
from nodemanager.kube.conditions import Condition

if TYPE_CHECKING:  # loaded with the first record: most hosts have none for days
    from nodemanager.agent.tasks.ledger import Entry
    from nodemanager.api.common.audit_chain import AuditChain
    from nodemanager.plan.tasks.record import TaskRecord

log = logging.getLogger(__name__)
INTERVAL: Final = 1.0
"""Seconds between two writes, at least; urgent records do not wait."""
LOOK: Final = 10.0
"""After so many seconds we look whether other programs have added to the chain."""
HOUR: Final = 3600.0
MAX_DRIFTING: Final = 4096
"""How many resources have their drifts summed up; for further ones, each drift is a record."""
MAX_TASKS: Final = 64
"""How many current tasks keep their last record; with more, the oldest is forgotten."""
_UPGRADES: Final = ("UpgradeStarted", "Upgraded", "UpgradeFailed")


@dataclass(slots=True)
class _Sum:
    """Drifts of one resource since its last record."""

    since: float
    last: DriftRecord | None = None
    count: int = 0


class AuditTrail:
    """Records what the agent does; a part that writes in the background."""

    name = "audit trail"

    def __init__(
        self, root: str = "/", folder: str = STATE, host: str = "", *, every_drift: bool = False,
        clock: Callable[[], float] = time.monotonic, ask: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._ask = ask
        """Asks for a write of the status."""
        self._host = host
        self._every_drift = every_drift
        self._clock = clock
        self._writer = TrailWriter(root, folder, host, clock)
        self._replaced = ""
        self._drifts: dict[str, _Sum] = {}
        self._tasks: dict[str, TaskRecord] = {}

    # What happens

    def changed(self, sets: Sequence[ConfigSet], results: Sequence[Result]) -> None:
        """Record what a pass or a repair changed; unchanged resources are not recorded."""
        if any(one.outcome is ResourceOutcome.CHANGED and not one.drifted for one in results):
            from nodemanager.agent.audit import trail_records

            self._writer.add(trail_records.of_results(sets, results))

    def drifted(self, one: DriftRecord) -> None:
        """Record a drift: the first of a resource at once, those of the next hour as one, unless asked."""
        from nodemanager.agent.audit import trail_records

        known, now = self._drifts.get(one.resource), self._clock()
        if known is not None and now - known.since < HOUR and not self._every_drift:
            known.last, known.count = one, known.count + 1
            return
        self._sum_up(now)
        if len(self._drifts) < MAX_DRIFTING and not self._every_drift:
            self._drifts[one.resource] = _Sum(now)
        self._writer.add([trail_records.of_drift(one)])

    def task(self, entry: Entry) -> None:
        """Record the progress of a task at once; `settle` says when it is on disk."""
        from nodemanager.agent.audit import trail_records

        now = entry.record
        found = trail_records.of_task(entry.name, entry.spec.steps, self._tasks.get(now.uid), now)
        self._tasks[now.uid] = now
        if now.phase.is_end:
            del self._tasks[now.uid]
        while len(self._tasks) > MAX_TASKS:  # some end without a message, such as withdrawn ones
            del self._tasks[next(iter(self._tasks))]
        if found:
            self._writer.add(found)
            self._writer.hurry()

    def knows(self, entries: Sequence[Entry]) -> None:
        """Learn how far tasks were when this process began: the process before recorded that."""
        self._tasks = {one.record.uid: one.record for one in entries if not one.record.phase.is_end}

    def upgraded(self, reason: str) -> None:
        """Record that an upgrade began or ended; other reasons are not about upgrades."""
        if reason in _UPGRADES:
            from nodemanager.agent.audit import trail_records

            self._writer.add([trail_records.of_upgrade(reason, self._host)])
            self._writer.hurry()

    def _sum_up(self, now: float, *, all_of_it: bool = False) -> None:
        """Make records of drifts whose hour is over."""
        over = [name for name, one in self._drifts.items() if all_of_it or now - one.since >= HOUR]
        for name in over:
            one = self._drifts.pop(name)
            if one.last is not None:
                from nodemanager.agent.audit import trail_records

                self._writer.add([trail_records.of_drift(one.last, one.count)])

    # Keeping it

    async def run(self) -> None:
        """Write new records, not too often, until cancelled; then write the rest."""
        writer = self._writer
        try:
            while True:
                try:
                    async with asyncio.timeout(LOOK):
                        await writer.news.wait()
                except TimeoutError:
                    self._sum_up(self._clock())
                    if await writer.grew():  # a record made by hand: the status does not report it yet
                        self._ask()
                    continue
                await asyncio.sleep(RETRY if writer.problem else INTERVAL)
                self._sum_up(self._clock())
                if writer.news.is_set():
                    await writer.write()
        finally:
            self._sum_up(self._clock(), all_of_it=True)
            await writer.finish()

    async def settle(self) -> None:
        """Write everything so far to disk, if the disk accepts it; waits for a moment at most."""
        await self._writer.settle()

    def close(self) -> None:
        """Give back what is held open."""
        self._writer.close()

    # What is said

    def contribute(self, found: ManagedNodeStatus, now: datetime, generation: int) -> ManagedNodeStatus:
        """Return the status with the end of the chain as last synced, and whether it can be written."""
        if self._writer.looked:
            anchor, told = self._writer.anchor, self._writer.told
            self._compare(found.audit_chain, anchor)
            found = msgspec.structs.replace(found, audit_chain=anchor, audit_records=told)
        known = conditions.get(found.conditions, node_conditions.RECORDED) is not None
        problem = self._writer.problem or self._replaced
        if not problem and not known:
            return found
        said = Condition(
            type=node_conditions.RECORDED, status=conditions.TRUE, reason=node_conditions.WRITTEN
        )
        if problem:
            why = node_conditions.CANNOT_RECORD if self._writer.problem else node_conditions.CHAIN_REPLACED
            said = Condition(
                type=node_conditions.RECORDED, status=conditions.FALSE, message=problem, reason=why
            )
        return status.of_condition(found, said, now, generation)

    def _compare(self, told: AuditChain | None, mine: AuditChain | None) -> None:
        """Report only once that the chain is another one: two machines of one name would never end."""
        if self._replaced or told is None or not (why := _difference(told, mine)):
            return
        from nodemanager.agent.audit import trail_records

        self._replaced = f"{why}: it was removed, or an older state of the host was restored"
        log.warning("%s", self._replaced)
        self._writer.add([trail_records.of_replaced(self._replaced)])


def _difference(told: AuditChain, mine: AuditChain | None) -> str:
    """Return why a chain cannot be the reported one; empty = it may be."""
    if mine is None:
        return f"the chain of this host is gone, of which {told.size} records were told"
    if mine.id != told.id:
        return f"the chain of this host is another one than that of which {told.size} records were told"
    if mine.size < told.size:
        return f"the chain of this host has {mine.size} records, although {told.size} were told of"
    if mine.size == told.size and mine.head != told.head:
        return f"record {told.size - 1} of the chain of this host is not the one that was told of"
    return ""


@dataclass(frozen=True, slots=True)
class RecordedDrifts:
    """Numbers every drift, and records it."""

    drifts: DriftRecorder
    trail: AuditTrail

    def add(self, record: DriftRecord) -> DriftRecord:
        """Number a drift and return it, without waiting."""
        numbered = self.drifts.add(record)
        self.trail.drifted(numbered)
        return numbered

    async def settle(self) -> bool:
        """Write to disk what was added until now; tell whether it is there."""
        return await self.drifts.settle()
