"""What is read of Nodes of Kubernetes, by name and by get alone; and what right that needs."""

from __future__ import annotations

import json

import pytest

from nodemanager.controllers import assembly
from nodemanager.controllers.edge_clusters import node_reading
from nodemanager.fleet.edge.node_details import SeenNode
from support import edge_profiles, objects_api
from support.objects_api import ObjectsApi

PATH = "/api/v1/nodes"
TAINTED = {
    "metadata": {"name": "a"},
    "spec": {
        "unschedulable": True,
        "taints": [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
            {"key": "gpu", "value": "yes", "effect": "NoExecute", "timeAdded": "2026-03-01T04:00:00Z"},
        ],
    },
}


async def read(api: ObjectsApi, *names: str) -> dict[str, SeenNode]:
    async with objects_api.serve(api) as client:
        return await node_reading.read(client, names)


async def test_taints_and_cordons_are_read_by_name() -> None:
    api = ObjectsApi({PATH: [TAINTED, {"metadata": {"name": "b"}, "spec": {"taints": None}}]})
    found = await read(api, "a", "b")
    assert found["a"].unschedulable
    assert found["a"].taints == ["node.kubernetes.io/unschedulable:NoSchedule", "gpu=yes:NoExecute"]
    assert found["b"] == SeenNode(taints=[])
    assert sorted(api.asked) == [f"GET {PATH}/a", f"GET {PATH}/b"]


@pytest.mark.parametrize(
    ("api", "answer", "says"),
    [
        (ObjectsApi({PATH: []}), "Missing", "not found"),
        (ObjectsApi(refuses=True), "Refused", "see nodemanager edge rbac"),
        (ObjectsApi(away=True), "Unanswered", ""),
    ],
    ids=["missing", "refused", "away"],
)
async def test_one_that_cannot_be_read_is_not_one_without_taints(
    api: ObjectsApi, answer: str, says: str
) -> None:
    (found,) = (await read(api, "a")).values()
    assert found.read.answer == answer
    assert says in found.read.message


@pytest.mark.parametrize("name", ["../secrets/x", "A", "", "a b", "x" * 254])
async def test_a_name_that_no_node_can_have_leads_nowhere(name: str) -> None:
    api = ObjectsApi()
    assert (await read(api, name))[name].read.answer == "Unreadable"
    assert api.asked == []


def test_the_right_is_to_get_nodes_and_only_where_the_profile_wants_that() -> None:
    plain = edge_profiles.typed(edge_profiles.shipped("ubuntu-local-path"))
    assert "nodes" not in json.dumps(assembly.site_manifests(plain, "edge"))
    wanted = {"topology": {"observeNodes": True}}
    found = edge_profiles.typed(edge_profiles.shipped("ubuntu-local-path", "", wanted))
    rules = [rule for one in assembly.site_manifests(found, "edge") for rule in one.get("rules", [])]
    assert rules == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]
