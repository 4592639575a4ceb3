"""What hosts say of their tasks is taken with care: a clock may be wrong, and a host taken over."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.common.node_upgrades import UpcomingUpgrades
from nodemanager.api.common.rollout import SCALE
from nodemanager.api.maintenance.nodemaintenance import (
    ANNOTATION_VISIT,
    Approval,
    NodeMaintenance,
    NodeMaintenanceSpec,
)
from nodemanager.api.maintenance.nodetask import NOT_DONE, RUN, NodeTask, NodeTaskSpec, NodeTaskStatus
from nodemanager.controllers.disruption.nodes import CORDONED, NODES, Node
from nodemanager.controllers.node_maintenances import changing_hosts, observing, undertaking
from nodemanager.controllers.node_maintenances.changing_hosts import ChangingHosts
from nodemanager.controllers.node_maintenances.observing import LABEL_ATTEMPT as LABEL
from nodemanager.fleet.maintenance.claims import Claim, State, Unreadable
from nodemanager.fleet.maintenance.facts import GateFinding, HostFacts, HostHealth, NodeFacts, TaskFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.kube.core import Lease
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime.cache import Cache, Change

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
MADE = "2026-11-16T05:00:00Z"
HOUR = timedelta(hours=1)


def task(finished: str | None, phase: str = "Succeeded") -> NodeTask:
    return NodeTask(
        metadata=ObjectMeta(name="t", creation_timestamp=MADE),
        spec=NodeTaskSpec(node_name="web1"),
        status=NodeTaskStatus(phase=phase, finished_at=finished),
    )


@pytest.mark.parametrize(
    ("finished", "ended", "samples"),
    [
        ("2026-11-16T05:30:00Z", NOW - HOUR / 2, [HOUR / 2]),
        ("9999-12-31T23:59:59Z", NOW, []),
        ("2020-01-01T00:00:00Z", NOW - HOUR, [timedelta()]),
        ("0000-01-01T00:00:00Z", NOW - HOUR, []),
        ("2026-11-16T05:30:00+99:99", NOW - HOUR, []),
        ("", NOW - HOUR, []),
    ],
)
def test_when_a_task_ended_is_between_its_beginning_and_now(
    finished: str, ended: datetime, samples: list[timedelta]
) -> None:
    assert observing.ended_at(task(finished), NOW) == ended
    assert observing.task_facts(task(finished), NOW).ended == ended
    assert [took for _, took in observing.durations([task(finished)], NOW)] == samples


def test_how_long_it_took_to_take_something_back_is_not_how_long_a_visit_takes() -> None:
    done = task("2026-11-16T05:30:00Z")
    undo = msgspec.structs.replace(done, metadata=ObjectMeta(name="t-undo", creation_timestamp=MADE))
    assert list(observing.durations([done, undo], NOW)) == [("web1", HOUR / 2)]


@pytest.mark.parametrize(
    "status",
    [
        ManagedNodeStatus(upgrade=UpcomingUpgrades(started_at=MADE)),
        ManagedNodeStatus(kubernetes_node_cordoned=MADE),
    ],
)
def test_a_host_that_upgrades_itself_is_away_with_or_without_a_node(status: ManagedNodeStatus) -> None:
    host = ManagedNode(metadata=ObjectMeta(name="web1", uid="h-1"), status=status)
    found = observing.host_facts(host, None, NOW, {})
    assert found.health.upgrading
    idle = msgspec.structs.replace(host, status=ManagedNodeStatus(upgrade=UpcomingUpgrades([MADE])))
    assert not observing.host_facts(idle, None, NOW, {}).health.upgrading


def test_one_that_has_not_ended_has_no_end() -> None:
    assert observing.ended_at(task("2026-11-16T05:30:00Z", "Running"), NOW) is None


def test_a_claim_whose_maintenance_is_gone_is_one_that_somebody_has_to_look_at() -> None:
    claim = Claim(
        maintenance="monday", uid="m-1", host_uid="h-1", run="r1", attempt=0, state=State.WORKING,
        since=NOW, begun=NOW, expires=NOW + HOUR,
    )  # fmt: skip
    host = HostFacts("web1", "h-1", NOW - HOUR, claim=claim)
    assert observing.with_owner(host, {"m-1"}, NOW + 2 * HOUR) is host
    assert observing.with_owner(host, set(), NOW) is host, "its time is not over"
    found = observing.with_owner(host, set(), NOW + 2 * HOUR)
    assert isinstance(found.claim, Unreadable)
    assert found.works


@pytest.mark.parametrize("uid", ["h-1", "m-2"])
def test_a_claim_keeps_its_owner_until_its_time_is_over(uid: str) -> None:
    """A host owns the claim of its own upgrade."""
    claim = Claim(
        maintenance="monday", uid=uid, host_uid="h-1", run="r1", attempt=0, state=State.WORKING,
        since=NOW, begun=NOW, expires=NOW + HOUR,
    )  # fmt: skip
    host = HostFacts("web1", "h-1", NOW - HOUR, claim=claim)
    before, after = NOW + HOUR - HOUR / 60, NOW + HOUR
    assert observing.with_owner(host, set(), before) is host
    assert (observing.with_owner(host, set(), after) is host) is (uid == "h-1")
    ended = replace(host, claim=msgspec.structs.replace(claim, state=State.DONE))
    for nothing in (ended, replace(host, claim=None), replace(host, claim=Unreadable("?"))):
        assert observing.with_owner(nothing, set(), after) is nothing


def lease(renewed: str) -> Lease:
    return msgspec.convert({"spec": {"renewTime": renewed}}, Lease)


def test_a_host_is_heard_when_its_lease_is_renewed_while_somebody_looks() -> None:
    clock = [NOW]
    signs = observing.SignsOfLife(lambda: clock[0])
    host, key = ObjectKey("fleet", "web1"), ObjectKey("fleet", "nodemanager-web1")
    first, second = lease("2026-11-16T05:00:00.000000Z"), lease("2026-11-16T05:00:10.000000Z")
    assert signs.heard(host) is None
    signs.saw(Change(key, None, first))
    assert signs.heard(host) == datetime(1970, 1, 1, tzinfo=UTC), "nobody knows when that was"
    signs.saw(Change(key, first, second))
    assert signs.heard(host) == NOW
    clock[0] += HOUR
    signs.saw(Change(key, second, second))
    assert signs.heard(host) == NOW, "something else was written"
    assert signs.heard(ObjectKey("elsewhere", "web1")) is None
    signs.saw(Change(key, second, None))
    assert signs.heard(host) is None
    signs.saw(Change(key, second, None))


def a_host(**status: Any) -> ManagedNode:
    meta = {
        "name": "web1", "namespace": "fleet", "uid": "h-1", "labels": {"a": "b"},
        "resourceVersion": str(status.pop("version", 1)),
        "annotations": {ANNOTATION_VISIT: "?"}, "creationTimestamp": MADE,
    }  # fmt: skip
    return msgspec.convert({"metadata": meta, "status": status}, ManagedNode)


def a_node(version: int = 1, **fields: Any) -> Node:
    return msgspec.convert({"metadata": {"name": "web1", "resourceVersion": str(version)}, **fields}, Node)


def test_what_is_known_of_a_host() -> None:
    found = observing.host_facts(a_host(), None, None, {})
    assert (found.name, found.uid, found.labels, found.node) == ("web1", "h-1", {"a": "b"}, None)
    assert found.created == NOW - HOUR
    assert isinstance(found.claim, Unreadable)
    assert found.health == HostHealth(alive=None)
    before, after = GateFinding("no"), GateFinding("neither")
    held = [{"type": "Held", "status": "True", "reason": "x"}]
    found = observing.host_facts(a_host(conditions=held), None, NOW, {"before": before, "after": after})
    assert found.health == HostHealth(None, NOW, held=True, failing_before=before, failing_after=after)
    undated = msgspec.structs.replace(a_host(), metadata=ObjectMeta(name="web1"))
    assert observing.host_facts(undated, None, None, {}).created == datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("conditions", "heartbeat", "alive"),
    [
        ([], None, None),
        ([{"type": "Alive", "status": "Unknown", "reason": "x"}], None, None),
        ([{"type": "Alive", "status": "Unknown", "reason": "x"}], {}, False),
        ([{"type": "Alive", "status": "False", "reason": "x"}], None, False),
        ([{"type": "Alive", "status": "True", "reason": "x"}], None, True),
    ],
)
def test_a_host_that_was_never_heard_is_neither_alive_nor_silent(
    conditions: list[dict[str, str]], heartbeat: dict[str, Any] | None, alive: bool | None
) -> None:
    host = a_host(conditions=conditions, heartbeat=heartbeat)
    assert observing.host_facts(host, None, None, {}).health.alive is alive


def test_what_is_known_of_its_node() -> None:
    found = observing.host_facts(a_host(), a_node(), None, {})
    assert (found.node, found.health.boot_id) == (NodeFacts(), "")
    node = a_node(
        spec={"unschedulable": True},
        status={"conditions": [{"type": "Ready", "status": "False"}], "nodeInfo": {"bootID": "b"}},
    )
    found = observing.host_facts(a_host(), node, None, {})
    assert found.node == NodeFacts(ready=False, cordoned=True)
    assert found.health.boot_id == "b"
    node = a_node(metadata={"name": "web1", "annotations": {CORDONED: "x"}})
    found = observing.host_facts(a_host(), node, None, {})
    assert found.node == NodeFacts(ours=True)


class Sets:
    """A cache with sets."""

    def __init__(self, *sets: ConfigSet) -> None:
        self.sets = sets

    def find(self, _index: str, namespace: str) -> list[ConfigSet]:
        return [one for one in self.sets if namespace in changing_hosts.under_way(one)]


def observation(*sets: ConfigSet) -> observing.HostObservation:
    none: Any = None
    nodes: Cache[Node] = Cache(none, NODES)
    return observing.HostObservation(
        nodes, observing.SignsOfLife(lambda: NOW), ChangingHosts(cast("Any", Sets(*sets)))
    )


def test_facts_are_made_anew_when_host_or_node_is_another_version() -> None:
    seen = observation()
    host = a_host()
    first = seen.facts([host])["web1"]
    assert first.node is None
    assert seen.facts([host])["web1"] is first
    seen.nodes._put(ObjectKey("", "web1"), a_node())
    with_node = seen.facts([host])["web1"]
    assert with_node.node == NodeFacts()
    seen.nodes._put(ObjectKey("", "web1"), a_node(2, spec={"unschedulable": True}))
    assert seen.facts([host])["web1"].node == NodeFacts(cordoned=True)
    held = a_host(version=2, conditions=[{"type": "Held", "status": "True", "reason": "x"}])
    assert seen.facts([held])["web1"].health.held
    seen.nodes.refused = "forbidden"
    assert seen.node_of(held) is None, "what the cache has may be old"
    assert seen.facts([]) == {}


def test_a_host_that_is_gone_is_forgotten() -> None:
    seen = observation()
    first = seen.facts([a_host()])["web1"]
    key = ObjectKey("fleet", "web1")
    seen.forget(Change(key, None, a_host()))
    assert seen.facts([a_host()])["web1"] is first
    seen.forget(Change(key, a_host(), None))
    assert seen.facts([a_host()])["web1"] is not first
    seen.forget(Change(ObjectKey("fleet", "other"), a_host(), None))


def test_a_host_is_seen_with_its_heartbeat_and_the_change_that_it_takes() -> None:
    rollout = {
        "observedGeneration": 1, "phase": "Progressing", "threshold": SCALE,
        "next": {"name": "n", "revision": 1, "digest": "b" * 64, "labels": {"a": "b"}},
    }  # fmt: skip
    moving = msgspec.convert(
        {
            "metadata": {"name": "web", "namespace": "fleet", "labels": {"a": "b"}, "generation": 1},
            "spec": {"rollout": {"strategy": "Staged"}}, "status": {"rollout": rollout},
        },
        ConfigSet,
    )  # fmt: skip
    seen = observation(moving)
    host = a_host(release="6.1", configsets=[{"name": "web", "digest": "a" * 64, "observedGeneration": 1}])
    assert seen.facts([host])["web1"].changing == "web"
    assert seen.facts_heard(host).health.heard is None
    seen.signs.saw(Change(ObjectKey("fleet", "nodemanager-web1"), None, lease("x")))
    found = seen.facts_heard(host)
    assert found.health.heard is not None
    assert found.changing == "web"
    still = HostFacts("web1", "h-1", NOW)
    assert observing.with_change(still, "") is still


def test_gates_that_fail_are_added_to_what_is_known() -> None:
    host, no, neither = HostFacts("web1", "h-1", NOW), GateFinding("no"), GateFinding("neither")
    assert observing.with_gates(host, {}) is host
    assert observing.with_gates(host, {"before": None, "after": None}) is host
    for before, after in ((no, None), (None, neither), (no, neither)):
        found = observing.with_gates(host, {"before": before, "after": after})
        assert found.health == HostHealth(failing_before=before, failing_after=after)


PROOF, NONE = {"bootBefore": "a", "bootAfter": "b"}, {"bootBefore": "a", "bootAfter": "a"}


def a_task(name: str = "t", host: str = "web1", **fields: Any) -> NodeTask:
    """Return a task with a step that reboots, and one that does not."""
    steps = [{"name": "boot", "reboot": {"when": "always"}}, {"name": "probe", "probe": {}}]
    meta = {"name": name, "creationTimestamp": MADE, **fields.pop("metadata", {})}
    spec = {"nodeName": host, "steps": steps, **fields.pop("spec", {})}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": fields}, NodeTask)


@pytest.mark.parametrize(
    ("task", "wanted"),
    [
        pytest.param(a_task(), TaskFacts("t"), id="new"),
        pytest.param(a_task(claim={}), TaskFacts("t", taken=True), id="taken"),
        pytest.param(a_task(metadata={"labels": {LABEL: "3"}}), TaskFacts("t", attempt=3), id="again"),
        pytest.param(a_task(metadata={"labels": {LABEL: "x"}}), TaskFacts("t"), id="somebody's label"),
        pytest.param(
            a_task(steps=[{"name": "boot", "phase": "Running"}]), TaskFacts("t", rebooting=True), id="reboots"
        ),
        pytest.param(a_task(steps=[{"name": "boot", "phase": "Succeeded"}]), TaskFacts("t"), id="no proof"),
        pytest.param(a_task(steps=[{"name": "probe", "phase": "Running"}]), TaskFacts("t"), id="probes"),
        pytest.param(
            a_task(steps=[{"name": "boot", "evidence": PROOF}]), TaskFacts("t", rebooted=True), id="rebooted"
        ),
        pytest.param(a_task(steps=[{"name": "boot", "evidence": NONE}]), TaskFacts("t"), id="the same boot"),
        pytest.param(
            a_task(steps=[{"name": "probe", "evidence": PROOF}]), TaskFacts("t"), id="not by a reboot"
        ),
        pytest.param(
            a_task(spec={"notAfter": MADE}, steps=[{"name": "boot"}]), TaskFacts("t", windowed=True),
            id="has to begin in time",
        ),
        pytest.param(
            a_task(spec={"notAfter": MADE}, steps=[{"name": "boot", "startedAt": MADE}]), TaskFacts("t"),
            id="began in time",
        ),
        pytest.param(
            a_task(metadata={"annotations": {NOT_DONE: "DeadlineExceeded"}}),
            TaskFacts("t", not_done=Reason.DEADLINE_EXCEEDED), id="not done",
        ),
        pytest.param(
            a_task(metadata={"annotations": {NOT_DONE: "who knows"}}),
            TaskFacts("t", not_done=Reason.NOT_PROVEN), id="not done, for a reason of a later version",
        ),
    ],
)  # fmt: skip
def test_what_is_known_of_a_task(task: NodeTask, wanted: TaskFacts) -> None:
    assert observing.task_facts(task, NOW) == wanted


def test_the_tasks_of_a_run_are_known_by_host_and_what_was_taken_back_did_not_succeed() -> None:
    def of(name: str, phase: str, host: str = "web1", run: str = "r1") -> NodeTask:
        return a_task(name, host, metadata={"labels": {RUN: run}}, phase=phase)

    tasks = [
        of("a", "Failed"), of("b", "Succeeded", "web2"), of("b-undo", "Succeeded", "web2"),
        of("c", "Failed", "web2"), of("c-undo", "Failed", "web2"), of("d", "Running", "web3"),
        of("d-undo", "Running", "web3"), of("e", "Succeeded", run="r2"),
    ]  # fmt: skip
    found = observing.run_tasks(tasks, "r1", NOW)
    assert {host: [(one.name, one.phase) for one in known] for host, known in found.items()} == {
        "web1": [("a", "Failed")], "web2": [("b", "Undone"), ("c", "Halted")], "web3": [("d", "Running")],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "proven"),
    [
        ([], False),
        ([{"name": "boot"}], False),
        ([{"name": "probe", "evidence": PROOF}], False),
        ([{"name": "boot", "evidence": NONE}], False),
        ([{"name": "boot", "evidence": {"bootBefore": "a"}}], False),
        ([{"name": "boot", "evidence": {"bootAfter": "b"}}], True),
        ([{"name": "boot", "evidence": PROOF}], True),
    ],
)
def test_a_reboot_that_has_to_happen_is_proven_by_another_boot(
    steps: list[dict[str, Any]], proven: bool
) -> None:
    said = "" if proven else "nodetask/t: no other boot proves step boot"
    assert observing.unproven_reboot(a_task(steps=steps)) == said
    needed = a_task(spec={"steps": [{"name": "boot", "reboot": {"when": "ifNeeded"}}]}, steps=steps)
    assert observing.unproven_reboot(needed) == ""


def test_only_visits_that_succeeded_and_are_dated_tell_how_long_one_takes() -> None:
    ended = "2026-11-16T05:30:00Z"
    none = [task(ended, "Failed"), task(None), task("2026-11-16T06:00:01Z")]
    undated = msgspec.structs.replace(task(ended), metadata=ObjectMeta(name="t"))
    assert list(observing.durations([*none, undated], NOW)) == []
    assert list(observing.durations([task("2026-11-16T06:00:00Z")], NOW)) == [("web1", HOUR)]
    assert observing.ended_at(undated, NOW) == NOW, "nobody knows better"


def test_without_a_requester_nobody_can_be_somebody_else() -> None:
    def problem(**asked: object) -> str:
        approval = msgspec.convert({"required": True, **asked}, Approval)
        found = undertaking.nobody_asks(NodeMaintenance(spec=NodeMaintenanceSpec(approval=approval)))
        return found.reason if found is not None else ""

    assert problem() == ""
    assert problem(differentUser=True, requester="jane") == ""
    assert problem(differentUser=True) == "RequesterUnknown"
