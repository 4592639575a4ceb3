"""The roll-up of what hosts report about a ConfigSet."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet, ConfigSetStatus
from nodemanager.api.common.managednode import MANAGED_NODES, AppliedConfigSet, ManagedNode, ManagedNodeStatus
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from nodemanager.controllers import configsets, registration
from nodemanager.controllers.configsets import rollup
from nodemanager.controllers.configsets.validity import Validity
from nodemanager.controllers.registration import Caches
from nodemanager.kube import conditions
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import ReconcileResult, Retry
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.queue import WorkQueue
from support import virtual_time
from support.model_api import Answer, status_body
from support.rendering import Inline

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
            [node("x", AppliedConfigSet(name="base", observed_generation=3, waiting="for a Secret"))],
            (1, 0, 0, 0, "False", "Applying"),
            id="waiting",
        ),
        pytest.param(
            [node("x", report(3, "", "file:/x"))], (1, 0, 0, 1, "False", "Applying"), id="conflicted"
        ),
    ],
)
def test_counts_and_readiness(
    nodes: list[ManagedNode], expected: tuple[int, int, int, int, str, str]
) -> None:
    assert summary(rollup.summarise(config_set(), nodes, NOW)) == expected


def silent(one: ManagedNode) -> ManagedNode:
    """The same host, after the operator has marked it."""
    mark = conditions.Condition(type="Alive", status="False", reason="LeaseExpired")
    status = ManagedNodeStatus(configsets=one.status.configsets, conditions=[mark])
    return ManagedNode(metadata=one.metadata, status=status)


def test_what_a_silent_host_reported_counts_no_more() -> None:
    nodes = [node("x", report()), silent(node("y", report())), silent(node("z", report(3, "boom", "f")))]
    status = rollup.summarise(config_set(), nodes, NOW)
    assert summary(status) == (3, 1, 0, 0, "Unknown", "HostsSilent")
    assert status.nodes is not None
    assert status.nodes.unknown == 2
    ready = conditions.get(status.conditions, "Ready")
    assert ready is not None
    assert ready.message == "no sign of life of y, z"


def held(one: ManagedNode) -> ManagedNode:
    """The same host, which says that it is held."""
    mark = conditions.Condition(type="Held", status="True", reason="HeldByAPI")
    status = ManagedNodeStatus(configsets=one.status.configsets, conditions=[mark])
    return ManagedNode(metadata=one.metadata, status=status)


@pytest.mark.parametrize(
    ("nodes", "expected", "said"),
    [
        pytest.param([held(node("x", report()))], (1, 0, "True"), "applied on 1 host", id="nothing waits"),
        pytest.param(
            [held(node("x", report(2))), node("y", report())],
            (1, 1, "False"), "waits for the end of a hold on x", id="a newer generation waits",
        ),
        pytest.param(
            [held(node("x", AppliedConfigSet(name="base", observed_generation=3, held=1)))],
            (0, 1, "False"), "waits for the end of a hold on x", id="a drift waits",
        ),
        pytest.param(
            [held(node("x", report(3, "boom"))), node("y")],
            (0, 1, "False"), "not applied on y yet; held: x", id="a failure on a held host is none",
        ),
    ],
)  # fmt: skip
def test_a_host_that_is_held_has_not_failed(
    nodes: list[ManagedNode], expected: tuple[int, int, str], said: str
) -> None:
    status = rollup.summarise(config_set(), nodes, NOW)
    ready = conditions.get(status.conditions, "Ready")
    assert status.nodes is not None
    assert ready is not None
    assert (status.nodes.applied, status.nodes.held, ready.status) == expected
    assert (status.nodes.failed, ready.message) == (0, said)


def test_a_failure_is_worse_news_than_silence() -> None:
    nodes = [node("x", report(3, "boom")), silent(node("y", report()))]
    assert summary(rollup.summarise(config_set(), nodes, NOW))[-1] == "ApplyFailed"


def test_messages_name_a_few_hosts_and_count_the_rest() -> None:
    nodes = [node(f"host{i}", report(3, "boom", "file:/x")) for i in range(8)]
    status = rollup.summarise(config_set(), nodes, NOW)
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
        (1, 1, "not applied on m0 yet"),
        (1, 7, "not applied on m0, m1, m2, m3, m4 and 2 more yet"),
    ],
)
def test_one_host_is_no_hosts(applied: int, missing: int, said: str) -> None:
    nodes = [node(f"a{i}", report(3)) for i in range(applied)] + [node(f"m{i}") for i in range(missing)]
    ready = conditions.get(rollup.summarise(config_set(), nodes, NOW).conditions, "Ready")
    assert ready is not None
    assert ready.message == said


def test_the_same_reports_give_the_same_status_at_any_time() -> None:
    first = rollup.summarise(config_set(), [node("x", report())], NOW)
    again = rollup.summarise(
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
        pytest.param(node("x"), silent(node("x")), ["base", "other"], id="silent"),
        pytest.param(node("x"), node("x"), [], id="nothing that counts"),
        pytest.param(None, None, [], id="unreadable from the start"),
    ],
)
def test_which_sets_a_host_affects(
    old: ManagedNode | None, new: ManagedNode | None, expected: list[str]
) -> None:
    elsewhere = ConfigSet(metadata=ObjectMeta(namespace="elsewhere", name="base"))
    found = rollup.affected(
        Change(ObjectKey("ns", "x"), old, new), [config_set(), config_set("other"), elsewhere]
    )
    assert found == [ObjectKey("ns", name) for name in expected]


class Recording:
    """A transport that keeps what was sent."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.answer = Answer(200, b'{"metadata": {"name": "base", "namespace": "ns"}}')

    async def send(self, request: Request) -> Answer:
        self.bodies.append(json.loads(request.body))
        return replace(self.answer)

    async def reauthenticate(self) -> bool:
        return False

    async def close(self) -> None:
        pass


