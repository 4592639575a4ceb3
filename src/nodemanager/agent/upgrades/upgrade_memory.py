"""What a host remembers of its upgrades: those that it began itself, and tasks of the operator."""

from __future__ import annotations

from datetime import UTC, datetime

from nodemanager.agent.tasks.ledger import Entry
from nodemanager.agent.upgrades import own_task
from nodemanager.agent.upgrades.own_task import Stage, UpgradeEntry
from nodemanager.agent.upgrades.schedule import History
from nodemanager.agent.upgrades.upgrade import UpgradeDependencies, Upgrader
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.kube import times
from nodemanager.plan.tasks.record import TaskRecord


class UpgradeMemory:
    """Both kinds in one history, so that no slot is used twice, by host or operator."""

    def __init__(self, dependencies: UpgradeDependencies, upgrader: Upgrader) -> None:
        self._deps = dependencies
        self._upgrader = upgrader

    @property
    def asked(self) -> UpgradeEntry | None:
        """What the operator was asked for and has not answered, as far as is written down."""
        entry = self._upgrader.entry
        return entry if _is_asking(entry) else None

    def newest(self) -> UpgradeEntry:
        """Return the upgrade that is under way or was the last."""
        own = self._upgrader.entry
        found = max(self._ordered(), key=lambda one: one.record.token, default=None)
        if found is None or found.slot is None:
            return own
        return found if own.slot is None or found.slot >= own.slot else own

    def used_slot(self) -> datetime | None:
        """Return the last slot that was used, whatever became of it."""
        now = self._deps.clocks.wall()
        own = self._upgrader.entry  # perhaps it could not be written down
        if _is_asking(own):
            own = own_task.latest(one for one in self._deps.ledger.entries.values() if not _is_asking(one))
        known = [one.slot for one in (own, *self._ordered()) if one.slot is not None]
        return max((one for one in known if History(one).trusted(now).slot), default=None)

    def history(self, node: ManagedNode | None) -> History:
        """Return what decides about the next slot."""
        own, last, slot = self._success(), self.last_upgrade(node), self.used_slot()
        if own is not None and last == own.ended_at:
            return History(slot, own.claimed_at)
        return History(slot, last)  # done by the agent of the Go project, or the record was lost

    def last_upgrade(self, node: ManagedNode | None) -> datetime | None:
        """Return when the last upgrade was done: as is written down here, or as the status says."""
        own = self._success()
        said = _moment(node.status.last_upgrade) if node is not None else None
        known = [one for one in (None if own is None else own.ended_at, said) if one is not None]
        return max(known, default=None)

    def _success(self) -> TaskRecord | None:
        kinds = self._deps.ledger.entries.values(), self._ordered()
        done = [one for one in map(own_task.last_success, kinds) if one is not None]
        return max(done, key=lambda one: one.ended_at or datetime.min.replace(tzinfo=UTC), default=None)

    def _ordered(self) -> list[UpgradeEntry]:
        return own_task.ordered(self._deps.tasks())


def _is_asking(entry: Entry) -> bool:
    return isinstance(entry, UpgradeEntry) and entry.stage is Stage.ASKING


def _moment(text: str | None) -> datetime | None:
    """Read what an agent wrote, perhaps that of the Go project, perhaps without a time zone."""
    found = times.parse(text)
    if found is not None:
        return found
    try:
        return datetime.fromisoformat(text or "").replace(tzinfo=UTC)
    except ValueError:
        return None
