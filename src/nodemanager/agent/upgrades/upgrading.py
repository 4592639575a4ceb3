"""Puts the part that upgrades together with the host and the API it works on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from nodemanager.agent.assembly import Body
from nodemanager.agent.link.api_link import ApiLink
from nodemanager.agent.requests import Requests
from nodemanager.agent.upgrades.drain import KubernetesNode
from nodemanager.agent.upgrades.upgrade import Means, UpgradeSettings
from nodemanager.agent.upgrades.upgrade_host import ToolsHost
from nodemanager.agent.upgrades.upgrade_part import UpgradePart, UpgradeVoice
from nodemanager.agent.upgrades.upgrade_record import RecordFile
from nodemanager.host.base import Wanted
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import freebsd_update
from nodemanager.host.inventory.boot import HostBoot
from nodemanager.host.inventory.timezone import zone_of
from nodemanager.runtime.lease import Clocks


def upgrades(
    body: Body,
    link: ApiLink,
    requests: Requests,
    pins: Callable[[], Sequence[Wanted]],
    voice: UpgradeVoice,
    settings: UpgradeSettings,
) -> UpgradePart:
    """Return the part that upgrades this host; it hears of its ManagedNode, and asks for passes.

    It has a tree of its own: it writes its record while a pass is at work in the other one.
    """
    run, key = body.converger.observer.run, link.key
    base = functools.partial(freebsd_update.upgrade_base, run)
    host = ToolsHost(
        body.converger.tools.packages,
        HostBoot(run, root=body.tree.root),
        pins=pins,
        upgrade_base=base if body.identity.system == "freebsd" else None,
        upgrading=body.converger.upgrading,
    )
    means = Means(
        host=host,
        locks=link.locks,
        node=KubernetesNode(link.client, key.name, str(key)),
        records=RecordFile(Tree(body.tree.root), body.state),
        prove=requests.settled,
        clocks=Clocks(),
    )
    part = UpgradePart(
        means,
        lambda: link.nodes.get(key),
        voice,
        settings=settings,
        zone=functools.partial(zone_of, Tree(body.tree.root)),
        report=lambda _status: requests.pass_soon(),
    )
    link.nodes.subscribe(lambda change: part.changed() if change.key == key else None)
    return part
