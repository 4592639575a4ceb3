"""A series over labels of Kubernetes Nodes: who takes part, who is left out, who may know; both servers."""

from __future__ import annotations

import asyncio
import json

import pytest

from nodemanager.api.maintenance.nodeseries import NODE_SERIES
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.controllers import node_series
from nodemanager.controllers.node_series import resolving
from nodemanager.kube import conditions, core
from support import cli, maintenance_site
from support.either import Place
from support.maintenance_site import Site, site_at


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(maintenance_site, "ENTRIES", (*maintenance_site.ENTRIES, node_series.REGISTRATION))


async def label(site: Site, node: str) -> None:
    await site.client.patch(core.NODES, node, "", MergePatch({"metadata": {"labels": chosen(site)}}))


def chosen(site: Site) -> dict[str, str]:
    return {"gpu": site.prefix}  # Nodes are in no namespace: other tests have some, too


async def with_hosts(site: Site) -> tuple[str, str]:
    """Have a host whose Node is chosen, one whose is not, one without, and a Node without an agent."""
    one, _, _ = await site.host("a", node=True), await site.host("b", node=True), await site.host("edge")
    stray = f"{site.prefix}-stray"
    await site.client.create(core.NODES, {"metadata": {"name": stray}})
    site.nodes.append(stray)
    for name in (one, stray):
        await label(site, name)
    spec = {"nodeSelector": {"matchLabels": chosen(site)}}
    await site.client.create(NODE_SERIES, {"metadata": {"name": "gpus"}, "spec": spec}, site.namespace)
    return one, stray


async def test_hosts_take_part_by_their_nodes_and_who_is_left_out_is_told(place: Place) -> None:
    async with site_at(place) as site:
        one, stray = await with_hosts(site)
        await site.maintenance(series={"nodeSelector": {"matchLabels": chosen(site)}})
        async with site.operator():
            found = await site.until_phase("Succeeded")
            assert site.agents.hosts == [one]
            plan = found.status.plan
            assert plan is not None
            assert (plan.hosts, plan.without_agent, plan.first_without_agent) == (1, 1, [stray])
            assert plan.without_node == 1
            await label(site, f"{site.prefix}-b")  # a label that comes later counts, too
            await site.maintenance("again", seriesRef={"name": "gpus"})
            await site.until_phase("Succeeded", name="again")
            assert sorted(site.agents.hosts[1:]) == [one, f"{site.prefix}-b"]
        events = (await site.client.list(core.EVENTS, Selection(site.namespace))).items
        said = [event.message for event in events if event.reason == "RunStarted"]
        assert any(f"on 1 host; 1 Kubernetes Node without an agent, left out: {stray}" in one for one in said)
        assert all("1 host without a Kubernetes Node, left out" in one for one in said)
        status = (await site.client.get(NODE_SERIES, "gpus", site.namespace)).status
        assert (status.hosts, status.first_without_agent, status.without_node) == (2, [stray], 1)
        args = ("maintenance", "plan", "again", "-n", site.namespace, "--kubeconfig", str(place.kubeconfig))
        told = json.loads((await asyncio.to_thread(cli.run, *args, "-o", "json")).stdout)
        assert (told["withoutAgent"], told["withoutNode"]) == ([stray], [f"{site.prefix}-edge"])
        shown = " ".join((await asyncio.to_thread(cli.run, *args)).stdout.split())
        assert "1 Kubernetes Node without an agent, left out" in shown


async def test_without_the_right_to_read_nodes_nothing_begins_and_the_remedy_is_said(place: Place) -> None:
    async with site_at(place, disruptive=False) as site:
        await with_hosts(site)
        await site.maintenance(seriesRef={"name": "gpus"})
        async with site.operator():
            found = await site.until(lambda one: one.status.conditions)
            valid = conditions.get(found.status.conditions, "Valid")
            assert valid is not None
            assert (valid.status, valid.reason) == ("False", "NodeLabelsUnknown")
            assert "cannot be told: " in valid.message
            assert site.agents.taken == []
            await site.change(seriesRef=None)  # all hosts: that needs no Node
            await site.until_phase("Succeeded")
        series = await site.client.get(NODE_SERIES, "gpus", site.namespace)
        resolved = conditions.get(series.status.conditions, "Resolved")
        assert resolved is not None
        assert (resolved.status, resolved.reason) == ("False", "NodeLabelsUnknown")
        assert "kubectl apply -f config/rbac/operator-disruption.yaml" in resolved.message
