"""The task that a host writes itself for an upgrade, and the progress of the work around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from nodemanager.agent.tasks.attempts import REBOOT_NEEDED, Attempt, AttemptResult, Performer
from nodemanager.agent.tasks.ledger import Entry
from nodemanager.agent.tasks.packages import Packages
from nodemanager.agent.tasks.probes import Probes
from nodemanager.agent.tasks.reboots import ALWAYS, Reboots
from nodemanager.agent.tasks.system_upgrades import WENT_DOWN, Base, SystemUpgrades
from nodemanager.api.common.managednode import ANNOTATION_REBOOT, MANAGED_NODES
from nodemanager.api.maintenance.nodetask import NodeTaskSpec, TaskReason, upgrade_slot
from nodemanager.api.maintenance.task_steps import PackagesAction
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.kube import times
from nodemanager.plan.tasks.record import StepPhase, StepRecord, TaskPhase, TaskRecord

UPGRADE, REBOOT = range(2)
"""The places of the two steps."""
LATEST: Final = timedelta(days=30)
"""A host that was off for longer than this during its upgrade does not continue it."""


class Stage(StrEnum):
    """The current stage, or the one that was about to begin before an interruption."""

    ASKING = "Asking"
    """The operator was asked to begin it; none of the work is ours."""
    LOCKING = "Locking"
    CORDONING = "Cordoning"
    DRAINING = "Draining"
    WORKING = "Working"
    """The task is carried out."""
    RETURNING = "Returning"
    """Uncordoning and giving back the lock, after a success as after a failure."""
    OVER = "Over"


class UpgradeResult(StrEnum):
    """How an upgrade ended."""

    SUCCESS = "success"
    ERROR = "error"
    SKIPPED = "skipped"
    """The host had no turn during the whole window."""


_RESULTS: Final = {TaskPhase.SUCCEEDED: UpgradeResult.SUCCESS, TaskPhase.EXPIRED: UpgradeResult.SKIPPED}


@dataclass(frozen=True, slots=True)
class Order:
    """What to do in which slot."""

    slot: datetime
    group: str = ""
    reboot: bool = False
    """Whether to reboot in any case, not only if the upgrade needs it."""


class UpgradeEntry(Entry, frozen=True, omit_defaults=True):
    """One upgrade on disk: a normal task in its own ledger, and the state around it."""

    slot: datetime | None = None
    group: str = ""
    cordoned: datetime | None = None
    """Since when we keep the Kubernetes Node cordoned."""
    stage: Stage = Stage.RETURNING
    """Unknown, as in a record that cannot be read: clean up."""

    @property
    def is_under_way(self) -> bool:
        """Whether the host is being upgraded."""
        return self.stage not in (Stage.ASKING, Stage.OVER)

    @property
    def result(self) -> UpgradeResult:
        """How it ended."""
        return _RESULTS.get(self.record.phase, UpgradeResult.ERROR)

    @property
    def message(self) -> str:
        """How it ended, for people."""
        if self.record.phase is not TaskPhase.SUCCEEDED:
            return self.record.message
        return f"upgraded; {self.why_reboot() or 'no reboot was needed'}"

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was done to the host yet, of what is still to be done."""
        return self.stage is not Stage.RETURNING and self.record.steps[UPGRADE].phase is StepPhase.PENDING

    @property
    def awaits_reboot(self) -> bool:
        """Whether packages are upgraded, and the reboot that may be needed has not been asked for."""
        steps = [one.phase for one in self.record.steps]
        return self.stage is Stage.WORKING and steps[:2] == [StepPhase.SUCCEEDED, StepPhase.PENDING]

    @property
    def seconds(self) -> float:
        """How long it took, or 0 if a clock went back meanwhile."""
        began, ended = self.record.claimed_at, self.record.ended_at
        return max(0.0, (ended - began).total_seconds()) if began and ended else 0.0

    def why_reboot(self) -> str:
        """Return why the host has to reboot, as far as that is known from the steps."""
        action = self.spec.steps[REBOOT].reboot
        if action is not None and action.when == ALWAYS:
            return f"{ANNOTATION_REBOOT} asks for it"
        return self.record.steps[UPGRADE].evidence.get(REBOOT_NEEDED, "")


NOTHING: Final = UpgradeEntry("", NodeTaskSpec(), TaskRecord(""), stage=Stage.OVER)
"""What a host has that was never upgraded."""


def write(order: Order, host: str, token: int, now: datetime) -> UpgradeEntry:
    """Return the task for an order, of which nothing was done yet."""
    steps = upgrade_tasks.steps(reboots=order.reboot)
    spec = NodeTaskSpec(
        node_name=host,
        steps=steps,
        deadline=times.rfc3339(now + LATEST),
        not_before=times.rfc3339(order.slot),
        fencing_token=token,
        reason=TaskReason(kind=MANAGED_NODES.kind, name=host),
    )
    record = TaskRecord(f"upgrade-{token}", token, steps=(StepRecord(),) * len(steps), claimed_at=now)
    return UpgradeEntry(record.uid, spec, record, order.slot, order.group, stage=Stage.LOCKING)


def ordered(entries: Iterable[Entry]) -> list[UpgradeEntry]:
    """Return those of the operator's tasks that upgrade the host, as if it had begun them itself."""
    found: list[UpgradeEntry] = []
    for one in entries:
        if (slot := upgrade_slot(one.spec)) is None:
            continue
        record = one.record
        if record.phase is TaskPhase.EXPIRED and any(step.attempts for step in record.steps):
            record = msgspec.structs.replace(record, phase=TaskPhase.FAILED)  # it was begun, and cut off
        stage = Stage.OVER if record.phase.is_end else Stage.WORKING
        found.append(UpgradeEntry(one.name, one.spec, record, slot, stage=stage))
    return found


def latest(entries: Iterable[Entry]) -> UpgradeEntry:
    """Return what is under way, or else came last: one that could not be read, or the last that was written.

    An earlier one that seems to be under way ended when its end could not be written.
    """
    found = [one for one in entries if isinstance(one, UpgradeEntry)]
    unread = [one for one in found if one.stage is not Stage.OVER and not one.record.token]
    return max(unread or found, key=lambda one: one.record.token, default=NOTHING)


def last_success(entries: Iterable[Entry]) -> TaskRecord | None:
    """Return the last upgrade that succeeded."""
    done = [one.record for one in entries if one.record.phase is TaskPhase.SUCCEEDED]
    return max(done, key=lambda one: one.token, default=None)


@dataclass(frozen=True, slots=True)
class UpgradeTools:
    """The performers of the steps, as for every task."""

    packages: Packages
    reboots: Reboots
    probes: Probes
    base: Base | None = None


@dataclass(frozen=True, slots=True)
class Upgrades(Performer):
    """Upgrades all packages, then what is no package, and notes whether that needs a reboot."""

    UNBROKEN = True
    tools: UpgradeTools
    check: Callable[[], None]
    """Raises HostError if it is not our turn any more."""

    async def perform(self, action: PackagesAction, attempt: Attempt) -> AttemptResult:
        """Upgrade everything."""
        self.check()
        found = await self.tools.packages.perform(action, attempt)
        if not found.succeeded:
            return found
        tools = self.tools
        completed = await SystemUpgrades(tools.packages, tools.reboots.needed, tools.base).completed(found)
        return replace(completed, inverse=b"")

    async def settle(self, action: PackagesAction, attempt: Attempt) -> AttemptResult:
        """Upgrade at most once per slot, also as earlier agents wrote it down."""
        del action, attempt
        return WENT_DOWN
