"""The roll-up of what hosts report about a ConfigSet."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from nodemanager.api import conditions
from nodemanager.api.configset import CONFIG_SETS, ConfigSet, ConfigSetStatus
from nodemanager.api.managednode import MANAGED_NODES, AppliedConfigSet, ManagedNode, ManagedNodeStatus
from nodemanager.api.objects import ObjectKey, ObjectMeta
from nodemanager.client.calls import Selection
from nodemanager.client.http import Client
from nodemanager.client.transport import Request
from nodemanager.controllers import configsets
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.queue import WorkQueue
from support import virtual_time
from support.model_api import Answer

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def config_set(name: str = "base", **meta: Any) -> ConfigSet:
    return ConfigSet(metadata=ObjectMeta(namespace="ns", name=name, generation=3, labels={"a": "b"}, **meta))


def node(name: str, *reports: AppliedConfigSet, **labels: str) -> ManagedNode:
    return ManagedNode(
        metadata=ObjectMeta(namespace="ns", name=name, labels=labels or {"a": "b"}),
        status=ManagedNodeStatus(configsets=list(reports)),
    )


def report(generation: int = 3, error: str = "", *conflicts: str) -> AppliedConfigSet:
    return AppliedConfigSet(
        name="base", observed_generation=generation, error=error, conflicts=list(conflicts)
    )


def summary(status: ConfigSetStatus) -> tuple[int, int, int, int, str, str]:
    counts = status.nodes
    assert counts is not None
    ready = conditions.get(status.conditions, "Ready")
    assert ready is not None
    assert ready.observed_generation == status.observed_generation == 3
    return counts.matched, counts.applied, counts.failed, counts.conflicted, ready.status, ready.reason


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param([], (0, 0, 0, 0, "Unknown", "NoHost"), id="no hosts"),
        pytest.param([node("x", report(), c="d")], (0, 0, 0, 0, "Unknown", "NoHost"), id="no match any more"),
        pytest.param([node("x")], (1, 0, 0, 0, "False", "Applying"), id="not yet"),
        pytest.param([node("x", report())], (1, 1, 0, 0, "True", "Applied"), id="applied"),
        pytest.param([node("x", report(2))], (1, 0, 0, 0, "False", "Applying"), id="an older generation"),
        pytest.param([node("x", report(0))], (1, 1, 0, 0, "True", "Applied"), id="a Go agent"),
        pytest.param(
            [node("x", report()), node("y", report(3, "boom"))],
            (2, 1, 1, 0, "False", "ApplyFailed"),
            id="one failed",
        ),
        pytest.param(
            [node("x", report(3, "", "file:/x"))], (1, 0, 0, 1, "False", "Applying"), id="conflicted"
        ),
    ],
)
def test_counts_and_readiness(
    nodes: list[ManagedNode], expected: tuple[int, int, int, int, str, str]
) -> None:
    assert summary(configsets.summarise(config_set(), nodes, NOW)) == expected


def test_messages_name_a_few_hosts_and_count_the_rest() -> None:
    nodes = [node(f"host{i}", report(3, "boom", "file:/x")) for i in range(8)]
    status = configsets.summarise(config_set(), nodes, NOW)
    ready = conditions.get(status.conditions, "Ready")
    conflicted = conditions.get(status.conditions, "Conflicted")
    assert ready is not None
    assert ready.message == "failed on host0, host1, host2, host3, host4 and 3 more"
    assert conflicted is not None
    assert conflicted.status == "True"
    assert conflicted.reason == "ResourceConflict"
    assert conflicted.message.endswith("host4 and 3 more")


@pytest.mark.parametrize(
    ("applied", "missing", "said"),
    [
        (1, 0, "applied on 1 host"),
        (2, 0, "applied on 2 hosts"),
        (1, 1, "not applied on 1 host yet"),
        (1, 3, "not applied on 3 hosts yet"),
    ],
)
def test_one_host_is_no_hosts(applied: int, missing: int, said: str) -> None:
    nodes = [node(f"a{i}", report(3)) for i in range(applied)] + [node(f"m{i}") for i in range(missing)]
    ready = conditions.get(configsets.summarise(config_set(), nodes, NOW).conditions, "Ready")
    assert ready is not None
    assert ready.message == said


def test_the_same_reports_give_the_same_status_at_any_time() -> None:
    first = configsets.summarise(config_set(), [node("x", report())], NOW)
    again = configsets.summarise(
        ConfigSet(metadata=config_set().metadata, status=first), [node("x", report())], LATER
    )
    assert again == first


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, node("x"), ["base", "other"], id="new host"),
        pytest.param(node("x"), None, ["base", "other"], id="host gone"),
        pytest.param(node("x"), node("x", report()), ["base"], id="report"),
        pytest.param(node("x", report()), node("x"), ["base"], id="report gone"),
        pytest.param(node("x"), node("x", c="d"), ["base", "other"], id="relabelled"),
        pytest.param(node("x"), node("x"), [], id="nothing that counts"),
        pytest.param(None, None, [], id="unreadable from the start"),
    ],
)
def test_which_sets_a_host_affects(
    old: ManagedNode | None, new: ManagedNode | None, expected: list[str]
) -> None:
    elsewhere = ConfigSet(metadata=ObjectMeta(namespace="elsewhere", name="base"))
    found = configsets.affected(
        Change(ObjectKey("ns", "x"), old, new), [config_set(), config_set("other"), elsewhere]
    )
    assert found == [ObjectKey("ns", name) for name in expected]


class Recording:
    """A transport that keeps what was sent."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    async def send(self, request: Request) -> Answer:
        self.bodies.append(json.loads(request.body))
        return Answer(200, b'{"metadata": {"name": "base", "namespace": "ns"}}')

    async def reauthenticate(self) -> bool:
        return False

    async def close(self) -> None:
        pass


@virtual_time.test
async def test_a_change_of_status_alone_is_not_answered_at_once_and_writes_are_conditional() -> None:
    """Agents of the Go project write a condition of their own: two eager writers would never stop."""
    wire = Recording()
    client = Client(wire)
    sets = Cache(client, CONFIG_SETS, Selection("ns"))
    nodes = Cache(client, MANAGED_NODES, Selection("ns"))
    queue: WorkQueue[ObjectKey] = WorkQueue("configset", metrics=Registry())
    rollup = configsets.ConfigSetRollup(client, sets, nodes, queue, lambda: NOW)
    key = ObjectKey("ns", "base")
    first = config_set(resource_version="5")
    sets._put(key, first)
    assert len(queue) == 1
    queue.done(await queue.get())
    await rollup.reconcile(key)
    assert wire.bodies[0]["metadata"] == {"resourceVersion": "5"}
    foreign = ConfigSetStatus(conditions=[conditions.Condition(type="Conflicted", status="True", reason="X")])
    sets._put(key, ConfigSet(metadata=config_set(resource_version="6").metadata, status=foreign))
    await asyncio.sleep(configsets.STATUS_SECONDS - 1)
    assert len(queue) == 0
    await asyncio.sleep(2)
    assert len(queue) == 1
    queue.shut_down()
