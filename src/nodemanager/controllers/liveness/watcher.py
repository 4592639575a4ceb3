"""Follows the heartbeat Leases of all hosts, and marks hosts that fall silent or come back.

    Lease renewed    -> seen, by our own clock; a host that was silent is looked at at once
    no renewal seen  -> looked at when its time is up; its Lease is read once more; marked

A Lease is renewed every 20 s on every host, and costs nothing here but a time in memory: a ManagedNode is
written when its host falls silent or comes back, and at no other time.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from nodemanager.api.common import managednode, node_conditions
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode, ManagedNodeStatus
from nodemanager.api.rights.host_rights import account_name, host_of
from nodemanager.client.calls import WriteOptions
from nodemanager.client.patches import MergePatch, difference
from nodemanager.client.verbs import Client
from nodemanager.controllers.liveness import marks
from nodemanager.controllers.liveness.heartbeats import Heartbeats, Life, LivenessJudgement
from nodemanager.controllers.registration import Caches, ControllerContext, Wake
from nodemanager.kube import conditions, errors
from nodemanager.kube.core import LEASES, Lease
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import Reconcile, ReconcileResult, Retry
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.metrics import Registry

log = logging.getLogger("nodemanager.operator")
MANAGER: Final = "nodemanager-liveness"
"""The writer of these marks in `managedFields`."""
CONFLICT_SECONDS: Final = 0.5
"""Another program wrote the ManagedNode meanwhile; after this time the watch has shown it to us."""
SILENT: Final = "HostSilent"
BACK: Final = "HostBack"


def on_node(change: Change[ManagedNode], _caches: Caches) -> Iterator[Wake]:
    """Wake a host that is new, gone, or whose mark was changed."""
    if change.old is None or change.new is None or _mark(change.old) != _mark(change.new):
        yield Wake(change.key)


def on_lease(change: Change[Lease], caches: Caches) -> Iterator[Wake]:
    """Wake the host of a Lease, unless it was only renewed in time."""
    host = host_of(change.key.name)
    key = ObjectKey(change.key.namespace, host)
    node = caches.of(MANAGED_NODES).get(key) if host else None
    if node is not None and (change.new is None or _mark(node) != conditions.TRUE):
        yield Wake(key)


def _mark(node: ManagedNode) -> str:
    found = conditions.get(node.status.conditions, node_conditions.ALIVE)
    return found.status if found else ""


@dataclass(frozen=True)
class Watcher:
    """Keeps the mark of every host equal to the judgement about it."""

    client: Client
    nodes: Cache[ManagedNode]
    leases: Cache[Lease]
    events: EventRecorder
    now: Callable[[], datetime]
    heartbeats: Heartbeats

    def saw(self, change: Change[Lease]) -> None:
        """Remember a Lease: also while another one leads, so that the next leader knows at once."""
        host = host_of(change.key.name)
        if host and change.new is None:
            self.heartbeats.lost(host)
        elif host and change.new is not None:
            self._note(host, change.new)

    def _note(self, host: str, lease: Lease) -> None:
        spec = lease.spec
        self.heartbeats.saw(host, spec.renew_time or "", spec.lease_duration_seconds, _clock())

    async def reconcile(self, key: ObjectKey) -> ReconcileResult | None:
        """Judge a host, and mark it if the judgement has changed."""
        node = self.nodes.get(key)
        if node is None:
            self.heartbeats.forget(key.name)
            return None
        judgement = self._judge(key.name)
        if judgement.life is Life.SILENT and not managednode.is_silent(node):
            judgement = await self._ask(key)
        wanted = marks.marked(node, judgement, self.now())
        patch = difference(msgspec.to_builtins(node.status), msgspec.to_builtins(wanted))
        if patch and await self._write(node, patch):
            self._tell(node, wanted)
        return ReconcileResult(judgement.again_in) if judgement.again_in < math.inf else None

    def _judge(self, host: str) -> LivenessJudgement:
        self.heartbeats.missed(self.leases.steady_since)
        return self.heartbeats.judge(host, _clock())

    async def _ask(self, key: ObjectKey) -> LivenessJudgement:
        """Judge again by the Lease as it is now, because the watch may be late."""
        try:
            found = await self.client.get(LEASES, account_name(key.name), key.namespace)
            self._note(key.name, found)
        except errors.NotFound:
            self.heartbeats.lost(key.name)
        except errors.KubeError:
            self.heartbeats.missed(_clock())  # hosts could not reach the API either
            raise
        return self._judge(key.name)

    async def _write(self, node: ManagedNode, patch: dict[str, object]) -> bool:
        """Write our part of the status; return whether the host still exists, so that it can be reported."""
        meta = node.metadata
        # The list of conditions is written as a whole, so it must be based on the present one.
        body = MergePatch({"metadata": {"resourceVersion": meta.resource_version}, "status": patch})
        try:
            await self.client.patch(
                MANAGED_NODES, meta.name, meta.namespace, body,
                subresource="status", options=WriteOptions(field_manager=MANAGER),
            )  # fmt: skip
        except errors.NotFound:
            return False
        except errors.Conflict:
            raise Retry(CONFLICT_SECONDS, "somebody else wrote the ManagedNode meanwhile") from None
        return True

    def _tell(self, node: ManagedNode, wanted: ManagedNodeStatus) -> None:
        """Report when a host falls silent or comes back; the first sight of a host is not reported."""
        before, after = _mark(node), conditions.get(wanted.conditions, node_conditions.ALIVE)
        if after is None or before == after.status:
            return
        if after.status == conditions.FALSE:
            log.warning("%s is silent: %s", node.metadata.name, after.message)
            self.events.warning(MANAGED_NODES, node, SILENT, after.message)
        elif before == conditions.FALSE and after.status == conditions.TRUE:
            said = f"a sign of life again, the first since {node.status.last_seen or 'it was silent'}"
            log.info("%s is back: %s", node.metadata.name, said)
            self.events.normal(MANAGED_NODES, node, BACK, said)


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile of liveness, and count the hosts by what is known of them."""
    nodes, leases = context.caches.of(MANAGED_NODES), context.caches.of(LEASES)
    found = Watcher(context.client, nodes, leases, context.events, context.now, Heartbeats())
    leases.subscribe(found.saw)
    _count(context.metrics, nodes)
    return found.reconcile


_STATES: Final = {
    conditions.TRUE: "alive",
    conditions.FALSE: "silent",
    conditions.UNKNOWN: "unknown",
    "": "unknown",
}


def _count(registry: Registry, nodes: Cache[ManagedNode]) -> None:
    def hosts(state: str) -> float:
        return float(sum(_STATES.get(_mark(one)) == state for one in nodes.values()))

    family = registry.gauge("nodemanager_hosts", "Hosts by what is known of their life.", ("state",))
    for state in dict.fromkeys(_STATES.values()):
        family.labels(state).set_function(functools.partial(hosts, state))
    held = family.labels("held")  # in addition to the other states: such a host is alive, too, or is not
    held.set_function(lambda: float(sum(map(managednode.is_held, nodes.values()))))


def _clock() -> float:
    return asyncio.get_running_loop().time()
