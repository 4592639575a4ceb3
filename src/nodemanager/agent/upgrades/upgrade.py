"""One upgrade of this host, from the lock of its group to the proof that it is back.

    Locking -> Cordoning -> Draining -> Upgrading -> Upgraded -> Rebooting -> Proving
        |          |            |           |           |            |           |
        +----------+------------+-----------+-----------+------------+-----------+---> Returning -> Idle

Each arrow is on disk before what comes after it is done, so whoever finds the record knows what may have
been done. After a crash, everything before `Upgrading` is done again (all of it may be done twice);
an upgrade that was interrupted is a failure and is not repeated in its slot; and in the boot that asked
for a reboot nothing more is done. Whatever happens, the end is `Returning`: what we cordoned is uncordoned
and the lock is given back, however often that has to be tried.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from nodemanager.agent.holds import held_timeout
from nodemanager.agent.upgrades.drain import DRAIN_SECONDS, KubernetesNode
from nodemanager.agent.upgrades.locks import LockLost, SharedLocks
from nodemanager.agent.upgrades.schedule import FORGIVENESS
from nodemanager.agent.upgrades.upgrade_host import UpgradeHost
from nodemanager.agent.upgrades.upgrade_record import (
    Phase,
    RecordError,
    Records,
    UpgradeRecord,
    UpgradeResult,
)
from nodemanager.host.base import HostError, NotSupported
from nodemanager.host.process.runner import CommandNotFound, RunError
from nodemanager.kube import errors, wording
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.lease import Clocks

log = logging.getLogger(__name__)
RETRY: Final = Backoff(base=2.0, maximum=60.0)
TRIES: Final = 5
MAX_MESSAGE: Final = 1024

Prove = Callable[[], Awaitable[None]]
"""Returns when the agent says that the host is as it shall be."""


@dataclass(frozen=True, slots=True)
class UpgradeSettings:
    """Seconds, except where a type says otherwise."""

    forgiveness: timedelta = FORGIVENESS
    """How long after its slot an upgrade may start, and how long it may wait for its group."""
    drain: float = DRAIN_SECONDS
    reboot: float = 600.0
    """How long a host may take to go down."""
    prove: float = 900.0
    """How long a host may take, once its agent runs again and it is not held, to be as it shall be."""
    lease: float = 1800.0
    """How long the group waits for a host that does not come back: longer than any reboot takes."""
    resume: timedelta = timedelta(hours=1)
    """An upgrade that was interrupted for longer than this before it did anything is given up."""
    poll: float = 5.0


@dataclass(frozen=True, slots=True)
class Order:
    """What to do in which slot."""

    slot: datetime
    group: str = ""
    reboot: str = ""
    """Why to reboot in any case; empty = only if the upgrade needs it."""


@dataclass(frozen=True, slots=True)
class UpgradeOutcome:
    """What became of an upgrade."""

    result: UpgradeResult
    message: str
    seconds: float


class UpgradeFailed(Exception):
    """Why an upgrade ends here."""


class _Skipped(Exception):
    """It was not our turn."""


@dataclass(slots=True)
class UpgradeDependencies:
    """What an upgrade is done with."""

    host: UpgradeHost
    locks: SharedLocks
    node: KubernetesNode
    records: Records
    prove: Prove
    clocks: Clocks
    may_act: Callable[[], bool] = lambda: True
    in_turn: Callable[[], bool] = lambda: True
    """Whether nothing else is at work that an upgrade must not meet; asked before one begins."""


class Upgrader:
    """Carries out upgrades, one at a time."""

    def __init__(
        self,
        dependencies: UpgradeDependencies,
        settings: UpgradeSettings,
        changed: Callable[[UpgradeRecord], None],
    ) -> None:
        self.record = dependencies.records.load()
        self._deps = dependencies
        self._settings = settings
        self._changed = changed
        self._steps: dict[Phase, Callable[[], Awaitable[None]]] = {
            Phase.LOCKING: self._lock,
            Phase.CORDONING: self._cordon,
            Phase.DRAINING: self._drain,
            Phase.UPGRADING: self._upgrade,
            Phase.UPGRADED: self._decide_reboot,
            Phase.REBOOTING: self._await_reboot,
            Phase.PROVING: self._prove,
        }

    async def run(self, order: Order) -> UpgradeOutcome:
        """Do one upgrade, to whatever end."""
        kept = self.record
        record = UpgradeRecord(
            phase=Phase.LOCKING,
            slot=order.slot,
            began=self._deps.clocks.wall(),
            group=order.group,
            reboot=order.reboot,
            last_started=kept.last_started,
            last_done=kept.last_done,
        )
        try:
            self._save(msgspec.structs.replace(record, boot_id=await self._deps.host.boot_id()))
        except OSError as error:  # nothing was done yet, and nothing is done without a record
            self.record = msgspec.structs.replace(
                record, phase=Phase.IDLE, result=UpgradeResult.ERROR, message=str(error)
            )
            return UpgradeOutcome(UpgradeResult.ERROR, str(error), 0.0)
        return await self._advance()

    async def resume(self) -> UpgradeOutcome | None:
        """Finish or undo what an earlier process began; None if there is nothing."""
        phase = self.record.phase
        if phase is Phase.IDLE:
            return None
        log.info("an upgrade was interrupted in phase %s", phase)
        if phase is Phase.UPGRADING:
            self._end(
                UpgradeResult.ERROR, "the agent or the host went down during the upgrade of its packages"
            )
        elif phase is not Phase.RETURNING:
            if not await self._reclaim() and phase in (Phase.CORDONING, Phase.DRAINING, Phase.UPGRADED):
                self._end(UpgradeResult.ERROR, f"it was interrupted in phase {phase}, and its lock is lost")
            elif phase in (Phase.LOCKING, Phase.CORDONING, Phase.DRAINING) and await self._is_too_late():
                self._end(
                    UpgradeResult.ERROR, f"it was interrupted in phase {phase} for too long, or by a reboot"
                )
        return await self._advance()

    async def _is_too_late(self) -> bool:
        began, now = self.record.began, self._deps.clocks.wall()
        same_boot = await self._deps.host.boot_id() == self.record.boot_id
        return not same_boot or began is None or not began <= now <= began + self._settings.resume

    async def _reclaim(self) -> bool:
        """Find out whether the lock is still ours, however long the API takes to tell."""
        if not self.record.group or self.record.phase is Phase.LOCKING:
            return True
        for failures in range(1, 1_000_000):
            try:
                return await self._deps.locks.claim(self.record.group, self._settings.lease)
            except errors.KubeError as error:
                log.warning("cannot ask for lock %s: %s", self.record.group, error)
                await asyncio.sleep(RETRY.delay(failures))
        return False

    async def _advance(self) -> UpgradeOutcome:
        while self.record.phase is not Phase.RETURNING:
            phase = self.record.phase
            try:
                await self._steps[phase]()
            except _Skipped as why:
                self._end(UpgradeResult.SKIPPED, str(why))
            except (UpgradeFailed, errors.KubeError, OSError) as error:
                self._end(UpgradeResult.ERROR, f"{phase}: {error}")
            except Exception as error:
                log.exception("the upgrade failed in a way that nobody foresaw")
                self._end(UpgradeResult.ERROR, f"{phase}: {error!r}")
        return await self._return()

    # What is done, phase by phase

    async def _lock(self) -> None:
        record, clocks = self.record, self._deps.clocks
        end = (record.slot or clocks.wall()) + self._settings.forgiveness
        if clocks.wall() > end:
            raise _Skipped("it was interrupted before it began, and its window is over")
        if record.group:
            while why := await self._try_lock():
                if clocks.wall() + timedelta(seconds=self._settings.poll) > end:
                    raise _Skipped(f"group {record.group}: {why}")
                await asyncio.sleep(self._settings.poll)
        self._go(Phase.CORDONING)

    async def _try_lock(self) -> str:
        """Return why the lock is not ours, if it is not."""
        group = self.record.group
        try:
            if await self._deps.locks.claim(group, self._settings.lease):
                return ""
        except errors.KubeError as error:
            return str(error)
        return f"it is the turn of {self._deps.locks.holder(group)}"

    async def _cordon(self) -> None:
        self._check_lock()
        ours = await self._patiently(self._deps.node.cordon)
        cordoned = self.record.cordoned or self._deps.clocks.wall()
        self._go(Phase.DRAINING, cordoned=cordoned if ours else None)

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
        self._go(Phase.UPGRADING)

    async def _upgrade(self) -> None:
        self._check_lock()
        task = asyncio.create_task(self._deps.host.upgrade(), name="upgrade of packages")
        cancelled = await _finish(task)
        if cancelled is not None and (task.cancelled() or task.exception() is not None):
            raise cancelled
        reason = task.result()
        self._go(Phase.UPGRADED, reboot=self.record.reboot or reason)
        if cancelled is not None:
            raise cancelled

    async def _decide_reboot(self) -> None:
        host = self._deps.host
        reason = self.record.reboot or await host.reboot_needed()
        if not reason:
            self._go(Phase.PROVING)
            return
        await self._prolong_lock()
        log.info("rebooting: %s", reason)
        boot_id = await host.boot_id()
        self._go(Phase.REBOOTING, boot_id=boot_id, asked=self._deps.clocks.steady(), reboot=reason)
        try:
            await host.reboot()
        except (NotSupported, CommandNotFound):
            raise
        except (HostError, RunError) as error:
            # A host that goes down kills the program that asked for it; only time tells.
            log.warning("asking for a reboot went wrong, waiting whether it happens: %s", error)

    async def _await_reboot(self) -> None:
        """Do nothing at all until the host is down."""
        if await self._deps.host.boot_id() != self.record.boot_id:
            self._go(Phase.PROVING)
            return
        left = self.record.asked + self._settings.reboot - self._deps.clocks.steady()
        if left <= 0:
            raise UpgradeFailed(f"the host did not go down within {self._settings.reboot:g} s")
        await asyncio.sleep(min(left, self._settings.poll))

    async def _prove(self) -> None:
        try:
            async with held_timeout.timeout(self._settings.prove, self._deps.may_act, self._settings.poll):
                await self._deps.prove()
                await self._await_node()
        except TimeoutError:
            raise UpgradeFailed(f"the host was not ready within {self._settings.prove:g} s") from None
        self._end(UpgradeResult.SUCCESS, f"upgraded; {self.record.reboot or 'no reboot was needed'}")

    async def _await_node(self) -> None:
        """Wait until the Node is ready; what its kubelet said in the boot before does not count."""
        before = self.record.boot_id if self.record.asked else ""
        while True:
            try:
                if await self._deps.node.ready(before):
                    return
            except errors.KubeError as error:
                log.debug("cannot look at the Node: %s", error)
            await asyncio.sleep(self._settings.poll)

    async def _return(self) -> UpgradeOutcome:
        """Undo what is not to stay, however long it takes, and remember how it went."""
        todo = [self._uncordon] if self.record.result is not UpgradeResult.SKIPPED else []
        todo += [self._release] if self.record.group else []
        failures = 0
        while todo:
            todo = [one for one in todo if not await _succeeds(one)]
            if todo:
                failures += 1
                await asyncio.sleep(RETRY.delay(failures))
        record, now = self.record, self._deps.clocks.wall()
        seconds = max(0.0, (now - record.began).total_seconds()) if record.began else 0.0
        ended = msgspec.structs.replace(record, phase=Phase.IDLE, cordoned=None)
        self._save_if_possible(ended)
        return UpgradeOutcome(record.result or UpgradeResult.ERROR, record.message, seconds)

    async def _uncordon(self) -> None:
        await self._deps.node.uncordon()
        self.record = msgspec.structs.replace(self.record, cordoned=None)

    async def _release(self) -> None:
        await self._deps.locks.release(self.record.group)

    # What is remembered

    def _check_lock(self) -> None:
        if self.record.group:
            self._deps.locks.check(self.record.group)

    async def _prolong_lock(self) -> None:
        """Make sure that the lock outlives a reboot; try as long as it is ours."""
        while self.record.group:
            try:
                await self._deps.locks.prolong(self.record.group)
            except LockLost:
                raise
            except errors.KubeError as error:
                log.warning("cannot renew lock %s before the reboot: %s", self.record.group, error)
                await asyncio.sleep(self._settings.poll)
            else:
                return

    def _go(self, phase: Phase, **changes: Any) -> None:
        self._save(msgspec.structs.replace(self.record, phase=phase, **changes))

    def _end(self, result: UpgradeResult, message: str) -> None:
        """Turn to the end; a success is remembered from here on."""
        changes: dict[str, Any] = {"phase": Phase.RETURNING, "result": result}
        changes["message"] = wording.shorten(message, MAX_MESSAGE)
        if result is UpgradeResult.SUCCESS:
            changes |= {"last_started": self.record.began, "last_done": self._deps.clocks.wall()}
        self._save_if_possible(msgspec.structs.replace(self.record, **changes))

    def _save(self, record: UpgradeRecord) -> None:
        self._deps.records.save(record)
        self.record = record
        self._changed(record)

    def _save_if_possible(self, record: UpgradeRecord) -> None:
        """Go on without a record where going on means to clean up."""
        self.record = record
        try:
            self._deps.records.save(record)
        except RecordError as error:
            log.warning("%s", error)
        self._changed(record)


async def _succeeds(work: Callable[[], Awaitable[None]]) -> bool:
    try:
        await work()
    except Exception as error:  # noqa: BLE001 - nothing may keep us from trying again
        log.warning("cannot clean up after the upgrade, trying again: %s", error)
        return False
    return True


async def _finish(task: asyncio.Task[str]) -> asyncio.CancelledError | None:
    """Let a package manager finish although we are to stop; told to stop again, stop it, too."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            if cancelled is None:
                log.warning("asked to stop during the upgrade of packages: stopping when that is done")
            else:
                task.cancel()
            cancelled = error
    return cancelled
