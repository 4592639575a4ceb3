"""The status of a series: how many hosts, in which groups, and who is missing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nodemanager.api.common import node_conditions
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode, ManagedNodeStatus
from nodemanager.api.maintenance.nodeseries import NODE_SERIES, RESOLVED, NodeSeries
from nodemanager.api.maintenance.series import SeriesSpec
from nodemanager.client.patches import MergePatch
from nodemanager.controllers import assembly, node_series
from nodemanager.controllers.assembly import Dependencies
from nodemanager.controllers.node_series import resolving
from nodemanager.controllers.node_series.resolving import ClusterNodes
from nodemanager.host.process import runner
from nodemanager.kube import conditions
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from nodemanager.kube.selectors import LabelSelector
from nodemanager.runtime.metrics import Registry
from support import whole_server
from support.clients import connected

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
