"""Which maintenances a change of a host, a Node or a task wakes: those that could decide otherwise now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.left_drifts import LeftDrift, LeftDrifts
from nodemanager.api.common.managednode import ANNOTATION_HOLD, MANAGED_NODES, ManagedNode, ManagedNodeStatus
from nodemanager.api.maintenance.nodemaintenance import (
    ANNOTATION_VISIT,
    NODE_MAINTENANCES,
    NodeMaintenance,
    NodeMaintenanceSpec,
)
from nodemanager.api.maintenance.nodeseries import NODE_SERIES, NodeSeries
from nodemanager.api.maintenance.nodetask import UPGRADES, NodeTask
from nodemanager.api.maintenance.series import SeriesSpec
from nodemanager.controllers.disruption.nodes import CORDONED, Node
from nodemanager.controllers.node_maintenances import changing_hosts, waking
from nodemanager.controllers.registration import Caches
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectKey, ObjectMeta, key_of
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


def host(
    state: State | None = None, alive: str = "True", owner: str = "monday", **labels: str
) -> ManagedNode:
    meta = ObjectMeta(name="web1", namespace=NAMESPACE, uid="h", labels=labels or {"role": "web"})
    if state is not None:
        meta.annotations[ANNOTATION_VISIT] = claims.encode(claim(state, owner))
    said = Condition(type="Alive", status=alive, reason="Heard")
    return ManagedNode(meta, status=ManagedNodeStatus(conditions=[said]))


@pytest.fixture(name="caches")
def _caches() -> Caches:
    """Two maintenances mean the host, one means others, and one refers to a series that is not there."""
    kinds = (NODE_MAINTENANCES, NODE_SERIES, MANAGED_NODES, CONFIG_SETS)
    found: dict[Any, Cache[Any]] = {kind: Cache(None, kind) for kind in kinds}  # type: ignore[arg-type]
    found[CONFIG_SETS].add_index(changing_hosts.UNDER_WAY, changing_hosts.under_way)
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
    """Return who is woken, and when at the earliest."""
    found: dict[str, float] = {}
    for key, after in waking.on_host(Change(KEY, old, new), caches):
        found[key.name] = min(after, found.get(key.name, after))
    return found


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
        pytest.param(host(State.DONE), host(), {"monday": 0.0}, id="a record was taken away"),
        pytest.param(host(), host(alive="False"), {"monday": SOON, "tuesday": SOON}, id="silent"),
        pytest.param(
            host(), host(role="db"), {"monday": SOON, "tuesday": SOON, "databases": SOON}, id="moved"
        ),
        pytest.param(None, host(role="db"), {"monday": SOON, "databases": SOON}, id="new"),
        pytest.param(host(), None, {"monday": SOON, "tuesday": SOON}, id="gone"),
        pytest.param(host(State.DONE), host(State.DONE), {}, id="nothing"),
        pytest.param(host(), host(State.RETURNING), {"monday": 0.0}, id="a claim is not news for others"),
        pytest.param(
            host(State.DONE), host(State.WORKING, owner="tuesday"), {"monday": 0.0, "tuesday": 0.0}, id="next"
        ),
        pytest.param(
            host(State.WORKING, owner="managednode/web1"),
            host(State.PROVING, owner="managednode/web1"),
            {waking.UPGRADES: 0.0},
            id="its own upgrade goes on",
        ),
    ],
)
def test_a_host_wakes_who_works_there_and_who_could_begin(
    caches: Caches, old: ManagedNode | None, new: ManagedNode | None, wanted: dict[str, float]
) -> None:
    assert woken(caches, old, new) == wanted


def saying(**fields: Any) -> ManagedNode:
    """Return the host with other fields."""
    said = msgspec.to_builtins(host())
    for part, values in fields.items():
        said[part] = {**said.get(part, {}), **values}
    return msgspec.convert(said, ManagedNode)


def condition(kind: str, status: str = "True") -> dict[str, Any]:
    said = {"Alive": "True", kind: status}
    return {"conditions": [{"type": key, "status": value, "reason": "x"} for key, value in said.items()]}


@pytest.mark.parametrize(
    ("new", "wakes"),
    [
        pytest.param(saying(metadata={"uid": "h2"}), True, id="made anew"),
        pytest.param(saying(status=condition("Ready", "False")), True, id="not ready"),
        pytest.param(saying(status=condition("Escalated")), True, id="a drift for people"),
        pytest.param(saying(status=condition("Held")), True, id="held"),
        pytest.param(saying(status=condition("Drifted")), False, id="what nobody counts"),
        pytest.param(saying(status={"upgrade": {"startedAt": "2026-11-16T05:00:00Z"}}), True, id="upgrades"),
        pytest.param(saying(status={"agentVersion": "2"}), False, id="another agent"),
    ],
)
def test_a_host_wakes_those_that_count_what_is_new_about_it(
    caches: Caches, new: ManagedNode, wakes: bool
) -> None:
    wanted = {"monday", "tuesday"} if wakes else set()
    assert woken(caches, saying(), new).keys() == wanted


UPGRADED = {"upgrade": {"schedule": "0 3 * * *"}}


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        pytest.param(None, saying(), False, id="new, and never upgraded"),
        pytest.param(None, saying(spec=UPGRADED), True, id="new"),
        pytest.param(saying(spec=UPGRADED), saying(spec=UPGRADED), False, id="nothing"),
        pytest.param(saying(), saying(spec=UPGRADED), True, id="from now on"),
        pytest.param(saying(spec=UPGRADED), saying(), False, id="no more, and never marked"),
        pytest.param(
            saying(spec=UPGRADED), saying(metadata={"annotations": {UPGRADES: "x"}}), True, id="no more"
        ),
        pytest.param(
            saying(spec=UPGRADED), saying(spec=UPGRADED, status={"upgrade": {"due": {"slot": "x"}}}),
            True, id="due",
        ),
        pytest.param(
            saying(spec=UPGRADED), saying(spec=UPGRADED, metadata={"annotations": {ANNOTATION_HOLD: "x"}}),
            True, id="held by somebody",
        ),
        pytest.param(saying(spec=UPGRADED), None, False, id="gone"),
    ],
)  # fmt: skip
def test_upgrades_are_looked_at_when_something_about_one_is_new(
    caches: Caches, old: ManagedNode | None, new: ManagedNode | None, wakes: bool
) -> None:
    assert (woken(caches, old, new).get(waking.UPGRADES) == 0.0) is wakes


def test_a_host_that_gets_on_with_a_change_by_stages_wakes_who_could_begin(caches: Caches) -> None:
    def reports(name: str, digest: str) -> ManagedNode:
        return saying(status={"configsets": [{"name": name, "digest": digest * 64}]})

    def both(old: str, new: str, name: str = "web") -> set[str]:
        return set(woken(caches, reports(name, old), reports(name, new)))

    assert both("a", "b") == set(), "it moves in no stages"
    rollout = {"next": {"name": "n", "revision": 1, "digest": "b" * 64}}
    body = {
        "metadata": {"name": "web", "namespace": NAMESPACE}, "status": {"rollout": rollout},
        "spec": {"rollout": {"strategy": "Staged"}},
    }  # fmt: skip
    caches.of(CONFIG_SETS)._put(ObjectKey(NAMESPACE, "web"), msgspec.convert(body, ConfigSet))
    assert both("a", "b") == {"monday", "tuesday"}
    assert both("a", "a") == set()
    assert both("a", "b", "other") == set(), "of another set"


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
        pytest.param(asking("", State.WORKING), asking("r1", State.DONE), SOON, id="it ended before"),
        pytest.param(asking("", State.WORKING), asking("", State.PROVING), SOON, id="its claim goes on"),
        pytest.param(None, asking("", None, "motd"), SOON, id="new, and asks"),
        pytest.param(None, host(), None, id="new"),
        pytest.param(host(), host(State.WORKING, owner="configset/motd"), SOON, id="says nothing yet"),
        pytest.param(asking("r0", None, "motd"), asking("r0", None, "motd"), None, id="nothing"),
        pytest.param(asking("r0", State.WORKING), None, SOON, id="gone in its turn"),
    ],
)
def test_turns_end_at_once_and_many_that_ask_are_looked_at_together(
    caches: Caches, old: ManagedNode, new: ManagedNode, after: float | None
) -> None:
    assert woken(caches, old, new).get(waking.REPAIRS) == after


def node(**fields: Any) -> Node:
    return msgspec.convert({**fields, "metadata": {"name": "web1", **fields.get("metadata", {})}}, Node)


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (node(), node(), False),
        (node(), node(metadata={"resourceVersion": "2"}), False),
        (None, node(), True),
        (node(), None, True),
        (node(), node(spec={"unschedulable": True}), True),
        (node(), node(metadata={"uid": "n2"}), True),
        (node(), node(metadata={"labels": {"a": "b"}}), True),
        (node(), node(metadata={"annotations": {CORDONED: "x"}}), True),
        (node(), node(status={"conditions": [{"type": "Ready", "status": "False"}]}), True),
        (node(), node(status={"nodeInfo": {"bootID": "b"}}), True),
        (node(), node(status={"conditions": [{"type": "Drained", "status": "True"}]}), False),
    ],
)
def test_a_node_wakes_those_that_mean_its_host(
    caches: Caches, old: Node | None, new: Node | None, wakes: bool
) -> None:
    change = Change(ObjectKey("", "web1"), old, new)
    assert list(waking.on_node(change, caches)) == [], "no host has this name"
    caches.of(MANAGED_NODES)._put(KEY, host(State.DRAINING))
    found = {one.key.name: one.after for one in waking.on_node(change, caches)}
    assert found == ({"monday": 0.0, "tuesday": SOON} if wakes else {})
    caches.of(MANAGED_NODES)._put(KEY, host())
    found = {one.key.name: one.after for one in waking.on_node(change, caches)}
    assert found == ({"monday": SOON, "tuesday": SOON} if wakes else {})


def test_those_that_select_by_nodes_are_woken_by_every_host(caches: Caches) -> None:
    spec = NodeMaintenanceSpec(series=SeriesSpec(node_selector=LabelSelector({"zone": "a"})))
    one = NodeMaintenance(ObjectMeta(name="by-nodes", namespace=NAMESPACE), spec)
    caches.of(NODE_MAINTENANCES)._put(key_of(one), one)
    assert woken(caches, None, host(role="db")).keys() == {"monday", "databases", "by-nodes"}
    change = Change(ObjectKey("", "x"), None, node())
    assert [wake.key.name for wake in waking.on_node(change, caches)] == ["by-nodes"], "no host has this name"


def test_those_that_refer_to_a_series_are_woken_by_its_hosts(caches: Caches) -> None:
    spec = SeriesSpec(selector=LabelSelector({"role": "db"}))
    caches.of(NODE_SERIES)._put(ObjectKey(NAMESPACE, "gone"), NodeSeries(ObjectMeta(name="gone"), spec))
    assert woken(caches, None, host(role="db")).keys() == {"monday", "databases", "lost"}
    assert woken(caches, None, host()).keys() == {"monday", "tuesday"}


def of_task(
    kind: str = "NodeMaintenance", step: str = "", deleted: str | None = None, **status: Any
) -> NodeTask:
    body = {
        "metadata": {"name": "t", "namespace": NAMESPACE, "deletionTimestamp": deleted},
        "spec": {"reason": {"kind": kind, "name": "monday", "uid": "u"}} if kind else {},
        "status": {"step": step, **status},
    }
    return msgspec.convert(body, NodeTask)


RUNNING = of_task(phase="Running", step="one")
CLAIMED: dict[str, Any] = {"claim": {"bootID": "b"}}


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        pytest.param(None, of_task(), ["monday"], id="new"),
        pytest.param(RUNNING, of_task(phase="Running", step="one", message="half"), [], id="is told of"),
        pytest.param(RUNNING, of_task(phase="Running", step="reboot"), ["monday"], id="another step"),
        pytest.param(RUNNING, of_task(phase="Succeeded", step="one"), ["monday"], id="has ended"),
        pytest.param(RUNNING, of_task(phase="Running", step="one", **CLAIMED), ["monday"], id="taken"),
        pytest.param(
            RUNNING, of_task(phase="Running", step="one", deleted="2026-11-16T06:00:00Z"), ["monday"],
            id="is deleted",
        ),
        pytest.param(RUNNING, None, ["monday"], id="gone"),
        pytest.param(None, of_task("ManagedNode"), [waking.UPGRADES], id="of an upgrade"),
        pytest.param(None, of_task(""), [], id="of nobody"),
        pytest.param(None, of_task("Other"), [], id="of somebody else"),
    ],
)  # fmt: skip
def test_a_task_wakes_its_maintenance_when_it_got_on(
    old: NodeTask | None, new: NodeTask | None, wanted: list[str]
) -> None:
    change = Change(ObjectKey(NAMESPACE, "t"), old, new)
    assert [one.key.name for one in waking.on_task(change, Caches("test", {}))] == wanted
