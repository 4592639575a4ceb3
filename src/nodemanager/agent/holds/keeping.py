"""Knows whether this host is held, and tells other parts when that begins and ends.

ManagedNode.spec.hold --heard--+
the file of this host --reload-+--> may_act --> passes, repairs, upgrades
                               +--> condition Held, Events, the local status, one line in the log
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from nodemanager.agent.holds import hold_timer
from nodemanager.agent.holds.hold_timer import BY_API, BY_HOST, HoldClocks, TimedHold
from nodemanager.agent.report import status
from nodemanager.agent.report.local_status import HeldState, Snapshot, with_
from nodemanager.api.common import acting, node_conditions
from nodemanager.api.common.acting import HoldOrigin, Permission, RunningHold
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode, ManagedNodeStatus
from nodemanager.host.state.vault import Vault, VaultError
from nodemanager.kube import conditions
from nodemanager.kube.conditions import Condition
from nodemanager.runtime.cache import Change
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.metrics import Registry

log = logging.getLogger("nodemanager.agent")
NAP: Final = 30.0
"""How many seconds late the end of a hold may be noticed after the host slept."""
_FILES: Final = {HoldOrigin.API: BY_API, HoldOrigin.HOST: BY_HOST}


class HoldKeeper:
    """The holds of one host; also a part of the agent, which notices when they end."""

    name = "hold"

    def __init__(self, vault: Vault, changed: Callable[[], None], clocks: HoldClocks | None = None) -> None:
        self._vault = vault
        self._listeners = [changed]
        self._clocks = clocks or HoldClocks()
        self._wake = asyncio.Event()
        self._told: RunningHold | None = None
        self._holds: dict[HoldOrigin, TimedHold] = {}
        for origin in HoldOrigin:
            self._take(origin, hold_timer.load(vault, _FILES[origin]))

    # What is known

    def permission(self) -> Permission:
        """Return whether this host may be changed now."""
        return acting.decide(
            RunningHold(one.hold, origin, hold_timer.left(one, self._clocks))
            for origin, one in self._holds.items()
        )

    def may_act(self) -> bool:
        """Tell whether this host may be changed now."""
        return self.permission().may_act

    def contribute(self, found: ManagedNodeStatus, now: datetime, generation: int) -> ManagedNodeStatus:
        """Return the status with the hold; without any hold so far, it is not changed."""
        hold = self.permission().hold
        said = Condition(type=node_conditions.HELD, status=conditions.FALSE, reason=node_conditions.NOT_HELD)
        if hold is not None:
            said = Condition(
                type=node_conditions.HELD, status=conditions.TRUE, reason=hold.origin, message=hold.words()
            )
        known = conditions.get(found.conditions, node_conditions.HELD) is not None
        return status.of_condition(found, said, now, generation) if known or hold else found

    def fill(self, snapshot: Snapshot) -> Snapshot:
        """Return the local status with the hold."""
        hold = self.permission().hold
        if hold is None:
            return snapshot
        shown = HeldState(
            reason=hold.hold.reason, until=hold.hold.until, by=hold.hold.by, origin=hold.origin,
            seconds=round(hold.left, 1),
        )  # fmt: skip
        return with_(snapshot, hold=shown)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a listener when a hold begins or ends."""
        self._listeners.append(listener)

    # What happens

    def heard(self, node: ManagedNode) -> None:
        """Read the hold in our ManagedNode."""
        wanted, known = node.spec.hold, self._holds.get(HoldOrigin.API)
        same = wanted == (known.hold if known else None)
        if same and (known is None or known.dated or not self._clocks.is_set):
            return  # its time is already running
        new = hold_timer.timed(wanted, self._clocks) if wanted else None
        self._take(HoldOrigin.API, new)
        self._save(HoldOrigin.API)
        self._settle()

    def look(self, node: ManagedNode) -> None:
        """Take note of everything that may hold us; for the beginning of a pass."""
        self.reload()
        self.heard(node)

    def reload(self) -> None:
        """Look at the file that root writes on this host."""
        self._take(HoldOrigin.HOST, hold_timer.load(self._vault, BY_HOST))
        self._settle()

    async def run(self) -> None:
        """Notice when a hold ends, until cancelled."""
        while True:
            self._wake.clear()
            self._settle()
            permission = self.permission()
            pause = None if permission.may_act else min(permission.again_in, NAP)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    def close(self) -> None:
        """Give back what is held open."""
        self._vault.close()

    def _take(self, origin: HoldOrigin, one: TimedHold | None) -> None:
        if one is None:
            self._holds.pop(origin, None)
        else:
            self._holds[origin] = hold_timer.resumed(one, self._clocks)

    def _settle(self) -> None:
        """Tell other parts if a hold has begun, ended or changed."""
        now, before = self.permission().hold, self._told
        if _same(now, before):
            return
        self._told = now
        if now is not None:
            log.warning("this host is held: %s; until then it only looks and reports", now.words())
        elif before is not None:
            log.info("the hold has ended (%s): what waited for that is done now", before.hold.reason)
        self._forget_ended()
        self._wake.set()
        for listener in self._listeners:
            listener()

    def _forget_ended(self) -> None:
        """Have no hold begin anew after a reboot with a wrong clock; the API's own stays known, as ended."""
        for origin, one in list(self._holds.items()):
            if hold_timer.left(one, self._clocks) > 0:
                continue
            if origin is HoldOrigin.HOST:
                del self._holds[origin]
            else:
                self._holds[origin] = msgspec.structs.replace(one, left=0.0)
            self._save(origin)

    def _save(self, origin: HoldOrigin) -> None:
        try:
            hold_timer.save(self._vault, _FILES[origin], self._holds.get(origin))
        except VaultError as error:
            log.warning("%s; a hold may not survive the next start of this host", error)


def _same(one: RunningHold | None, other: RunningHold | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.hold, one.origin) == (other.hold, other.origin)


def of_node(keeper: HoldKeeper, events: EventRecorder) -> Callable[[Change[ManagedNode]], None]:
    """Return the listener for our ManagedNode: for its hold, and for its report about one.

    The Events follow the condition, so that a hold that began in an outage or ended while the agent was
    down is told, too, and once.
    """

    def changed(change: Change[ManagedNode]) -> None:
        keeper.heard(change.new or ManagedNode())
        if change.old is None or change.new is None:
            return
        before, after = (
            conditions.get(one.status.conditions, node_conditions.HELD) for one in (change.old, change.new)
        )
        if after is None or (before is not None and before.status == after.status):
            return
        if after.status == conditions.TRUE:
            events.normal(MANAGED_NODES, change.new, "Held", after.message)
        elif before is not None:
            events.normal(MANAGED_NODES, change.new, "HoldEnded", f"ended: {before.message}")

    return changed


def count(keeper: HoldKeeper, registry: Registry, node: str) -> None:
    """Publish whether the host is held."""
    family = registry.gauge("nodemanager_held", "1 = nothing on this host is changed, 0 = it is.", ("node",))
    family.labels(node).set_function(lambda: float(not keeper.may_act()))
