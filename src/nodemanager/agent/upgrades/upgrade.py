"""One upgrade of this host, from the lock of its group to the proof that it is back.

    Locking -> Cordoning -> Draining -> Working -> Returning -> Over
        |          |            |                      ^
        +----------+------------+----------------------+

What is done to the host itself is a task as any other, which it writes itself (`own_task.py`); here is what
is around it. Each arrow is on disk before what comes after it is done. After a crash, everything before
`Working` is done again, and the task goes on as its record says. Whatever happens, the end is `Returning`:
what we cordoned is uncordoned and the lock given back, however often that has to be tried.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import msgspec

from nodemanager.agent.tasks.engine import TaskEngine
from nodemanager.agent.tasks.ledger import Entry, LedgerError, LedgerFolder
from nodemanager.agent.tasks.reboots import BOOT_BEFORE
from nodemanager.agent.upgrades import own_task
from nodemanager.agent.upgrades.drain import DRAIN_SECONDS, KubernetesNode
from nodemanager.agent.upgrades.locks import SharedLocks
from nodemanager.agent.upgrades.own_task import (
    Order,
    Stage,
    UpgradeEntry,
    UpgradeResult,
    Upgrades,
    UpgradeTools,
)
from nodemanager.agent.upgrades.schedule import FORGIVENESS
from nodemanager.kube import errors, wording
from nodemanager.plan.tasks.record import TaskPhase
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.lease import Clocks

log = logging.getLogger(__name__)
RETRY: Final = Backoff(base=2.0, maximum=60.0)
TRIES: Final = 5
MAX_MESSAGE: Final = 1024
UNPROVEN: Final = "the host is not as declared, or its Node is not ready; see the status of its ManagedNode"


@dataclass(frozen=True, slots=True)
class UpgradeSettings:
    """Seconds, except where a type says otherwise."""

    forgiveness: timedelta = FORGIVENESS
    """How long after its slot an upgrade may start, and how long it may wait for its group."""
    drain: float = DRAIN_SECONDS
    lease: float = 1800.0
    """How long the group waits for a host that does not come back: longer than any reboot takes."""
    resume: timedelta = timedelta(hours=1)
    """An upgrade that was interrupted for longer than this before it changed anything is given up."""
    poll: float = 5.0


class _Skipped(Exception):
    """It was not our turn."""


@dataclass(slots=True)
class UpgradeDependencies:
    """What an upgrade needs."""

    tools: UpgradeTools
    locks: SharedLocks
    node: KubernetesNode
    ledger: LedgerFolder
    clocks: Clocks
    may_act: Callable[[], bool] = lambda: True
    in_turn: Callable[[], bool] = lambda: True
    """Whether no work goes on that an upgrade must not meet; asked before one begins."""
    tasks: Callable[[], Iterable[Entry]] = tuple
    """Returns the operator's tasks that this host remembers: some of them upgrade it."""


