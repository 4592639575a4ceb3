"""Keeps the status of every PodDisruptionBudget true, as kube-controller-manager does elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime
from typing import Final

from nodemanager.kube import errors
from nodemanager.kube.objects import Untyped
from nodemanager.server.collection.following import RETRY_SECONDS, StoreFollower
from nodemanager.server.hub import Hub
from nodemanager.server.kinds import budgets
from nodemanager.server.kinds.budgets import BudgetJudgement
from nodemanager.server.kinds.builtin_kinds import BUDGETS, PODS
from nodemanager.server.verbs import internal_requests, stored
from nodemanager.store.base import Mismatch, StoreError, StoreRecord

log = logging.getLogger(__name__)
TRIES: Final = 5
SHORTEST_WAIT: Final = 0.5
"""A timer may be early by the clock on the wall."""


class DisruptionController:
    """Looks at a namespace's budgets whenever a pod or a budget in it changes."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._rechecks: dict[str, datetime] = {}

    async def run(self) -> None:
        """Keep all budgets until cancelled."""
        await StoreFollower(self._hub.store, (BUDGETS.prefix(), PODS.prefix()), self.act).run()

    async def act(self, changed: Collection[str] | None) -> float | None:
        """Bring the budgets up to date that changes may concern; return when to look again."""
        records = self._hub.store.list(BUDGETS.prefix()).records
        if not records:  # the common case: nothing is decoded
            self._rechecks.clear()
            return None
        namespaces = None if changed is None else {_namespace(key) for key in changed}
        failed = False
        for record in records:
            if namespaces is None or _namespace(record.key) in namespaces:
                failed |= not await self._keep(record)
        return self._delay(failed=failed)

    async def _keep(self, record: StoreRecord) -> bool:
        self._rechecks.pop(record.key, None)
        try:
            recheck = await self._synced(record)
        except (errors.StatusError, StoreError, LookupError, TypeError, ValueError) as error:
            # One budget that cannot be kept must not keep others from being kept.
            log.warning("cannot keep the budget %s: %s: %s", record.key, type(error).__name__, error)
            return False
        if recheck is not None:
            self._rechecks[record.key] = recheck
        return True

    async def _synced(self, record: StoreRecord) -> datetime | None:
        for _ in range(TRIES):
            try:
                return await _sync(self._hub, record)
            except Mismatch as error:
                record = error.current
            except errors.NotFound:
                return None
        raise errors.Conflict("somebody else writes its status all the time")

    def _delay(self, *, failed: bool) -> float | None:
        waits = [(at - self._hub.now()).total_seconds() for at in self._rechecks.values()]
        waits += [RETRY_SECONDS] if failed else []
        return max(SHORTEST_WAIT, min(waits)) if waits else None


async def refresh(hub: Hub, record: StoreRecord) -> None:
    """Bring one budget up to date now; Mismatch means that another writer was faster."""
    await _sync(hub, record)


async def _sync(hub: Hub, record: StoreRecord) -> datetime | None:
    """Write the status of a budget if it is not right; return when to look again."""
    budget = stored.load(BUDGETS, record)
    judgement = _judge(hub, budget)
    if judgement.status != budget.get("status"):
        await internal_requests.save_status(hub, BUDGETS, record, {**budget, "status": judgement.status})
    return judgement.recheck


def _judge(hub: Hub, budget: Untyped) -> BudgetJudgement:
    records = hub.store.list(PODS.prefix(budget["metadata"]["namespace"])).records
    pods = budgets.covered(budget, (stored.load(PODS, one) for one in records))
    return budgets.judge(budget, pods, hub.now())


def _namespace(key: str) -> str:
    return key.split("/")[3]
