"""Workloads and Kubernetes itself are told of maintenance, and may ask for time, on both servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.client import node_draining
from nodemanager.client.http.transport import Request, Response, Transport
from nodemanager.client.patches import MergePatch, StrategicPatch
from nodemanager.controllers import disruption
from nodemanager.controllers.disruption.nodes import MAINTENANCE_IN_PROGRESS, MAINTENANCE_PLANNED, NODES, Node
from nodemanager.controllers.node_maintenances import protecting, reconciling
from nodemanager.fleet.maintenance.protected_pods import NOT_BEFORE
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.kube import core, times
from support.maintenance_site import ENTRIES, REBOOT, Site
from support.pretend_agents import HANG

REBOOTS: list[dict[str, Any]] = [{"name": "work", "type": "one-shot", "steps": REBOOT}]


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "BUSY_SECONDS", 0.05)
    monkeypatch.setattr(protecting, "AGAIN", timedelta(milliseconds=500))


async def say(site: Site, pod: str, **annotations: str | None) -> None:
    body = MergePatch({"metadata": {"annotations": annotations}})
    await site.client.patch(core.PODS, pod, site.namespace, body)


async def test_claim_9_a_protected_job_gives_its_turn_to_the_other_nine(site: Site) -> None:
    """The first of ten asks for time: it is not even cordoned; the nine are done, then it is its turn."""
    hosts = [await site.host(f"n{number}", node=True) for number in range(10)]
    later = times.rfc3339(datetime.now(UTC) + timedelta(hours=1))
    await site.pod("job", hosts[0], **{NOT_BEFORE: later})
    await site.maintenance(operations=REBOOTS, budget={"maxUnavailable": 2})
    async with site.operator():
        found = await site.until(lambda one: one.status.hosts and one.status.hosts.succeeded == 9)
        assert found.status.phase == "Running"
        waits = found.status.waiting[0]
        assert (waits.reason, waits.first, waits.next_check) == (Reason.POD_PROTECTED, [hosts[0]], later)
        assert waits.object == f"pod/{site.namespace}/job: {NOT_BEFORE} {later}"
        assert not await site.is_cordoned(hosts[0])
        assert await site.pods() == ["job"]
        await say(site, "job", **{NOT_BEFORE: times.rfc3339(datetime.now(UTC))})  # it has its checkpoint
        async with asyncio.timeout(90):
            while await site.pods():
                await site.bury()
        await site.until_phase("Succeeded")
    assert site.agents.hosts[-1] == hosts[0]
    assert sorted(site.agents.hosts) == hosts
    await site.nothing_is_left()


async def test_what_autoscalers_are_told_counts_too_unless_somebody_says_that_it_does_not(site: Site) -> None:
    host = await site.host("a", node=True)
    await site.pod("job", host, **{"karpenter.sh/do-not-disrupt": "true"})
    await site.maintenance(operations=REBOOTS)
    async with site.operator():
        found = await site.until(lambda one: one.status.waiting)
        assert found.status.waiting[0].reason == Reason.POD_PROTECTED
        await site.change(disruption={"drain": {"protectedPods": "evict"}})
        async with asyncio.timeout(90):
            while await site.pods():
                await site.bury()
        await site.until_phase("Succeeded")
    await site.nothing_is_left()


async def test_nodes_that_come_next_say_that_maintenance_is_planned_and_others_are_left_alone(
    site: Site,
) -> None:
    hosts = [await site.host(name, node=True, role="web") for name in "abc"]
    other = await site.host("d", node=True)
    foreign = {"type": MAINTENANCE_PLANNED, "status": "True", "reason": "Admin", "message": "new disks"}
    for node in (hosts[2], other):
        body = StrategicPatch({"status": {"conditions": [foreign]}})
        await site.client.patch(core.NODES, node, "", body, subresource="status")
    site.agents.behave = lambda task: HANG if task.spec.node_name == hosts[0] else "Succeeded"
    await site.maintenance(operations=REBOOTS, series={"selector": {"matchLabels": {"role": "web"}}})
    async with site.operator(entries=(*ENTRIES, disruption.PLANNED)):
        said = f"{site.namespace}/monday: it comes next"
        await until_node(site, hosts[1], lambda node: node.planned == said)
        found = await site.until(lambda one: one.status.next_hosts == hosts[1:])
        assert found.status.phase == "Running"
        await until_node(site, hosts[0], lambda node: node.says(MAINTENANCE_IN_PROGRESS))
        assert not (await site.client.get(NODES, hosts[0])).says(MAINTENANCE_PLANNED)
        await site.client.delete(NODE_MAINTENANCES, "monday", site.namespace)  # or ended, or paused
        await until_node(site, hosts[1], lambda node: not node.planned)
        site.agents.behave = lambda _task: "Succeeded"
        site.agents.look()
    for node in (hosts[2], other):
        left = (await site.client.get(NODES, node)).status.conditions
        assert [(one.reason, one.message) for one in left if one.status == "True"] == [("Admin", "new disks")]


@dataclass
class HangingEvictions:
    """A way to a server whose webhook for evictions never answers."""

    inner: Transport

    async def send(self, request: Request) -> Response:
        if request.target.partition("?")[0].endswith("/eviction"):
            await asyncio.get_running_loop().create_future()
        return await self.inner.send(request)

    async def reauthenticate(self) -> bool:
        return await self.inner.reauthenticate()

    async def close(self) -> None:
        await self.inner.close()


async def test_an_eviction_that_hangs_holds_up_no_other_maintenance(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_draining, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(node_draining, "HASTY_SECONDS", 0.1)
    stuck, free = await site.host("a", node=True, role="stuck"), await site.host("b", role="free")
    await site.pod("web", stuck)
    async with site.operator() as mortal:
        real, mortal.inner = mortal.inner, HangingEvictions(mortal.inner)
        await site.maintenance(operations=REBOOTS, series={"selector": {"matchLabels": {"role": "stuck"}}})
        await until_draining(site, stuck)
        await site.maintenance("other", series={"selector": {"matchLabels": {"role": "free"}}})
        await site.until_phase("Succeeded", name="other")
        found = await site.status()
        assert (found.status.phase, found.status.waiting[0].reason) == ("Running", Reason.DRAINING)
        mortal.inner = real
        await site.client.delete(core.PODS, "web", site.namespace)
        async with asyncio.timeout(90):
            while await site.pods():
                await site.bury()
        await site.until_phase("Succeeded")
    assert site.agents.hosts == [free, stuck]
    await site.nothing_is_left()


async def until_draining(site: Site, host: str) -> None:
    async with asyncio.timeout(90):
        while "Draining" not in (await site.visits()).get(host, ""):  # noqa: ASYNC110
            await asyncio.sleep(0.06)


async def until_node(site: Site, node: str, holds: Callable[[Node], bool]) -> None:
    async with asyncio.timeout(90):
        while not holds(await site.client.get(NODES, node)):  # noqa: ASYNC110
            await asyncio.sleep(0.06)