class Rolled:
    """A roll-up with its caches, as the operator builds it."""

    def __init__(self) -> None:
        self.wire = Recording()
        client = Client(self.wire)
        self.sets = Cache(client, CONFIG_SETS, Selection("ns"))
        self.nodes = Cache(client, MANAGED_NODES, Selection("ns"))
        self.queue: WorkQueue[ObjectKey] = WorkQueue("configset", metrics=Registry())
        self.rollup = rollup.ConfigSetRollup(
            client, self.sets, self.nodes, Validity(Inline()), lambda: datetime.fromisoformat(NOW)
        )
        caches = Caches("configset", {CONFIG_SETS: self.sets, MANAGED_NODES: self.nodes})
        registration.connect(configsets.REGISTRATION.watches, caches, self.queue)

    async def settled(self) -> list[str]:
        """Return the names that are to be looked at once hosts had time to report together."""
        await asyncio.sleep(rollup.SETTLE_SECONDS + 0.1)
        found = []
        while len(self.queue):
            key = await self.queue.get()
            self.queue.done(key)
            found.append(key.name)
        return sorted(found)


BASE = ObjectKey("ns", "base")


@virtual_time.test
async def test_what_a_host_reports_is_counted_after_a_moment_and_once() -> None:
    """Without its ear at the hosts, a roll-up would show for ever what it found when it began."""
    rolled = Rolled()
    rolled.sets._put(BASE, config_set())
    rolled.sets._put(ObjectKey("ns", "other"), config_set("other"))
    assert await rolled.settled() == ["base", "other"]
    for name in ("x", "y"):
        rolled.nodes._put(ObjectKey("ns", name), node(name))
    assert len(rolled.queue) == 0
    assert await rolled.settled() == ["base", "other"]
    rolled.nodes._put(ObjectKey("ns", "x"), node("x", report()))
    assert await rolled.settled() == ["base"]
    await rolled.rollup.reconcile(BASE)
    assert rolled.wire.bodies[0]["status"]["nodes"] == {
        "matched": 2, "applied": 1, "failed": 0, "unknown": 0, "held": 0, "conflicted": 0,
    }  # fmt: skip
    rolled.queue.shut_down()


@virtual_time.test
@pytest.mark.parametrize("change", [{"generation": 4}, {"labels": {"c": "d"}}])
async def test_what_a_set_declares_is_looked_at_at_once(change: dict[str, Any]) -> None:
    rolled = Rolled()
    rolled.sets._put(BASE, config_set())
    await rolled.settled()
    meta = {"namespace": "ns", "name": "base", "generation": 3, "labels": {"a": "b"}, **change}
    rolled.sets._put(BASE, ConfigSet(metadata=ObjectMeta(**meta)))
    assert len(rolled.queue) == 1
    rolled.queue.shut_down()


@virtual_time.test
async def test_of_a_set_that_is_gone_or_going_nothing_is_said() -> None:
    rolled = Rolled()
    await rolled.rollup.reconcile(BASE)
    rolled.sets._put(BASE, config_set(deletion_timestamp=NOW))
    await rolled.settled()
    await rolled.rollup.reconcile(BASE)
    assert rolled.wire.bodies == []
    gone = rolled.sets._objects.pop(BASE)
    rolled.sets._tell(Change(BASE, gone, None))
    assert await rolled.settled() == []
    rolled.queue.shut_down()


@virtual_time.test
async def test_hosts_of_another_namespace_do_not_count_and_nothing_new_is_not_written() -> None:
    rolled = Rolled()
    stranger = ManagedNode(
        metadata=ObjectMeta(namespace="elsewhere", name="x", labels={"a": "b"}),
        status=ManagedNodeStatus(configsets=[report()]),
    )
    rolled.nodes._put(ObjectKey("elsewhere", "x"), stranger)
    rolled.sets._put(BASE, config_set())
    await rolled.rollup.reconcile(BASE)
    [body] = rolled.wire.bodies
    assert body["status"]["nodes"]["matched"] == 0
    judged = await Validity(Inline()).condition(config_set())
    status = rollup.summarise(config_set(), [], NOW, judged)
    rolled.sets._put(BASE, ConfigSet(metadata=config_set().metadata, status=status))
    await rolled.rollup.reconcile(BASE)
    assert len(rolled.wire.bodies) == 1
    rolled.queue.shut_down()


