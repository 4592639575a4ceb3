"""What a maintenance needs is gone, or says what nobody expects: it tells, and goes on afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodeseries import NODE_SERIES
from nodemanager.client.patches import MergePatch
from nodemanager.client.subresources import write_status
from nodemanager.client.verbs import Client
from nodemanager.controllers.node_maintenances import reconciling
from nodemanager.controllers.node_maintenances.status import writer
from nodemanager.fleet.maintenance.protected_pods import NOT_BEFORE
from nodemanager.kube import conditions
from nodemanager.kube.objects import Resource
from support.maintenance_site import REBOOT, Site
from support.pretend_agents import HANG


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "BUSY_SECONDS", 0.1)
    monkeypatch.setattr(reconciling, "LOOK_SECONDS", 0.5)


async def test_a_run_whose_series_is_gone_waits_for_it(site: Site) -> None:
    """Nobody is chosen then, which is not the same as everybody being done."""
    host = await site.host("a")
    body = {"metadata": {"name": "all"}, "spec": {}}
    await site.client.create(NODE_SERIES, body, site.namespace)
    await site.maintenance(seriesRef={"name": "all"}, paused=True)
    async with site.operator():
        await site.until_phase("Paused")
        await site.client.delete(NODE_SERIES, "all", site.namespace)
        gone = await site.until(lambda one: not conditions.is_true(one.status.conditions, "Valid"))
        assert (gone.status.run is not None, gone.status.history) == (True, [])
        await site.client.create(NODE_SERIES, body, site.namespace)
        await site.change(paused=False)
        await site.until_phase("Succeeded")
    assert site.agents.hosts == [host]


async def test_what_hosts_and_pods_say_may_have_several_lines(site: Site) -> None:
    """The API takes no control character into a status: none of it would be written any more."""
    wrong, kept, free = [await site.host(name, node=name == "b") for name in "abc"]
    ready = {"type": "Ready", "status": "False", "reason": "Failed", "message": "/etc/x:\n\tno such user"}
    before = msgspec.to_builtins((await site.managed(wrong)).status.conditions)
    dated = {**before[0], **ready}
    body = MergePatch({"status": {"conditions": [*(one for one in before if one["type"] != "Ready"), dated]}})
    await site.client.patch(MANAGED_NODES, wrong, site.namespace, body, subresource="status")
    await site.pod("job", kept, **{NOT_BEFORE: "2099-01-31\n18:00:00Z"})
    await site.maintenance(
        health={"before": [{"configSetsHold": True}]},
        budget={"maxUnavailable": 3},
        operations=[{"name": "work", "type": "one-shot", "steps": REBOOT}],
    )
    async with site.operator():
        found = await site.until(lambda one: one.status.hosts is not None and one.status.hosts.succeeded == 1)
    assert site.agents.hosts == [free]
    assert {one.reason: one.object for one in found.status.waiting} == {
        "GateBefore": f"managednode/{wrong}: /etc/x: no such user",
        "PodProtected": f"pod/{site.namespace}/job: {NOT_BEFORE} 2099-01-31 18:00:00Z",
    }


async def test_a_field_that_the_crd_does_not_know_yet_keeps_no_run_from_going_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API drops it, so that a write of nothing else leaves the version as it was."""
    idle = asyncio.Event()

    async def newer(client: Client, resource: Resource[Any], obj: Any, old: Any, wanted: Any) -> bool:
        more = {**msgspec.to_builtins(wanted), "fromTheFuture": "x"}
        changed = await write_status(client, resource, obj, old, more)
        if old == wanted:
            assert not changed
            idle.set()
        return changed

    monkeypatch.setattr(writer, "write_status", newer)
    await site.host("a")
    await site.maintenance()
    site.agents.behave = lambda _task: HANG
    async with site.operator():
        await asyncio.wait_for(idle.wait(), 30)
        site.agents.behave = lambda _task: "Succeeded"
        site.agents.look()
        await site.until_phase("Succeeded")
