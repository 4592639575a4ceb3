"""Puts the part that upgrades together with the host and the API it works on."""

from __future__ import annotations

import functools

from nodemanager.agent.assembly import Body
from nodemanager.agent.passes.reconcile import HostReconciler
from nodemanager.agent.upgrades.drain import KubernetesNode
from nodemanager.agent.upgrades.locks import SharedLocks
from nodemanager.agent.upgrades.upgrade import Means, UpgradeSettings
from nodemanager.agent.upgrades.upgrade_host import ToolsHost
from nodemanager.agent.upgrades.upgrade_part import UpgradePart, UpgradeVoice
from nodemanager.agent.upgrades.upgrade_record import RecordFile
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.client.verbs import Client
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import freebsd_update
from nodemanager.host.inventory.boot import HostBoot
from nodemanager.host.inventory.timezone import zone_of
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.lease import Clocks


def upgrades(
    body: Body,
    client: Client,
    reconciler: HostReconciler,
    nodes: Cache[ManagedNode],
    locks: SharedLocks,
    voice: UpgradeVoice,
    settings: UpgradeSettings,
) -> UpgradePart:
    """Return the part that upgrades this host; it hears of its ManagedNode, and its status is reported.

    It has a tree of its own: it writes its record while a pass is at work in the other one.
    """
    run, key = body.converger.observer.run, reconciler.node.key
    base = functools.partial(freebsd_update.upgrade_base, run)
    host = ToolsHost(
        body.converger.tools.packages,
        HostBoot(run, root=body.tree.root),
        pins=lambda: reconciler.wishes.pins,
        upgrade_base=base if body.identity.system == "freebsd" else None,
        upgrading=body.converger.upgrading,
    )
    means = Means(
        host=host,
        locks=locks,
        node=KubernetesNode(client, key.name, str(key)),
        records=RecordFile(Tree(body.tree.root), body.state),
        prove=reconciler.settled,
        clocks=Clocks(),
    )
    part = UpgradePart(
        means,
        lambda: nodes.get(key),
        voice,
        settings=settings,
        zone=functools.partial(zone_of, Tree(body.tree.root)),
        report=lambda _status: reconciler.soon(),
    )
    nodes.subscribe(lambda change: part.changed() if change.key == key else None)
    reconciler.upgrades = lambda: part.status
    return part
