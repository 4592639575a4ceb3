"""Gives Nodes back that are still cordoned in our name after the work has ended.

A visit to a host is written on its ManagedNode before its Node is cordoned, and taken from there after the
Node was given back. So a Node that is marked as ours, with no such visit, belongs to a host that was deleted
meanwhile, or made anew. Before it acts, it asks the API itself and does not trust its cache.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.client.verbs import Client
from nodemanager.controllers.disruption.holding import CordonHolder, NodeHold, visitor
from nodemanager.controllers.disruption.nodes import NODES, Node
from nodemanager.controllers.registration import THE_ONE, Caches, ControllerContext, Wake
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import Reconcile

log = logging.getLogger("nodemanager.operator")
LOOK_SECONDS: Final = 300.0
SETTLE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class ForgottenCordons:
    """Looks for such Nodes when a Node is marked or a host goes away, and from time to time."""

    client: Client
    nodes: Cache[Node]
    hosts: Cache[ManagedNode]

    async def reconcile(self, _key: ObjectKey) -> None:
        """Give Nodes back whose cordon no visit explains."""
        for node in self.nodes.values() if not self.nodes.refused else ():
            holder = CordonHolder.read(node.mark)
            if holder is None:
                continue
            host = self.hosts.get(ObjectKey(holder.namespace, node.metadata.name))
            if host is None or visitor(host) != holder.uid:
                await self._release(node.metadata.name, holder)

    async def _release(self, name: str, holder: CordonHolder) -> None:
        try:
            host = await self.client.get(MANAGED_NODES, name, holder.namespace)
        except errors.NotFound:
            host = None
        except errors.Forbidden:  # of another namespace, whose operator cares for it
            return
        if host is not None and visitor(host) == holder.uid:
            return
        if await NodeHold(self.client, name, holder).release():
            log.warning(
                "uncordoned Node %s: maintenance %s/%s does not work on its host any more",
                name, holder.namespace, holder.maintenance,
            )  # fmt: skip


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile of all Nodes."""
    caches = context.caches
    return ForgottenCordons(context.client, caches.of(NODES), caches.of(MANAGED_NODES)).reconcile


def on_node(change: Change[Node], _caches: Caches) -> Iterator[Wake]:
    """Look again when the cordon mark of a Node changes."""
    if (
        change.new is not None
        and change.new.mark
        and (change.old is None or change.old.mark != change.new.mark)
    ):
        yield Wake(THE_ONE, SETTLE_SECONDS)


def on_host(change: Change[ManagedNode], _caches: Caches) -> Iterator[Wake]:
    """Look again when a visit has ended, for any reason."""
    before = visitor(change.old) if change.old is not None else ""
    if before and before != (visitor(change.new) if change.new is not None else ""):
        yield Wake(THE_ONE, SETTLE_SECONDS)
