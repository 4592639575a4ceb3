"""Which records follow from what is seen: who, what, and nothing that was recorded already."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodemanager.api.audit import actors
from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import (
    Actor,
    ChainEntry,
    Record,
    RecordedGate,
    RecordedObject,
    RecordedStep,
)
from nodemanager.api.common.audit_chain import AuditChain
from nodemanager.fleet.audit import aspects, changes, observed
from nodemanager.fleet.audit.changes import LastRecorded, ObjectId, RecordMemory
from nodemanager.fleet.audit.observed import Aspect, HostTold, ObservedMeta, ObservedObject, SeenObject

AT = "2026-11-17T08:00:00Z"
STAMP = '{"user":"ada","groups":["ops"],"of":1,"generation":1}'
CLAIM = {
    "maintenance": "kernel", "uid": "m", "hostUid": "u", "run": "r1", "attempt": 1, "state": "Working",
    "since": AT, "begun": AT, "expires": AT,
}  # fmt: skip


def seen(kind: str, spec: Any = None, status: Any = None, **meta: Any) -> SeenObject:
    about = {"name": "one", "namespace": "prod", "uid": "u", "generation": 1, "creationTimestamp": AT, **meta}
    body = {"metadata": about, "spec": spec or {}, "status": status or {}}
    found = aspects.look(kind, msgspec.json.decode(msgspec.json.encode(body), type=ObservedObject)).seen
    assert found is not None
    return found


def written(memory: RecordMemory, kind: str, now: SeenObject | None) -> list[Record]:
    """Record a change, as the writer does, through the bytes of the lines."""
    which = ObjectId(kind, "prod", "one")
    found = changes.records_of(memory.get(which), now, AT, AT, late=False)
    memory.note(records.decode(records.encode(records.bounded(one))) for one in found)
    return found


def brief(found: list[Record]) -> list[tuple[str, str, str]]:
    return [(one.verb, one.aspect, one.actor.name) for one in found]


TASK = {
    "nodeName": "web1", "deadline": AT, "fencingToken": 1, "reason": {"planHash": "p" * 64},
    "steps": [{"name": "reboot", "execution": {"argv": ["reboot", "secret"]}}],
}  # fmt: skip
STEP = {"name": "reboot", "phase": "Failed", "finishedAt": AT, "exitCode": 3, "evidence": {"bootID": "b"}}
CASES = [
    pytest.param(
        "ConfigSet",
        seen("ConfigSet", {"priority": 1}, annotations={"audit.nodemanager/requested-by": STAMP}),
        [("create", "spec", "ada")],
        id="a set by a user whom the API saw",
    ),
    pytest.param(
        "ConfigSet",
        seen("ConfigSet", {}, {"rollout": {"phase": "Progressing", "stage": 2, "next": {"revision": 4}}}),
        [
            ("create", "spec", ""),
            ("decide", "rollout", "nodemanager-operator"),
            ("stage", "stage", "nodemanager-operator"),
        ],
        id="a stage of a rollout",
    ),
    pytest.param(
        "NodeTask",
        seen("NodeTask", TASK, {"phase": "Failed", "steps": [STEP]}),
        [("create", "spec", ""), ("fail", "phase", "web1"), ("step", "step/reboot", "web1")],
        id="a task that failed",
    ),
    pytest.param(
        "ManagedNode",
        seen(
            "ManagedNode",
            annotations={"maintenance.nodemanager/visit": msgspec.json.encode(CLAIM).decode()},
        ),
        [("create", "spec", ""), ("start", "visit", "nodemanager-operator")],
        id="a visit that begins",
    ),
    pytest.param(
        "MaintenanceApproval",
        seen("MaintenanceApproval", {"maintenance": "kernel", "planHash": "a" * 64, "approver": "bob"}),
        [("create", "spec", "bob"), ("approve", "approval", "bob")],
        id="an approval",
    ),
    pytest.param(
        "NodeMaintenance",
        seen(
            "NodeMaintenance",
            {},
            {
                "phase": "Running",
                "run": {"id": "r1", "stoppedAt": AT},
                "plan": {"hash": "p" * 64},
                "waiting": [{"reason": "WindowClosed", "hosts": 3, "object": "x" * 300}],
            },
        ),
        [
            ("create", "spec", ""),
            ("decide", "phase", "nodemanager-operator"),
            ("start", "run", "nodemanager-operator"),
            ("halt", "stopped", "nodemanager-operator"),
            ("wait", "wait/WindowClosed", "nodemanager-operator"),
        ],
        id="a maintenance that stopped",
    ),
    pytest.param(
        "NodeMaintenance",
        seen("NodeMaintenance", {}, {"refusedApprovals": [
            {"name": "a", "approver": "ada", "reason": "OwnRequest"},
            {"name": "b", "approver": "bob", "reason": "PlanChanged"},
        ]}),
        [
            ("create", "spec", ""),
            ("refuse", "approval/a", "nodemanager-operator"),
            ("void", "approval/b", "nodemanager-operator"),
        ],
        id="approvals that do not count",
    ),
    pytest.param(
        "ManagedNode",
        seen("ManagedNode", status={"conditions": [
            {"type": "TokenRenewed", "status": "False", "message": f"good until {AT}, and cannot be renewed"},
        ]}),
        [("create", "spec", ""), ("issue", "token", "one")],
        id="a token of a host",
    ),
    pytest.param("ConfigSet", seen("ConfigSet", status={"rollout": 7}),
                 [("create", "spec", "")], id="what cannot be read"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "now", "expected"), CASES)
def test_what_is_seen_is_recorded_once(
    kind: str, now: SeenObject, expected: list[tuple[str, str, str]]
) -> None:
    memory = RecordMemory()
    assert brief(written(memory, kind, now)) == expected
    assert written(memory, kind, now) == []
    gone = written(memory, kind, None)
    assert [(one.verb, one.object.uid, one.actor.known) for one in gone] == [("delete", "u", "unknown")]
    assert written(memory, kind, None) == []


def test_accounts_of_hosts_are_admitted_get_tokens_and_are_revoked() -> None:
    memory, fields = RecordMemory(), [{"manager": "kubectl"}]
    which = ObjectId("ServiceAccount", "prod", "nodemanager-web1")

    def recorded(now: SeenObject | None) -> list[tuple[str, str, str, str]]:
        found = changes.records_of(memory.get(which), now, AT, AT, late=False)
        memory.note(found)
        assert {one.host for one in found} <= {"web1"}
        return [(one.verb, one.aspect, one.actor.name, one.actor.claimed) for one in found]

    account = seen("ServiceAccount", name=which.name, generation=0, managedFields=fields)
    assert recorded(account) == [("admit", "spec", "kubectl", "")]
    note = {"audit.nodemanager/token-issued": f"{AT} ada"}
    issued = seen("ServiceAccount", name=which.name, generation=0, managedFields=fields, annotations=note)
    assert recorded(issued) == [("issue", "token", "nodemanager-token", "ada")]
    assert recorded(issued) == []
    assert recorded(None) == [("revoke", "spec", "", "")]
    for other in ("default", "nodemanager-operator", "robot"):
        assert not seen("ServiceAccount", name=other, annotations=note).aspects


def test_a_start_says_what_gates_said() -> None:
    status = {
        "run": {"id": "r1"},
        "window": {"open": True},
        "waiting": [{"reason": "BudgetSpent", "hosts": 3, "object": "nodemaintenance/m"}],
    }
    found = written(RecordMemory(), "NodeMaintenance", seen("NodeMaintenance", {}, status))
    start = next(one for one in found if one.verb == "start")
    assert [(one.reason, one.hosts) for one in start.gates] == [("WindowOpen", 0), ("BudgetSpent", 3)]


def test_a_wait_that_ends_and_a_phase_that_changes_say_from_what_to_what() -> None:
    memory = RecordMemory()
    waits = {"phase": "WaitingForWindow", "waiting": [{"reason": "WindowClosed", "hosts": 3}]}
    written(memory, "NodeMaintenance", seen("NodeMaintenance", {}, waits))
    found = written(memory, "NodeMaintenance", seen("NodeMaintenance", {}, {"phase": "Running"}))
    assert [(one.verb, one.aspect, one.from_, one.to) for one in found] == [
        ("decide", "phase", "WaitingForWindow", "Running"),
        ("resume", "wait/WindowClosed", "all", ""),
    ]


def test_an_object_of_the_same_name_is_another_one() -> None:
    memory = RecordMemory()
    written(memory, "NodeSeries", seen("NodeSeries"))
    found = written(memory, "NodeSeries", seen("NodeSeries", uid="other"))
    assert [(one.verb, one.object.uid) for one in found] == [("delete", "u"), ("create", "other")]


def test_what_is_older_than_the_log_is_observed() -> None:
    old = seen("NodeSeries", creationTimestamp="2020-01-01T00:00:00Z")
    assert [one.verb for one in changes.records_of(None, old, AT, AT, late=False)] == ["observe"]


def test_a_step_is_recorded_by_digests_only() -> None:
    step = written(RecordMemory(), "NodeTask", seen("NodeTask", TASK, {"phase": "Failed", "steps": [STEP]}))[
        -1
    ]
    assert step.step is not None
    assert (step.step.exit_code, len(step.step.argv_digest), len(step.evidence_digest)) == (3, 64, 64)
    assert (step.plan_hash, step.host) == ("p" * 64, "web1")
    assert b"secret" not in records.encode(step)


def test_what_is_kept_of_an_object_is_all_that_was_seen_of_it() -> None:
    """Packed, it has no names of fields, and neither namespace nor name, which the metadata has."""
    step = RecordedStep(name="reboot", argv_digest="d", exit_code=3, attempts=2)
    aspect = Aspect(
        value="v", verb="step", reason="r", message="m", host="h", by_host=True, plan_hash="p", approval="a",
        step=step, evidence_digest="e", by=Actor(name="eve", known="host"),
        gates=[RecordedGate(reason="Busy", hosts=2)],
    )  # fmt: skip
    about = RecordedObject(
        kind="NodeTask", namespace="prod", name="one", uid="u", generation=4, spec_digest="s", change="c"
    )
    whole = SeenObject(
        object=about, created=AT, host="web1", aspects={"step/reboot": aspect, "spec": Aspect(value="4 s")},
        actor=Actor(name="ada", groups=["ops"], known="admission", claimed="bob"),
        told=HostTold(chain=AuditChain(id="i", size=2), lines=["x"], accepted="y"),
    )  # fmt: skip
    assert all(getattr(whole, name) != getattr(SeenObject(), name) for name in SeenObject.__struct_fields__)
    assert all(getattr(aspect, name) != getattr(Aspect(), name) for name in Aspect.__struct_fields__)
    kept = ObservedObject(metadata=ObservedMeta(name="one", namespace="prod"), packed=observed.packed(whole))
    assert kept.seen == whole


def test_what_is_remembered_of_an_object_is_what_the_last_record_says_of_it() -> None:
    memory = RecordMemory()
    which = ObjectId("ConfigSet", "prod", "one")
    first = seen("ConfigSet", {"priority": 1}, generation=1)
    last = seen("ConfigSet", {"priority": 2}, generation=2, annotations={actors.CHANGE: "https://x/2"})
    for one in (first, last):
        written(memory, "ConfigSet", one)
    known = memory.get(which)
    assert known is not None
    assert (known.object, known.uid, known.values["spec"]) == (last.object, "u", last.aspects["spec"].value)
    assert list(memory) == [which]
    written(memory, "ConfigSet", None)
    assert memory.get(which) is None


def record(at: str, uid: str = "u", **fields: Any) -> Record:
    about = RecordedObject(kind="ConfigSet", namespace="prod", name="one", uid=uid)
    return Record(**{"time": at, "verb": "decide", "aspect": "rollout", "object": about, "to": "x", **fields})


def test_the_log_is_as_old_as_the_first_record_that_is_there() -> None:
    memory = RecordMemory()
    memory.note([record("", uid=""), record("2026-01-01T00:00:00Z", uid=""), record("2026-02-02T00:00:00Z")])
    memory.note([record("2026-03-03T00:00:00Z")])
    assert memory.since == "2026-01-01T00:00:00Z"


def test_records_of_the_log_itself_and_of_chains_are_about_no_object() -> None:
    memory = RecordMemory()
    memory.note([record(AT, uid=""), record(AT, chain=ChainEntry())])
    assert list(memory) == []
    memory.note([record(AT, uid=""), record(AT), record(AT, chain=ChainEntry(), to="y")])
    known = memory.get(ObjectId("ConfigSet", "prod", "one"))
    assert known is not None
    assert known.values == {"rollout": "x"}


def test_what_was_known_of_an_object_is_not_known_of_the_next_of_its_name() -> None:
    """Be its end written or lost."""
    which = ObjectId("ConfigSet", "prod", "one")
    for end in ([], [record(AT, verb="delete")], [record(AT, verb="revoke")]):
        memory = RecordMemory()
        memory.note([record(AT, host="h1"), *end, record(AT, uid="other", host="h2", aspect="phase", to="y")])
        known = memory.get(which)
        assert known is not None
        assert (known.uid, known.host, known.values) == ("other", "h2", {"phase": "y"})


def test_what_is_cleared_is_forgotten_and_the_rest_is_kept() -> None:
    memory = RecordMemory()
    memory.note([record(AT, host="h"), record(AT, aspect="stage", to="s", host="")])
    memory.note([record(AT, aspect="rollout", to=""), record(AT, aspect="never", to="")])
    known = memory.get(ObjectId("ConfigSet", "prod", "one"))
    assert known is not None
    assert (known.values, known.host) == ({"stage": "s"}, "h")


def kept(now: SeenObject) -> ObservedObject:
    return ObservedObject(metadata=ObservedMeta(name="one", namespace="prod"), packed=observed.packed(now))


STARTED = {"phase": "Running", "run": {"id": "r1"}}
BASE = seen("NodeMaintenance", {"paused": False}, STARTED)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (BASE, True),
        (msgspec.structs.replace(BASE, actor=Actor(name="eve")), True),  # of whom nothing has changed
        (seen("NodeMaintenance", {"paused": False}, {**STARTED, "message": "1 of 2"}), True),
        (seen("NodeMaintenance", {"paused": False}, {**STARTED, "plan": {"hash": "p"}}), True),
        (seen("NodeMaintenance", {"paused": False}, STARTED, uid="v"), False),
        (seen("NodeMaintenance", {"paused": True}, STARTED, generation=2), False),
        (seen("NodeMaintenance", {"paused": False}, {**STARTED, "phase": "Succeeded"}), False),
        (seen("NodeMaintenance", {"paused": False}, {"phase": "Running"}), False),
        (msgspec.structs.replace(BASE, told=HostTold(lines=["x"])), False),
    ],
)
def test_only_what_makes_a_record_is_a_change(other: SeenObject, same: bool) -> None:
    assert changes.is_same(kept(BASE), kept(other)) is same
    assert changes.is_same(kept(other), kept(BASE)) is same


def test_what_was_not_looked_at_is_like_nothing_else() -> None:
    raw = ObservedObject(metadata=ObservedMeta(name="one", namespace="prod"))
    assert not changes.is_same(raw, kept(BASE))
    assert not changes.is_same(kept(BASE), raw)
    assert changes.is_same(raw, ObservedObject())


def test_labels_are_part_of_what_is_new_and_a_change_of_their_own_later() -> None:
    memory = RecordMemory()
    (made,) = written(memory, "ConfigSet", seen("ConfigSet", {"priority": 1}, labels={"a": "1"}))
    assert (made.verb, made.object.labels) == (
        "create",
        seen("ConfigSet", labels={"a": "1"}).aspects["labels"].value,
    )
    (changed,) = written(memory, "ConfigSet", seen("ConfigSet", {"priority": 1}, labels={"a": "2"}))
    assert (changed.verb, changed.aspect, changed.from_) == ("relabel", "labels", made.object.labels)
    (edited,) = written(
        memory, "ConfigSet", seen("ConfigSet", {"priority": 2}, labels={"a": "2"}, generation=2)
    )
    assert (edited.verb, edited.aspect, edited.object.labels) == ("update", "spec", "")
    assert written(RecordMemory(), "NodeSeries", seen("NodeSeries"))[0].object.labels == ""


def test_who_is_named() -> None:
    """Who wrote what is wanted; the operator of what it decides; of what is told the host, or who did it."""
    ada, bob = Actor(name="ada", known="admission"), Actor(name="bob", known="claimed")
    now = msgspec.structs.replace(
        BASE,
        actor=ada,
        host="web1",
        aspects={
            "spec": Aspect(value="1", by=bob),
            "leaving": Aspect(value=AT, verb="leave"),
            "approval": Aspect(value="kernel", verb="approve"),
            "token": Aspect(value="t", verb="issue", by=bob, by_host=True),
            "phase": Aspect(value="Running", verb="start", by_host=True, host="web2"),
            "run": Aspect(value="r1", verb="start"),
        },
    )
    found = changes.records_of(None, now, AT, AT, late=True)
    assert [(one.aspect, one.actor.name, one.actor.known, one.host) for one in found] == [
        ("spec", "ada", "admission", "web1"),
        ("leaving", "ada", "admission", "web1"),
        ("approval", "ada", "admission", "web1"),
        ("token", "bob", "claimed", "web1"),
        ("phase", "web2", "host", "web2"),
        ("run", "nodemanager-operator", "operator", "web1"),
    ]
    assert all(one.late and one.time == AT for one in found)
    gone = changes.records_of(LastRecorded(now.object, "web1", {}), None, AT, AT, late=True)
    assert [(one.late, one.host) for one in gone] == [(True, "web1")]


@pytest.mark.parametrize(
    ("since", "created", "verb"),
    [
        (AT, "2026-11-17T08:00:01Z", "create"),
        (AT, AT, "create"),
        (AT, "2026-11-17T07:59:59Z", "observe"),
        ("", AT, "observe"),  # there is no log yet that could have seen it
    ],
)
def test_who_made_it_is_known_of_what_is_younger_than_the_log(since: str, created: str, verb: str) -> None:
    now = seen("NodeSeries", creationTimestamp=created)
    assert [one.verb for one in changes.records_of(None, now, since, AT, late=False)] == [verb]


def test_what_is_no_longer_so_is_recorded_with_what_it_was() -> None:
    memory = RecordMemory()
    status = {**STARTED, "waiting": [{"reason": "WindowClosed", "hosts": 3}]}
    written(memory, "NodeMaintenance", seen("NodeMaintenance", {}, status))
    found = written(memory, "NodeMaintenance", seen("NodeMaintenance", {}, {"phase": "Running"}))
    assert {(one.verb, one.aspect, one.from_, one.to) for one in found} == {
        ("clear", "run", "r1", ""),
        ("resume", "wait/WindowClosed", "all", ""),
    }
    assert written(memory, "NodeMaintenance", seen("NodeMaintenance", {}, {"phase": "Running"})) == []
