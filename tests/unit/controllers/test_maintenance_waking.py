"""Which maintenances a change of a host, a Node or a task wakes: those that could decide otherwise now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.left_drifts import LeftDrift, LeftDrifts
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode, ManagedNodeStatus
from nodemanager.api.maintenance.nodemaintenance import (
    ANNOTATION_VISIT,
    NODE_MAINTENANCES,
    NodeMaintenance,
    NodeMaintenanceSpec,
)
from nodemanager.api.maintenance.nodeseries import NODE_SERIES
from nodemanager.api.maintenance.nodetask import NodeTask, NodeTaskSpec, NodeTaskStatus, TaskReason
from nodemanager.api.maintenance.series import SeriesSpec
from nodemanager.controllers.disruption.nodes import Node, NodeSpec
from nodemanager.controllers.node_maintenances import waking
from nodemanager.controllers.registration import Caches
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.kube.selectors import LabelSelector
from nodemanager.runtime.cache import Cache, Change

NAMESPACE = "fleet"
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
KEY = ObjectKey(NAMESPACE, "web1")


def claim(state: State, owner: str = "monday") -> Claim:
    return Claim(
        maintenance=owner, uid=f"uid-{owner}", host_uid="h", run="r", attempt=0, state=state, since=NOW,
        begun=NOW, expires=NOW + timedelta(hours=1), end=State.DONE,
    )  # fmt: skip


def host(state: State | None = None, alive: str = "True", **labels: str) -> ManagedNode:
    meta = ObjectMeta(name="web1", namespace=NAMESPACE, uid="h", labels=labels or {"role": "web"})
    if state is not None:
        meta.annotations[ANNOTATION_VISIT] = claims.encode(claim(state))
    said = Condition(type="Alive", status=alive, reason="Heard")
    return ManagedNode(meta, status=ManagedNodeStatus(conditions=[said]))


@pytest.fixture(name="caches")
def _caches() -> Caches:
    """Two maintenances mean the host, one means others, and one refers to a series that is not there."""
    kinds = (NODE_MAINTENANCES, NODE_SERIES, MANAGED_NODES)
    found: dict[Any, Cache[Any]] = {kind: Cache(None, kind) for kind in kinds}  # type: ignore[arg-type]
    specs = {
        "monday": NodeMaintenanceSpec(),
        "tuesday": NodeMaintenanceSpec(series=SeriesSpec(selector=LabelSelector({"role": "web"}))),
        "databases": NodeMaintenanceSpec(series=SeriesSpec(selector=LabelSelector({"role": "db"}))),
        "lost": msgspec.convert({"seriesRef": {"name": "gone"}}, NodeMaintenanceSpec),
    }
    for name, spec in specs.items():
        one = NodeMaintenance(ObjectMeta(name=name, namespace=NAMESPACE, uid=f"uid-{name}"), spec)
        found[NODE_MAINTENANCES]._put(ObjectKey(NAMESPACE, name), one)
    return Caches("test", found)


def woken(caches: Caches, old: ManagedNode | None, new: ManagedNode | None) -> dict[str, float]:
    return {one.key.name: one.after for one in waking.on_host(Change(KEY, old, new), caches)}


SOON = waking.SETTLE_SECONDS


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        pytest.param(host(), host(State.WORKING), {"monday": 0.0}, id="begun with"),
        pytest.param(host(State.WORKING), host(State.PROVING), {"monday": 0.0}, id="goes on"),
        pytest.param(
            host(State.RETURNING), host(State.DONE), {"monday": 0.0, "tuesday": SOON}, id="the budget is free"
        ),
        pytest.param(
            host(State.WORKING), host(), {"monday": 0.0, "tuesday": SOON}, id="the claim was taken away"
        ),
        pytest.param(host(), host(alive="False"), {"monday": SOON, "tuesday": SOON}, id="silent"),
        pytest.param(
            host(), host(role="db"), {"monday": SOON, "tuesday": SOON, "databases": SOON}, id="moved"
        ),
        pytest.param(None, host(role="db"), {"monday": SOON, "databases": SOON}, id="new"),
        pytest.param(host(), None, {"monday": SOON, "tuesday": SOON}, id="gone"),
        pytest.param(host(State.DONE), host(State.DONE), {}, id="nothing"),
    ],
)
def test_a_host_wakes_who_works_there_and_who_could_begin(
    caches: Caches, old: ManagedNode | None, new: ManagedNode | None, wanted: dict[str, float]
) -> None:
    assert woken(caches, old, new) == wanted


def asking(used: str = "", state: State | None = None, *sets: str) -> ManagedNode:
    found = host()
    if state is not None:
        visit = msgspec.structs.replace(claim(state), maintenance="configset/motd", uid="h", run="r1")
        found.metadata.annotations[ANNOTATION_VISIT] = claims.encode(visit)
    asks = [LeftDrift(configset=name) for name in sets]
    status = msgspec.structs.replace(found.status, left_drifts=LeftDrifts(asks=asks, used=used))
    return msgspec.structs.replace(found, status=status)


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        pytest.param(host(), asking("", None, "motd"), SOON, id="asks"),
        pytest.param(asking("r0", None, "motd"), asking("r5", None, "motd"), SOON, id="says anything"),
        pytest.param(asking("", None, "motd"), host(), None, id="asks no more"),
        pytest.param(asking("", State.WORKING), asking("r1", State.WORKING), 0.0, id="its turn is over"),
        pytest.param(asking("", State.WORKING), asking("r2", State.WORKING), SOON, id="another turn"),
    ],
)
def test_turns_end_at_once_and_many_that_ask_are_looked_at_together(
    caches: Caches, old: ManagedNode, new: ManagedNode, after: float | None
) -> None:
    assert woken(caches, old, new).get(waking.REPAIRS) == after


def test_a_node_wakes_those_that_mean_its_host(caches: Caches) -> None:
    before = Node(metadata=ObjectMeta(name="web1", uid="n"))
    after = Node(metadata=ObjectMeta(name="web1", uid="n"), spec=NodeSpec(unschedulable=True))
    change = Change(ObjectKey("", "web1"), before, after)
    assert list(waking.on_node(change, caches)) == [], "no host has this name"
    caches.of(MANAGED_NODES)._put(KEY, host(State.DRAINING))
    found = {one.key.name: one.after for one in waking.on_node(change, caches)}
    assert found == {"monday": 0.0, "tuesday": SOON}


def test_a_task_wakes_its_maintenance_when_it_got_on(caches: Caches) -> None:
    reason = TaskReason(kind="NodeMaintenance", name="monday", uid="uid-monday")

    def task(**status: Any) -> NodeTask:
        return NodeTask(ObjectMeta(name="t", namespace=NAMESPACE), NodeTaskSpec(reason=reason),
                        NodeTaskStatus(**status))  # fmt: skip

    def names(old: NodeTask | None, new: NodeTask | None) -> list[str]:
        return [one.key.name for one in waking.on_task(Change(ObjectKey(NAMESPACE, "t"), old, new), caches)]

    running = task(phase="Running", step="one")
    assert names(None, task()) == ["monday"]
    assert names(running, task(phase="Running", step="one", message="half")) == []
    assert names(running, task(phase="Running", step="reboot")) == ["monday"]
    assert names(running, task(phase="Succeeded", step="one")) == ["monday"]
    assert names(running, None) == ["monday"]
