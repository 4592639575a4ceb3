"""Nodes of Kubernetes of a site, before both servers, read with exactly the right that a profile asks for."""

from __future__ import annotations

import pytest

from nodemanager.api.edge.node_reports import ToldNode
from nodemanager.api.maintenance.nodetask import NODE_TASKS
from nodemanager.fleet.edge import findings
from nodemanager.kube import conditions, manifests
from support import accounts, edge_site
from support.agent_process import Api
from support.edge_reports import ToldHost
from support.either import Place

pytestmark = [pytest.mark.usefixtures("place"), pytest.mark.timeout(120)]
TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


async def test_taints_of_nodes_and_their_tasks_are_in_the_status(place: Place, api: Api) -> None:
    there, gone = f"a-{place.namespace}", f"b-{place.namespace}"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": there},
            "spec": {"unschedulable": True, "taints": [TAINT]}}  # fmt: skip
    place.kubectl("apply", "-f", "-", stdin=manifests.dump([node]))
    more = {"topology": {"observeNodes": True}}
    try:
        async with edge_site.standing(place, api, more=more) as site:
            await site.daemon_set.deploy()
            await site.daemon_set.begin(there, gone)
            await site.look()
            await site.daemon_set.live(there, gone)
            status = await site.look()
            first, second = (one.kubernetes for one in status.nodes)
            assert first is not None
            assert (first.state, first.unschedulable) == ("Fresh", True)
            assert "gpu=yes:NoSchedule" in first.taints
            assert second == ToldNode(state="Missing")
            said = conditions.get(status.conditions, findings.NODES_SEEN)
            assert said is not None
            assert (said.status, said.reason) == ("Unknown", "NodeMissing")
            assert status.phase == "MultiNode", status.message
            asked = [one for one in site.asked if "/nodes" in one]
            assert {one.split()[0] for one in asked} == {"GET"}, "named, and nothing is watched"
            assert all(one.endswith((there, gone)) for one in asked)

            name = f"nodemanager-operator-edge-{site.profile['metadata']['name']}"
            place.kubectl("delete", "clusterrolebinding", f"{name}.{place.namespace}")
            while said is None or said.reason != "NodeRefused":  # kube-apiserver hears of it a moment later
                status = await site.look(1)
                said = conditions.get(status.conditions, findings.NODES_SEEN)
            assert [one.kubernetes for one in status.nodes] == [ToldNode(state="Refused")] * 2
            assert "see nodemanager edge rbac" in said.message
    finally:
        place.kubectl("delete", "node", there)


async def test_the_task_that_a_node_is_at_is_in_the_status(place: Place, api: Api) -> None:
    async with edge_site.standing(place, api) as site:
        await site.daemon_set.deploy()
        await site.daemon_set.begin("a")
        await edge_site.tell(site, "a", ToldHost())
        spec = {"nodeName": "a", "deadline": "2030-01-01T00:00:00Z", "fencingToken": 1,
                "steps": [{"name": "wait", "reboot": {"when": "always"}}]}  # fmt: skip
        async with accounts.operating(place) as operator:
            await operator.create(NODE_TASKS, {"metadata": {"name": "flip"}, "spec": spec}, place.namespace)
        status = await site.look()
        while (work := status.nodes[0].work) is None:  # it is on its way to the cache
            await site.daemon_set.live("a")
            status = await site.look(1)
        assert (status.nodes[0].tasks, work.name) == (1, "flip")
