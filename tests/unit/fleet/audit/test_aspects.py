"""What is recorded of objects of each kind, value by value: whoever comes later compares with these."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodemanager.api.audit import record as records
from nodemanager.fleet.audit import aspects
from nodemanager.fleet.audit.observed import Aspect, ObservedMeta, ObservedObject, SeenObject

AT = "2026-11-17T08:00:00Z"
HASH = "p" * 64


def look(kind: str, spec: Any = None, status: Any = None, **meta: Any) -> SeenObject:
    about = {"name": "one", "namespace": "prod", "uid": "u", "generation": 4, "creationTimestamp": AT, **meta}
    body = {"metadata": about, "spec": spec or {}, "status": status or {}}
    found = aspects.look(kind, msgspec.json.decode(msgspec.json.encode(body), type=ObservedObject)).seen
    assert found is not None
    return found


def values(found: SeenObject) -> dict[str, tuple[str, str]]:
    return {name: (one.value, one.verb) for name, one in found.aspects.items() if name != "spec"}


@pytest.mark.parametrize("kind", ["ConfigSet", "ManagedNode", "NodeSeries", "MaintenanceWindow", "NodeTask"])
def test_of_every_kind_a_spec_is_known_by_its_generation_and_a_part_of_its_digest(kind: str) -> None:
    found = look(kind, {"a": 1})
    assert found.aspects["spec"].value == f"4 {found.object.spec_digest[:16]}"
    assert look(kind, {"a": 2}).aspects["spec"] != found.aspects["spec"]
    assert look(kind, {"a": 1}, deletionTimestamp=AT).aspects["leaving"] == Aspect(value=AT, verb="leave")
    assert found.created == AT
    assert look(kind, creationTimestamp=None).created == ""
    assert "leaving" not in found.aspects


@pytest.mark.parametrize(
    ("kind", "labelled"),
    [("ConfigSet", True), ("ManagedNode", True), ("NodeSeries", False), ("NodeTask", False)],
)  # fmt: skip
def test_labels_count_where_they_choose_hosts(kind: str, labelled: bool) -> None:
    found, labels = look(kind, labels={"role": "web"}), {"role": "web"}
    assert ("labels" in found.aspects) is labelled
    if labelled:
        assert found.aspects["labels"] == Aspect(value=records.digest(labels)[:16], verb="relabel")
        assert look(kind, labels={"role": "db"}).aspects["labels"] != found.aspects["labels"]


def test_what_was_looked_at_is_not_looked_at_again_and_what_a_cache_needs_is_kept() -> None:
    meta = ObservedMeta(name="one", namespace="prod", resource_version="7", labels={"a": "b"}, uid="u")
    raw = ObservedObject(metadata=meta)
    first = aspects.look("ConfigSet", raw)
    assert aspects.look("ConfigSet", first) is first
    kept = first.metadata
    assert (kept.name, kept.namespace, kept.resource_version) == ("one", "prod", "7")
    assert (kept.uid, kept.labels) == ("", {})


def test_whose_host_it_is() -> None:
    assert look("ManagedNode").host == "one"
    assert look("NodeTask", {"nodeName": "web1"}).host == "web1"
    assert look("ConfigSet").host == ""
    assert look("ServiceAccount", name="nodemanager-web1").host == "web1"


def test_only_a_host_tells_of_a_chain() -> None:
    chain = {"auditChain": {"id": "i", "size": 3, "head": "h"}, "auditRecords": ["x"]}
    told = look("ManagedNode", status=chain).told
    assert told is not None
    assert told.chain is not None
    assert (told.chain.size, told.lines) == (3, ["x"])
    assert look("ConfigSet", status=chain).told is None
    assert look("NodeTask", status=chain).told is None


def test_a_long_value_is_kept_as_its_beginning_and_a_digest_of_all_of_it() -> None:
    def wait(length: int, last: str = "x") -> str:
        waits = [{"reason": "Busy", "hosts": 1, "object": "x" * (length - 1) + last}]
        return look("NodeMaintenance", status={"waiting": waits}).aspects["wait/Busy"].value

    assert wait(aspects.MAX_VALUE) == "x" * aspects.MAX_VALUE
    long = wait(aspects.MAX_VALUE + 1)
    assert len(long) == aspects.MAX_VALUE
    assert long[:-16] == "x" * (aspects.MAX_VALUE - 17) + "~"
    assert wait(aspects.MAX_VALUE + 1, "y") != long


RUN = {"id": "r1", "operations": ["up", "note"]}


def test_what_is_recorded_of_a_maintenance() -> None:
    status = {
        "phase": "Running",
        "plan": {"hash": HASH},
        "window": {"open": False},
        "run": {**RUN, "stoppedAt": "2026-11-17T09:00:00Z", "retriedAt": "2026-11-17T10:00:00Z"},
        "history": [{"id": "r0", "outcome": "Failed"}, {"id": "r-1", "outcome": "Succeeded"}],
        "waiting": [
            {"reason": "BudgetSpent", "hosts": 3, "object": "nodemaintenance/m"},
            {"reason": "HostBusy", "hosts": 1},
        ],
        "refusedApprovals": [{"name": "a", "approver": "ada", "reason": "OwnRequest"}],
    }
    found = look("NodeMaintenance", status=status)
    assert values(found) == {
        "phase": ("Running", "decide"),
        "run": ("r1", "start"),
        "stopped": ("2026-11-17T09:00:00Z", "halt"),
        "retried": ("2026-11-17T10:00:00Z", "retry"),
        "outcome": ("r0 Failed", "end"),
        "approval/a": ("OwnRequest", "refuse"),
        "wait/BudgetSpent": ("nodemaintenance/m", "wait"),
        "wait/HostBusy": ("all", "wait"),
    }
    said = found.aspects
    assert [(one.reason, one.object, one.hosts) for one in said["run"].gates] == [
        ("WindowClosed", "", 0),
        ("BudgetSpent", "nodemaintenance/m", 3),
        ("HostBusy", "", 1),
    ]
    assert (said["run"].message, said["outcome"].reason) == ("up, note", "Failed")
    assert (said["wait/BudgetSpent"].message, said["wait/HostBusy"].message) == (
        "3 hosts: nodemaintenance/m",
        "1 hosts",
    )
    assert (said["approval/a"].approval, said["approval/a"].message) == ("a", "approved by ada")
    planned = ("phase", "run", "stopped", "retried", "approval/a")
    assert {said[name].plan_hash for name in planned} == {HASH}


def test_of_a_maintenance_that_does_nothing_nothing_is_recorded() -> None:
    assert values(look("NodeMaintenance")) == {}
    only = look("NodeMaintenance", status={"run": RUN})
    assert values(only) == {"run": ("r1", "start")}
    assert (only.aspects["run"].plan_hash, only.aspects["run"].gates) == ("", [])


@pytest.mark.parametrize(
    ("phase", "verb"),
    [
        ("Pending", "decide"), ("Running", "start"), ("Failed", "fail"), ("Undone", "undo"),
        ("Halted", "halt"), ("Succeeded", "end"), ("Expired", "end"), ("Refused", "end"), ("", None),
    ],
)  # fmt: skip
def test_a_task_is_recorded_by_what_it_comes_to(phase: str, verb: str | None) -> None:
    spec = {"nodeName": "web1", "reason": {"planHash": HASH}}
    found = look("NodeTask", spec, {"phase": phase, "message": "so"}).aspects
    assert (found["phase"].verb if "phase" in found else None) == verb
    if verb:
        one = found["phase"]
        assert (one.host, one.by_host, one.plan_hash, one.message) == ("web1", True, HASH, "so")


def test_a_step_is_recorded_when_it_has_ended_with_what_it_was_to_run() -> None:
    spec = {"nodeName": "web1", "steps": [{"name": "run", "execution": {"argv": ["x", "y"]}}]}
    steps = [
        {"name": "run", "phase": "Succeeded", "finishedAt": AT, "exitCode": 0, "attempts": 2},
        {"name": "other", "phase": "Failed", "finishedAt": AT, "evidence": {"a": "b"}},
        {"name": "goes-on", "phase": "Running"},
        {"name": "last", "phase": "Succeeded", "finishedAt": AT},
    ]
    found = look("NodeTask", spec, {"phase": "Running", "steps": steps}).aspects
    assert [name for name in found if name.startswith("step/")] == ["step/run", "step/other", "step/last"]
    run, other = found["step/run"], found["step/other"]
    assert run.step is not None
    assert other.step is not None
    assert (run.value, run.verb, run.reason, run.host, run.by_host) == (
        f"Succeeded {AT}", "step", "Succeeded", "web1", True,
    )  # fmt: skip
    assert (run.step.argv_digest, run.step.exit_code, run.step.attempts) == (records.digest(["x", "y"]), 0, 2)
    assert (other.step.argv_digest, other.evidence_digest) == ("", records.digest({"a": "b"}))
    assert run.evidence_digest == ""


def test_what_is_recorded_of_a_rollout() -> None:
    rollout = {
        "phase": "Undoing", "reason": "HostsFailed", "message": "2 failed", "stage": 2, "threshold": 7,
        "next": {"revision": 4, "digest": "d"}, "refused": {"revision": 3, "digest": "c"},
    }  # fmt: skip
    found = look("ConfigSet", status={"rollout": rollout})
    assert {name: one for name, one in values(found).items() if name != "labels"} == {
        "rollout": ("Undoing", "decide"),
        "stage": ("revision 4 stage 2 threshold 7", "stage"),
        "refused": ("revision 3", "undo"),
    }
    assert {found.aspects[name].reason for name in ("rollout", "stage", "refused")} == {"HostsFailed"}
    assert (found.aspects["stage"].plan_hash, found.aspects["rollout"].message) == ("d", "2 failed")
    nothing: list[Any] = [{}, {"rollout": {}}, None]
    for status in nothing:
        assert list(values(look("ConfigSet", status=status))) == ["labels"]


@pytest.mark.parametrize(
    ("spec", "value"), [({"maintenance": "kernel"}, "kernel"), ({"configSet": "web"}, "web"), ({}, "")]
)
def test_an_approval_is_of_a_maintenance_or_a_set(spec: dict[str, str], value: str) -> None:
    found = look("MaintenanceApproval", {**spec, "planHash": HASH, "comment": "fine"}).aspects["approval"]
    assert found == Aspect(value=value, verb="approve", message="fine", plan_hash=HASH, approval="one")