class Upgrader:
    """Carries out upgrades, one at a time."""

    def __init__(
        self,
        dependencies: UpgradeDependencies,
        settings: UpgradeSettings,
        changed: Callable[[UpgradeEntry], None],
    ) -> None:
        self.entry = own_task.latest(dependencies.ledger.entries.values())
        """The upgrade that is under way, or was the last."""
        self._deps = dependencies
        self._settings = settings
        self._changed = changed
        self._engine: TaskEngine | None = None
        self._steps: dict[Stage, Callable[[], Awaitable[None]]] = {
            Stage.LOCKING: self._lock,
            Stage.CORDONING: self._cordon,
            Stage.DRAINING: self._drain,
            Stage.WORKING: self._work,
        }

    async def run(self, order: Order) -> UpgradeEntry:
        """Do one upgrade, to whatever end."""
        deps = self._deps
        entry = own_task.write(order, deps.node.name, self._next_token(), deps.clocks.wall())
        self.entry = entry  # at once: other work that wants to begin looks at it
        try:
            boot_id = await deps.tools.reboots.boot.boot_id()
            record = msgspec.structs.replace(entry.record, boot_id=boot_id)
            self._save(msgspec.structs.replace(entry, record=record))
        except OSError as error:  # nothing was done yet, and nothing is done without a record
            failed = msgspec.structs.replace(entry.record, phase=TaskPhase.FAILED, message=str(error))
            self.entry = msgspec.structs.replace(entry, record=failed, stage=Stage.OVER)
            return self.entry
        return await self._advance()

    def ask(self, order: Order) -> None:
        """Write down that the operator is asked to begin an upgrade."""
        deps = self._deps
        entry = own_task.write(order, deps.node.name, self._next_token(), deps.clocks.wall())
        self._save_if_possible(msgspec.structs.replace(entry, stage=Stage.ASKING))

    def answered(self, phase: TaskPhase, message: str) -> UpgradeEntry:
        """Write down what became of asking; nothing is left to be cleaned up."""
        said, now = wording.shorten(message, MAX_MESSAGE), self._deps.clocks.wall()
        record = msgspec.structs.replace(self.entry.record, phase=phase, message=said, ended_at=now)
        self._save_if_possible(msgspec.structs.replace(self.entry, record=record, stage=Stage.OVER))
        return self.entry

    def _next_token(self) -> int:
        return 1 + max((one.record.token for one in self._deps.ledger.entries.values()), default=0)

    async def resume(self) -> UpgradeEntry | None:
        """Finish or undo what an earlier process began; None if there is nothing."""
        stage = self.entry.stage
        if not self.entry.is_under_way:
            return None
        log.info("an upgrade was interrupted in stage %s", stage)
        ours = stage is Stage.RETURNING or await self._reclaim()
        if not ours and self.entry.is_untouched:
            self._end(TaskPhase.FAILED, f"it was interrupted in stage {stage}, and its lock is lost")
        elif self.entry.is_untouched and await self._is_too_late():
            why = f"it was interrupted in stage {stage} for too long, or by a reboot"
            self._end(TaskPhase.FAILED, why)
        elif self.entry.awaits_reboot and await self._is_same_boot():
            await self._prepare_again()
        return await self._advance()

    async def _prepare_again(self) -> None:
        """Have no host go down that others count on again: what we held may have been given back."""
        record, now = self.entry.record, self._deps.clocks.wall()
        upgraded = record.steps[own_task.UPGRADE].finished_at or record.claimed_at
        if upgraded is None or not upgraded <= now <= upgraded + self._settings.resume:
            self._end(TaskPhase.FAILED, "it was interrupted for too long before the reboot that it needs")
        else:
            self._go(Stage.CORDONING)

    async def _is_too_late(self) -> bool:
        began, now = self.entry.record.claimed_at, self._deps.clocks.wall()
        in_time = began is not None and began <= now <= began + self._settings.resume
        return not in_time or not await self._is_same_boot()

    async def _is_same_boot(self) -> bool:
        return await self._deps.tools.reboots.boot.boot_id() == self.entry.record.boot_id

    async def _reclaim(self) -> bool:
        """Find out whether the lock is still ours, however long the API takes to tell."""
        if not self.entry.group or self.entry.stage is Stage.LOCKING:
            return True
        for failures in range(1, 1_000_000):
            try:
                return await self._deps.locks.claim(self.entry.group, self._settings.lease)
            except errors.KubeError as error:
                log.warning("cannot ask for lock %s: %s", self.entry.group, error)
                await asyncio.sleep(RETRY.delay(failures))
        return False

    async def _advance(self) -> UpgradeEntry:
        while (stage := self.entry.stage) is not Stage.RETURNING:
            try:
                await self._steps[stage]()
            except _Skipped as why:
                self._end(TaskPhase.EXPIRED, str(why))
            except (errors.KubeError, OSError) as error:
                self._end(TaskPhase.FAILED, f"{stage}: {error}")
            except Exception as error:
                log.exception("the upgrade failed in a way that nobody foresaw")
                self._end(TaskPhase.FAILED, f"{stage}: {error!r}")
        return await self._return()

    # What is done, stage by stage

    async def _lock(self) -> None:
        entry, clocks = self.entry, self._deps.clocks
        end = (entry.slot or clocks.wall()) + self._settings.forgiveness
        if clocks.wall() > end:
            raise _Skipped("it was interrupted before it began, and its window is over")
        if entry.group:
            while why := await self._try_lock():
                self._check_permission()
                if clocks.wall() + timedelta(seconds=self._settings.poll) > end:
                    raise _Skipped(f"group {entry.group}: {why}")
                await asyncio.sleep(self._settings.poll)
        self._check_permission()
        self._go(Stage.CORDONING)

    def _check_permission(self) -> None:
        """Begin with nothing that somebody has forbidden while we waited for our turn."""
        if not self._deps.may_act():
            raise _Skipped("the host is held since it waits for its turn")

    async def _try_lock(self) -> str:
        """Return why the lock is not ours, if it is not."""
        group = self.entry.group
        try:
            if await self._deps.locks.claim(group, self._settings.lease):
                return ""
        except errors.Forbidden as error:
            return f"{error}; allow the host to take that Lease: `nodemanager rbac --lock-group {group}`"
        except errors.KubeError as error:
            return str(error)
        return f"it is the turn of {self._deps.locks.holder(group)}"

    async def _cordon(self) -> None:
        self._check_lock()
        ours = await self._patiently(self._deps.node.cordon)
        cordoned = self.entry.cordoned or self._deps.clocks.wall()
        self._go(Stage.DRAINING, cordoned=cordoned if ours else None)

    async def _patiently(self, work: Callable[[], Awaitable[bool]]) -> bool:
        """Do what a server in trouble may refuse for a moment."""
        for failures in range(1, TRIES):
            try:
                return await work()
            except (errors.TransportError, errors.InternalError, errors.ServiceUnavailable) as error:
                log.warning("trying again: %s", error)
                await asyncio.sleep(RETRY.delay(failures))
        return await work()

    async def _drain(self) -> None:
        self._check_lock()
        await self._deps.node.drain(self._settings.drain)
        record = msgspec.structs.replace(self.entry.record, phase=TaskPhase.RUNNING)
        self._go(Stage.WORKING, record=record)

    async def _work(self) -> None:
        if self._engine is None:
            self._engine = await self._make_engine()
        await self._engine.run(self.entry)
        self._save_if_possible(msgspec.structs.replace(self.entry, stage=Stage.RETURNING))

    async def _make_engine(self) -> TaskEngine:
        tools = self._deps.tools
        performers = {
            "packages": Upgrades(tools, self._check_lock),
            "reboot": replace(tools.reboots, ready=self._prolong_lock),
            "probe": replace(tools.probes, settled=self._prove, unsettled=UNPROVEN),
        }
        boot_id = await tools.reboots.boot.boot_id()
        return TaskEngine(self._deps.ledger, performers, boot_id, self._deps.clocks.wall, self._follow)

    def _follow(self, entry: Entry) -> None:
        """Hear from the engine what it has written down."""
        if isinstance(entry, UpgradeEntry):
            self.entry = entry
            self._changed(entry)

    async def _prove(self) -> None:
        """Wait until all is as declared, and the Node ready; what its kubelet said before does not count."""
        await self._deps.tools.probes.settled()
        before = self.entry.record.steps[own_task.REBOOT].evidence.get(BOOT_BEFORE, "")
        while True:
            try:
                if await self._deps.node.ready(before):
                    return
            except errors.KubeError as error:
                log.debug("cannot look at the Node: %s", error)
            await asyncio.sleep(self._settings.poll)

    async def _return(self) -> UpgradeEntry:
        """Undo what is not to stay, however long it takes, and remember how it went."""
        untouched = self.entry.result is UpgradeResult.SKIPPED and self.entry.cordoned is None
        todo = [] if untouched else [self._uncordon]
        todo += [self._release] if self.entry.group else []
        failures = 0
        while todo:
            todo = [one for one in todo if not await _succeeds(one)]
            if todo:
                failures += 1
                await asyncio.sleep(RETRY.delay(failures))
        self._save_if_possible(msgspec.structs.replace(self.entry, stage=Stage.OVER, cordoned=None))
        return self.entry

    async def _uncordon(self) -> None:
        await self._deps.node.uncordon()
        self.entry = msgspec.structs.replace(self.entry, cordoned=None)

    async def _release(self) -> None:
        group = self.entry.group
        try:
            await self._deps.locks.release(group)
        except errors.Forbidden as error:  # to try until we may would keep us from all that comes later
            log.warning("lock %s: cannot give it back, if it is ours it runs out by itself: %s", group, error)

    # What is remembered

    def _check_lock(self) -> None:
        if self.entry.group:
            self._deps.locks.check(self.entry.group)

    async def _prolong_lock(self) -> None:
        """Make sure that the lock outlives a reboot; try as long as it is ours."""
        while self.entry.group:
            try:
                await self._deps.locks.prolong(self.entry.group)
            except errors.KubeError as error:
                log.warning("cannot renew lock %s before the reboot: %s", self.entry.group, error)
                await asyncio.sleep(self._settings.poll)
            else:
                return

    def _go(self, stage: Stage, **changes: Any) -> None:
        self._save(msgspec.structs.replace(self.entry, stage=stage, **changes))

    def _end(self, phase: TaskPhase, message: str) -> None:
        """Turn to the end, with what is left to be cleaned up."""
        said, now = wording.shorten(message, MAX_MESSAGE), self._deps.clocks.wall()
        record = msgspec.structs.replace(self.entry.record, phase=phase, message=said, ended_at=now)
        self._save_if_possible(msgspec.structs.replace(self.entry, record=record, stage=Stage.RETURNING))

    def _save(self, entry: UpgradeEntry) -> None:
        self._deps.ledger.save(entry)
        self._follow(entry)

    def _save_if_possible(self, entry: UpgradeEntry) -> None:
        """Go on without a record where going on means to clean up."""
        try:
            self._deps.ledger.save(entry)
        except LedgerError as error:
            log.warning("%s", error)
        self._follow(entry)


async def _succeeds(work: Callable[[], Awaitable[None]]) -> bool:
    try:
        await work()
    except Exception as error:  # noqa: BLE001 - nothing may keep us from trying again
        log.warning("cannot clean up after the upgrade, trying again: %s", error)
        return False
    return True
