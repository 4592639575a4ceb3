"""Hosts of a site that ask to be upgraded, as their agents do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.nodetask import UPGRADES
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.kube import core, errors, times
from support.maintenance_site import PATIENCE, Site


async def scheduled(site: Site, name: str, *, node: bool = False, group: str = "web") -> str:
    """Have a host join that is to be upgraded at three o'clock."""
    host = await site.host(name, node=node)
    upgrade = {"schedule": "0 3 * * *", **({"group": group} if group else {})}
    await site.client.patch(MANAGED_NODES, host, site.namespace, MergePatch({"spec": {"upgrade": upgrade}}))
    return host


async def ask(site: Site, host: str, slot: datetime, *, minutes: float = 60, drain: str = "5m") -> str:
    """Ask for a slot, as an agent does that knows that it is marked; return the name of the run."""
    await until(site, host, lambda one: UPGRADES in one.metadata.annotations)
    due = {"slot": times.rfc3339(slot), "until": times.rfc3339(slot + timedelta(minutes=minutes)),
           "drainTimeout": drain}  # fmt: skip
    await tell(site, host, {"asks": True, "due": due})
    return upgrade_tasks.run_of(slot)


async def tell(site: Site, host: str, upgrade: dict[str, object] | None) -> None:
    body = MergePatch({"status": {"upgrade": upgrade}})
    await site.client.patch(MANAGED_NODES, host, site.namespace, body, subresource="status")


async def visit(site: Site, host: str) -> Claim | None:
    return upgrade_tasks.visit_of(await site.managed(host))


async def until(site: Site, host: str, holds: Callable[[ManagedNode], object]) -> ManagedNode:
    """Wait until something is true of a host."""
    found = ManagedNode()
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                if holds(found := await site.managed(host)):
                    return found
                await asyncio.sleep(0.03)
    except TimeoutError:
        raise AssertionError(f"never came true: {found.metadata.annotations} {found.status}") from None


async def until_over(site: Site, host: str, run: str) -> Claim:
    """Wait until the upgrade of a slot has ended, and nothing is held for it."""

    def is_over(one: ManagedNode) -> bool:
        claim = upgrade_tasks.visit_of(one)
        return claim is not None and claim.run == run and not claim.holds

    claim = upgrade_tasks.visit_of(await until(site, host, is_over))
    assert claim is not None
    return claim


async def holder(site: Site, group: str = "web") -> str:
    """Return who has the Lease of a group."""
    try:
        return (await site.client.get(core.LEASES, group, site.namespace)).spec.holder_identity or ""
    except errors.NotFound:
        return ""


async def events(site: Site, host: str, reason: str) -> list[str]:
    """Return what was told of a host."""
    found = (await site.client.list(core.EVENTS, Selection(site.namespace))).items
    return [one.message for one in found if one.involved_object.name == host and one.reason == reason]


async def told(site: Site, host: str, reason: str) -> str:
    """Wait until something is told of a host, and return it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if said := await events(site, host, reason):
                return said[0]
            await asyncio.sleep(0.05)


async def until_state(site: Site, host: str, state: State) -> None:
    def is_there(one: ManagedNode) -> bool:
        claim = upgrade_tasks.visit_of(one)
        return claim is not None and claim.state is state

    await until(site, host, is_there)
