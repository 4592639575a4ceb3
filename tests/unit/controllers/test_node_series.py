"""The status of a series: how many hosts, in which groups, and who is missing."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.api.common import node_conditions
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode, ManagedNodeStatus
from nodemanager.api.maintenance.nodeseries import NODE_SERIES, RESOLVED, NodeSeries
from nodemanager.api.maintenance.nodeseries import NodeSeriesStatus as Told
from nodemanager.api.maintenance.series import SeriesSpec
from nodemanager.client.http.transport import Request
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly, node_series
from nodemanager.controllers.assembly import Dependencies
from nodemanager.controllers.disruption.nodes import NODES, Node
from nodemanager.controllers.node_series import resolving
from nodemanager.controllers.node_series.resolving import ClusterNodes
from nodemanager.controllers.registration import Caches, Wake
from nodemanager.host.process import runner
from nodemanager.kube import conditions
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectKey, ObjectMeta, key_of
from nodemanager.kube.selectors import LabelSelector
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.metrics import Registry
from support import whole_server
from support.clients import connected
from support.model_api import Answer

NOW = "2026-01-01T00:00:00Z"


def node(name: str, *, silent: bool = False, **labels: str) -> ManagedNode:
    mark = Condition(type=node_conditions.ALIVE, status=conditions.FALSE if silent else conditions.TRUE)
    return ManagedNode(
        metadata=ObjectMeta(namespace="ns", name=name, labels=labels),
        status=ManagedNodeStatus(conditions=[mark]),
    )


def series(spec: SeriesSpec) -> NodeSeries:
    return NodeSeries(metadata=ObjectMeta(namespace="ns", name="s", generation=2), spec=spec)


def test_hosts_are_counted_by_group() -> None:
    hosts = [node("a", zone="1"), node("b", zone="2", silent=True), node("c", zone="2")]
    status = resolving.resolve(series(SeriesSpec(group_by="zone")), hosts, NOW)
    assert (status.hosts, status.silent, status.observed_generation) == (3, 1, 2)
    assert [(group.name, group.hosts) for group in status.groups] == [("1", 1), ("2", 2)]
    assert status.first == ["a", "b", "c"]
    assert conditions.is_true(status.conditions, RESOLVED)


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        (SeriesSpec(names=["a", "web9"]), "NotFound", "there is no host web9: correct spec.names"),
        (SeriesSpec(names=["a"], group_by="x"), "AllFound", ""),
    ],
)
def test_who_is_missing_is_named(spec: SeriesSpec, reason: str, message: str) -> None:
    found = conditions.get(resolving.resolve(series(spec), [node("a")], NOW).conditions, RESOLVED)
    assert found is not None
    assert (found.reason, found.message) == (reason, message)


def test_a_series_of_nobody_says_so() -> None:
    found = conditions.get(resolving.resolve(series(SeriesSpec()), [], NOW).conditions, RESOLVED)
    assert found is not None
    assert (found.status, found.reason) == ("False", "NoHost")


def test_nodes_without_an_agent_are_counted_and_some_are_named() -> None:
    spec = SeriesSpec(node_selector=LabelSelector(match_labels={"gpu": "yes"}))
    cluster = ClusterNodes({f"n{number:02}": {"gpu": "yes"} for number in range(30)})
    status = resolving.resolve(series(spec), [node("n00"), node("edge")], NOW, cluster)
    assert (status.hosts, status.without_agent, status.without_node) == (1, 29, 1)
    assert status.first_without_agent == [f"n{number:02}" for number in range(1, 21)]
    found = conditions.get(status.conditions, RESOLVED)
    assert found is not None
    assert (found.status, found.message.startswith("29 Kubernetes Nodes without an agent")) == ("True", True)
    assert "1 host without a Kubernetes Node, left out: edge" in found.message


def test_without_the_right_to_read_nodes_the_condition_says_how_to_give_it() -> None:
    spec = SeriesSpec(node_selector=LabelSelector(match_labels={"gpu": "yes"}))
    refused = ClusterNodes(refused="nodes is forbidden")
    found = conditions.get(resolving.resolve(series(spec), [node("a")], NOW, refused).conditions, RESOLVED)
    assert found is not None
    assert (found.status, found.reason) == ("False", "NodeLabelsUnknown")
    assert "nodes is forbidden" in found.message
    assert "kubectl apply -f config/rbac/operator-disruption.yaml" in found.message
    plain = resolving.resolve(series(SeriesSpec()), [node("a")], NOW, refused)
    assert conditions.is_true(plain.conditions, RESOLVED), "who asks for no Node needs no right"


def test_large_fleets_have_a_bounded_status() -> None:
    hosts = [node(f"host{number:05}", zone=str(number)) for number in range(2000)]
    names = [f"x{number}" for number in range(500)]
    status = resolving.resolve(series(SeriesSpec(group_by="zone")), hosts, NOW)
    assert (status.hosts, len(status.groups), len(status.first)) == (2000, 100, 20)
    assert len(resolving.resolve(series(SeriesSpec(names=names)), hosts, NOW).not_found) == 20


def test_what_is_missing_and_what_is_left_out_are_told_together() -> None:
    spec = SeriesSpec(node_selector=LabelSelector(match_labels={"gpu": "yes"}), names=["web9"])
    missing = conditions.get(resolving.resolve(series(spec), [node("a")], NOW).conditions, RESOLVED)
    assert missing is not None
    assert missing.message == "there is no host web9: correct spec.names"
    alone = SeriesSpec(node_selector=LabelSelector(match_labels={"gpu": "yes"}))
    cluster = ClusterNodes({"n1": {"gpu": "yes"}})
    nobody = conditions.get(resolving.resolve(series(alone), [], NOW, cluster).conditions, RESOLVED)
    assert nobody is not None
    assert nobody.message.startswith("no host is chosen: correct the selectors; 1 Kubernetes Node without")
    nobody = conditions.get(resolving.resolve(series(SeriesSpec()), [], NOW).conditions, RESOLVED)
    assert nobody is not None
    assert nobody.message == "no host is chosen: correct the selectors"


def test_a_silent_host_that_is_not_meant_is_not_counted() -> None:
    hosts = [node("a", silent=True, role="web"), node("b", silent=True, role="db")]
    spec = SeriesSpec(selector=LabelSelector(match_labels={"role": "web"}))
    status = resolving.resolve(series(spec), hosts, NOW)
    assert (status.hosts, status.silent) == (1, 1)


class Written:
    """A transport that notes what is written, and takes it."""

    def __init__(self) -> None:
        self.statuses: list[dict[str, Any]] = []

    async def send(self, request: Request) -> Answer:
        self.statuses.append(json.loads(request.body)["status"])
        return Answer(200, json.dumps({"metadata": {"name": "s", "namespace": "ns"}}).encode())

    async def reauthenticate(self) -> bool:
        return False

    async def close(self) -> None:
        pass


BY_NODES = SeriesSpec(node_selector=LabelSelector(match_labels={"gpu": "yes"}))


@pytest.mark.parametrize("spec", [SeriesSpec(), BY_NODES], ids=["by labels", "by labels of Nodes"])
async def test_the_status_is_written_when_it_is_another_one(spec: SeriesSpec) -> None:
    written = Written()
    client = Client(written)
    found = resolving.SeriesResolver(
        client, Cache(client, NODE_SERIES), Cache(client, MANAGED_NODES), Cache(client, NODES),
        lambda: datetime.fromisoformat(NOW),
    )  # fmt: skip
    key = ObjectKey("ns", "s")
    assert await found.reconcile(key) is None, "it is gone"
    found.nodes._put(ObjectKey("ns", "a"), node("a"))
    far = msgspec.structs.replace(node("b"), metadata=ObjectMeta(name="b", namespace="elsewhere"))
    found.nodes._put(ObjectKey("elsewhere", "b"), far)
    found.kubernetes._put(ObjectKey("", "a"), Node(ObjectMeta(name="a", labels={"gpu": "yes"})))
    one = series(spec)
    going = msgspec.structs.replace(one.metadata, deletion_timestamp=NOW)
    found.series._put(key, msgspec.structs.replace(one, metadata=going))
    assert await found.reconcile(key) is None, "it is being deleted"
    assert written.statuses == []
    found.series._put(key, one)
    again = resolving.LOOK_SECONDS if spec is BY_NODES else None
    result = await found.reconcile(key)
    assert (result.requeue_after if result is not None else None) == again
    assert [(told["hosts"], told["first"]) for told in written.statuses] == [(1, ["a"])]
    found.series._put(key, msgspec.structs.replace(one, status=msgspec.convert(written.statuses[0], Told)))
    await found.reconcile(key)
    assert len(written.statuses) == 1
    found.kubernetes.refused = "nodes is forbidden"
    await found.reconcile(key)
    assert len(written.statuses) == (2 if spec is BY_NODES else 1)


def caches_of(*known: NodeSeries) -> Caches:
    none: Any = None
    found: Cache[NodeSeries] = Cache(none, NODE_SERIES)
    for one in known:
        found._put(key_of(one), one)
    return Caches("nodeseries", {NODE_SERIES: found})


def named(name: str, namespace: str = "ns", spec: SeriesSpec | None = None) -> NodeSeries:
    return NodeSeries(ObjectMeta(name=name, namespace=namespace), spec or SeriesSpec())


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [(None, 1, True), (1, 1, False), (1, 2, True), (1, None, False)],
)
def test_a_series_is_woken_by_its_spec(old: int | None, new: int | None, wakes: bool) -> None:
    before, after = (
        None if one is None else NodeSeries(ObjectMeta(name="s", namespace="ns", generation=one))
        for one in (old, new)
    )
    key = ObjectKey("ns", "s")
    found = list(resolving.on_series(Change(key, before, after), caches_of()))
    assert found == ([Wake(key)] if wakes else [])


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, node("a"), True),
        (node("a"), None, True),
        (node("a"), node("a", role="web"), True),
        (node("a"), node("a", silent=True), True),
        (node("a"), node("a"), False),
    ],
)
def test_a_host_wakes_the_series_of_its_namespace(
    old: ManagedNode | None, new: ManagedNode | None, wakes: bool
) -> None:
    caches = caches_of(named("s"), named("far", "elsewhere"))
    found = list(resolving.on_node(Change(ObjectKey("ns", "a"), old, new), caches))
    assert found == ([Wake(ObjectKey("ns", "s"), resolving.SETTLE_SECONDS)] if wakes else [])


def cluster_node(ready: str = "True", **labels: str) -> Node:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return msgspec.convert({"metadata": {"name": "a", "labels": labels}, "status": status}, Node)


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, cluster_node(), True),
        (cluster_node(), None, True),
        (cluster_node(), cluster_node(gpu="yes"), True),
        (cluster_node(), cluster_node("False"), False),
    ],
)
def test_a_kubernetes_node_wakes_the_series_that_select_by_nodes(
    old: Node | None, new: Node | None, wakes: bool
) -> None:
    caches = caches_of(named("s"), named("gpus", "any", BY_NODES))
    found = list(resolving.on_kubernetes_node(Change(ObjectKey("", "a"), old, new), caches))
    assert found == ([Wake(ObjectKey("any", "gpus"), resolving.SETTLE_SECONDS)] if wakes else [])


async def test_it_follows_hosts_that_come_are_labelled_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "SETTLE_SECONDS", 0.0)
    async with whole_server.serving(tmp_path) as (config, _), connected(config) as client:
        given = Dependencies(client, "default", Registry(), runner.companion, leader_elect=False)
        operator = assembly.assemble(given, [node_series.REGISTRATION])
        task = asyncio.create_task(operator.manager.run())

        async def wait(hosts: int) -> None:
            for _ in range(1000):
                if (await client.get(NODE_SERIES, "s", "default")).status.hosts == hosts:
                    return
                await asyncio.sleep(0.02)
            raise AssertionError(f"never {hosts} hosts")

        try:
            spec = {"selector": {"matchLabels": {"role": "web"}}}
            await client.create(NODE_SERIES, {"metadata": {"name": "s"}, "spec": spec}, "default")
            for name in ("a", "b"):
                meta = {"name": name, "labels": {"role": "web"}}
                await client.create(MANAGED_NODES, {"metadata": meta}, "default")
            await wait(2)
            patch = MergePatch({"metadata": {"labels": {"role": "db"}}})
            await client.patch(MANAGED_NODES, "a", "default", patch)
            await wait(1)
            await client.delete(MANAGED_NODES, "b", "default")
            await wait(0)
        finally:
            operator.manager.stop("the test is over")
            await task
