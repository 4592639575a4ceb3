"""A folder of this machine that is kept as declared by the real watch and the real repair loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from nodemanager.agent.declared.desired_state import DesiredState
from nodemanager.agent.drift.drift import DriftWatch, declarations
from nodemanager.agent.drift.repair import HostWatch, RepairLoop
from nodemanager.agent.drift.repair_backoff import ContestedResource
from nodemanager.agent.passes.host_state import HostState, nobody
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import DriftRecord
from nodemanager.host.files.bucket import Bucket
from nodemanager.host.kind_parts import HostParts
from nodemanager.host.results import Result
from nodemanager.host.stages import PARTS
from nodemanager.host.watches import host_watch
from nodemanager.host.watches.by_kind import WATCHES
from nodemanager.host.watches.inbox import Touched
from nodemanager.host.watches.kind_watch import WatchedTools, Watches
from nodemanager.plan import merge
from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.stages import KINDS, HostKinds
from support.memory_host import Host
from support.root_tree import literal_contents

SECONDS = 50.0


class Drifts:
    """Takes drifts, in memory."""

    def __init__(self) -> None:
        self.records: list[DriftRecord] = []

    def add(self, record: DriftRecord) -> DriftRecord:
        self.records.append(msgspec.structs.replace(record, sequence=len(self.records) + 1))
        return self.records[-1]

    async def settle(self) -> bool:
        return True


class Hints:
    """A watch that tells what it is told."""

    shortfalls: tuple[str, ...] = ()
    lacking = False

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Touched] = asyncio.Queue()
        self.followed: list[Desired] = []

    async def follow(self, desired: Desired) -> None:
        self.followed.append(desired)

    async def touched(self) -> Touched:
        return await self._queue.get()

    def forget(self) -> None:
        self._queue = asyncio.Queue()

    def tell(self, *resources: ResourceId, since: float | None = None, **more: bool) -> None:
        """Touch these."""
        now = asyncio.get_running_loop().time() if since is None else since
        self._queue.put_nowait(Touched(frozenset(resources), since=now, **more))


class Kept:
    """A host with its repair loop running, and everything that it told."""

    def __init__(
        self,
        folder: Path,
        hints: Hints | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        kinds: HostKinds = KINDS,
        parts: HostParts = PARTS,
        watches: Watches = WATCHES,
    ) -> None:
        self.folder = folder
        self.seconds = SECONDS
        self.host = Host(folder, kinds, parts)
        self.host.converger.records.bucket = Bucket(self.host.tree, str(folder / "state" / "bucket"))
        self.drifts = Drifts()
        self.told: list[Result] = []
        self.reports: list[bool] = []
        self.told_contested: list[str] = []
        self._watch = None if hints else host_watch.HostWatch(self.host.tree, WatchedTools(), watches)
        self._seen: HostWatch = hints or self._watch  # type: ignore[assignment]
        who = nobody if self._watch is None else self._watch.who
        self.host_state = HostState(
            self.drifts, lambda: datetime.now(UTC), clock, DriftWatch(kinds=kinds), who=who
        )
        self.loop = RepairLoop(self._seen, self.host.converger, self.host_state, self, clock)
        self._news = asyncio.Event()

    def repaired(self, results: Sequence[Result], seconds: float) -> None:
        assert seconds >= 0
        self.told += results
        self._news.set()

    def contested(self, one: ContestedResource) -> None:
        self.told_contested.append(str(one.resource))

    def report(self, *, inventory: bool = False) -> None:
        self.reports.append(inventory)
        self._news.set()

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self.loop.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        if self._watch is not None:
            self._watch.close()
        self.host.tree.close()

    def desired_state(self, *sets: ConfigSet) -> DesiredState:
        """Return what these sets want."""
        kinds = self.host.kinds
        desired = merge.merge(sets, kinds)
        contents = literal_contents(desired)
        return DesiredState(desired, contents, declarations(desired, contents, kinds), kinds)

    async def converge(self, *sets: ConfigSet) -> list[Result]:
        """Do a pass, as the agent does."""
        desired_state = self.desired_state(*sets)
        async with self.host.converger.host_lock:
            observe_only = self.host_state.begin(desired_state)
        results = self.host_state.passed(
            await self.host.converger.run(desired_state.desired, desired_state.contents, observe_only)
        )
        await self.loop.follow()
        return results

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Wait until something holds, that is looked at whenever the loop tells something."""
        async with asyncio.timeout(self.seconds):
            while not condition():
                self._news.clear()
                await self._news.wait()
        assert condition(), what

    def outcomes(self) -> list[tuple[str, str]]:
        """Return all drifts so far, as resource below the folder and outcome."""
        return [
            (one.resource.removeprefix(f"file:{self.folder}"), one.outcome) for one in self.drifts.records
        ]
