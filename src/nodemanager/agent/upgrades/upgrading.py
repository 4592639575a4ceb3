"""Puts the part that upgrades together with the host and the API it works on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from nodemanager.agent.assembly import ManagedHost
from nodemanager.agent.holds.keeping import HoldKeeper
from nodemanager.agent.link.api_link import ApiLink
from nodemanager.agent.requests import Requests
from nodemanager.agent.tasks.task_part import Turn
from nodemanager.agent.upgrades.drain import KubernetesNode
from nodemanager.agent.upgrades.upgrade import UpgradeDependencies, UpgradeSettings
from nodemanager.agent.upgrades.upgrade_host import ToolsHost
from nodemanager.agent.upgrades.upgrade_part import UpgradePart, UpgradeReporter
from nodemanager.agent.upgrades.upgrade_record import RecordFile
from nodemanager.host.base import Wanted
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import freebsd_update
from nodemanager.host.inventory.boot import HostBoot
from nodemanager.host.inventory.timezone import zone_of
from nodemanager.runtime.lease import Clocks


def upgrades(
    managed_host: ManagedHost,
    link: ApiLink,
    requests: Requests,
    pins: Callable[[], Sequence[Wanted]],
    holds: HoldKeeper,
    reporter: UpgradeReporter,
    settings: UpgradeSettings,
    turn: Turn,
) -> UpgradePart:
    """Return the part that upgrades this host; it hears of its ManagedNode, and asks for passes.

    It begins nothing while a task has its turn. It has a tree of its own: it writes its record while a pass
    is at work in the other one.
    """
    run, key = managed_host.converger.observer.run, link.key
    base = functools.partial(freebsd_update.upgrade_base, run)
    host = ToolsHost(
        managed_host.converger.tools.packages,
        HostBoot(run, root=managed_host.tree.root),
        pins=pins,
        upgrade_base=base if managed_host.identity.system == "freebsd" else None,
        upgrading=managed_host.converger.upgrading,
    )
    dependencies = UpgradeDependencies(
        host=host,
        locks=link.locks,
        node=KubernetesNode(link.client, key.name, str(key)),
        records=RecordFile(Tree(managed_host.tree.root), managed_host.state),
        prove=requests.settled,
        clocks=Clocks(),
        may_act=holds.may_act,
        in_turn=lambda: not turn.task,
    )
    part = UpgradePart(
        dependencies,
        lambda: link.nodes.get(key),
        reporter,
        settings=settings,
        zone=functools.partial(zone_of, Tree(managed_host.tree.root)),
        report=lambda _status: requests.pass_soon(),
    )
    link.nodes.subscribe(lambda change: part.changed() if change.key == key else None)
    holds.subscribe(part.changed)
    turn.changed.append(part.changed)
    return part