@virtual_time.test
async def test_a_set_that_was_deleted_meanwhile_is_no_error_and_one_that_changed_is_counted_again() -> None:
    rolled = Rolled()
    rolled.sets._put(BASE, config_set())
    rolled.wire.answer = Answer(404, status_body(404, "NotFound"))
    await rolled.rollup.reconcile(BASE)
    rolled.wire.answer = Answer(409, status_body(409, "Conflict"))
    with pytest.raises(Retry):
        await rolled.rollup.reconcile(BASE)
    assert len(rolled.wire.bodies) == 2
    rolled.queue.shut_down()


@virtual_time.test
async def test_counts_are_written_every_two_seconds_and_what_somebody_waits_for_at_once() -> None:
    """In a rollout some hosts report all the time, and each write is read by all agents."""
    rolled = Rolled()
    rolled.wire.answer = Answer(
        200, b'{"metadata": {"name": "base", "namespace": "ns", "resourceVersion": "2"}}'
    )

    async def count(*nodes: ManagedNode) -> ReconcileResult | None:
        for one in nodes:
            rolled.nodes._put(ObjectKey("ns", one.metadata.name), one)
        before, found = len(rolled.wire.bodies), await rolled.rollup.reconcile(BASE)
        if len(rolled.wire.bodies) > before:
            current = rolled.sets.get(BASE)
            assert current is not None
            judged = await Validity(Inline()).condition(current)
            status = rollup.summarise(current, rolled.nodes.values(), NOW, judged)
            rolled.sets._put(BASE, ConfigSet(metadata=current.metadata, status=status))
        return found

    def applied() -> list[int]:
        return [body["status"]["nodes"].get("applied", 0) for body in rolled.wire.bodies]

    rolled.sets._put(BASE, config_set())
    assert await count(node("w"), node("x"), node("y")) is None
    assert await count(node("x", report())) == ReconcileResult(rollup.COUNTS_SECONDS)
    assert applied() == [0]
    await asyncio.sleep(1.5)
    assert await count(node("y", report())) == ReconcileResult(rollup.COUNTS_SECONDS - 1.5)
    await asyncio.sleep(0.5)
    assert await count() is None
    assert applied() == [0, 2], "what came meanwhile is in one write"
    assert await count() is None, "nothing is new: there is no reason to look again"
    assert await count(node("w", report())) is None
    assert applied() == [0, 2, 3], "Ready has another status: somebody may wait for that"
    rolled.queue.shut_down()


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "host0"),
        (5, "host0, host1, host2, host3, host4"),
        (6, "host0, host1, host2, host3, host4 and 1 more"),
    ],
)
def test_hosts_are_named_up_to_five_in_their_order(count: int, said: str) -> None:
    nodes = [node(f"host{number}", report(3, "boom", "file:/x")) for number in range(count)]
    status = rollup.summarise(config_set(), reversed(nodes), NOW)
    ready = conditions.get(status.conditions, "Ready")
    conflicted = conditions.get(status.conditions, "Conflicted")
    assert ready is not None
    assert conflicted is not None
    assert ready.message == f"failed on {said}"
    assert conflicted.message == f"another ConfigSet says otherwise on {said}"
    assert conflicted.observed_generation == 3


def test_without_a_conflict_the_condition_says_so() -> None:
    status = rollup.summarise(config_set(), [node("x", report())], NOW)
    conflicted = conditions.get(status.conditions, "Conflicted")
    assert conflicted is not None
    assert (conflicted.status, conflicted.reason, conflicted.message) == ("False", "NoConflict", "")


@virtual_time.test
async def test_a_change_of_status_alone_is_not_answered_at_once_and_writes_are_conditional() -> None:
    """Agents of the Go project write a condition of their own: two eager writers would never stop."""
    rolled = Rolled()
    sets, queue = rolled.sets, rolled.queue
    first = config_set(resource_version="5")
    sets._put(BASE, first)
    assert len(queue) == 1
    queue.done(await queue.get())
    await rolled.rollup.reconcile(BASE)
    assert rolled.wire.bodies[0]["metadata"] == {"resourceVersion": "5"}
    foreign = ConfigSetStatus(conditions=[conditions.Condition(type="Conflicted", status="True", reason="X")])
    sets._put(BASE, ConfigSet(metadata=config_set(resource_version="6").metadata, status=foreign))
    await asyncio.sleep(rollup.STATUS_SECONDS - 1)
    assert len(queue) == 0
    await asyncio.sleep(2)
    assert len(queue) == 1
    queue.shut_down()
