"""Of which changes of a maintenance people are told, in which words, and of which they are not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.maintenance_status import EndedRun, NodeMaintenanceStatus, Notice
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.api.maintenance.notifications import EVENTS
from nodemanager.controllers.node_maintenances.status import noticing
from nodemanager.controllers.node_maintenances.status.noticing import StatusChange
from nodemanager.fleet.maintenance.decide import MaintenanceDecision
from nodemanager.fleet.maintenance.progress import HostStage, RunProgress
from nodemanager.fleet.maintenance.reasons import Reason

NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)
RUN = {"id": "r1", "operations": ["patch", "reboot"]}
OPEN, SHUT = {"open": True}, {"open": False}
COUNTS = {"total": 4, "waiting": 3, "running": 0, "succeeded": 1, "failed": 0, "skipped": 0, "text": "1/4"}


def status(**fields: Any) -> NodeMaintenanceStatus:
    return msgspec.convert(fields, NodeMaintenanceStatus)


def told(
    old: dict[str, Any], new: dict[str, Any], *, enforced: bool = True, ended: dict[str, Any] | None = None,
    decision: MaintenanceDecision | None = None,
) -> list[tuple[str, str]]:  # fmt: skip
    """Return what people are told who want to know everything."""
    notify = [{"name": "ops", "type": "webhook", "events": list(EVENTS)}]
    body = {"metadata": {"name": "monday"}, "spec": {"notify": notify}, "status": old}
    seen = msgspec.convert(body, NodeMaintenance)
    last = msgspec.convert(ended, EndedRun) if ended is not None else None
    found = noticing.noticed(StatusChange(seen, status(**new), decision, last, NOW, enforced))
    return [(one.event, one.message) for one in found.notices]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param({}, {"run": RUN}, "run r1 of patch, reboot has begun", id="begun"),
        pytest.param(
            {"run": {"id": "r0"}}, {"run": RUN, "plan": {"hosts": 1}},
            "run r1 of patch, reboot on 1 host has begun", id="the next one, on so many hosts",
        ),
        pytest.param({"run": RUN}, {"run": RUN}, "", id="under way"),
        pytest.param({"run": RUN}, {}, "", id="gone"),
    ],
)  # fmt: skip
def test_a_run_has_begun(old: dict[str, Any], new: dict[str, Any], said: str) -> None:
    assert told(old, new) == ([("RunStarted", said)] if said else [])


@pytest.mark.parametrize(
    ("old", "new", "is_told"),
    [("Running", "Stopped", True), ("Stopped", "Stopped", False), ("Stopped", "Running", False)],
)
def test_a_run_is_stopped(old: str, new: str, is_told: bool) -> None:
    said = (
        "run r1 is stopped, no further host begins: look at the hosts that failed, then run nodemanager"
        " maintenance retry monday"
    )
    found = told({"run": RUN, "phase": old}, {"run": RUN, "phase": new})
    assert found == ([("RunStopped", said)] if is_told else [])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param(
            {"window": OPEN}, {"window": {"open": False, "opensAt": "2027-02-01T00:00:00Z"}},
            "3 hosts of run r1 left; it goes on at 2027-02-01T00:00:00Z", id="until it opens again",
        ),
        pytest.param({"window": OPEN}, {"window": SHUT}, "3 hosts of run r1 left; it does not open again",
                     id="for good"),
        pytest.param(
            {"window": OPEN}, {"window": SHUT, "hosts": {**COUNTS, "waiting": 1}},
            "1 host of run r1 left; it does not open again", id="with one left",
        ),
        pytest.param({"window": OPEN}, {"window": SHUT, "hosts": {**COUNTS, "waiting": 0}}, "", id="done"),
        pytest.param({"window": OPEN}, {"window": SHUT, "hosts": None}, "", id="nobody counted"),
        pytest.param({"window": SHUT}, {"window": SHUT}, "", id="shut"),
        pytest.param({"window": OPEN}, {"window": OPEN}, "", id="open"),
        pytest.param({"window": SHUT}, {"window": OPEN}, "", id="opened"),
        pytest.param({}, {"window": SHUT}, "", id="never open"),
        pytest.param({"window": OPEN}, {}, "", id="of nothing known"),
        pytest.param({"window": OPEN}, {"window": SHUT, "run": None}, "", id="the run is gone"),
        pytest.param({"window": OPEN, "run": None}, {"window": SHUT, "run": None}, "", id="no run"),
    ],
)  # fmt: skip
def test_the_window_closes_before_a_run_is_done(old: dict[str, Any], new: dict[str, Any], said: str) -> None:
    found = told({"run": RUN, "hosts": COUNTS, **old}, {"run": RUN, "hosts": COUNTS, **new})
    assert found == ([("WindowClosed", f"the window closed with {said}")] if said else [])


def test_what_closes_when_another_run_begins_or_one_ends_is_not_of_the_run() -> None:
    old, shut = {"run": {"id": "r0"}, "window": OPEN}, {"window": SHUT, "hosts": COUNTS}
    assert [event for event, _ in told(old, {"run": RUN, **shut})] == ["RunStarted"]
    ended = {"id": "r0", "outcome": "Succeeded"}
    assert [event for event, _ in told(old, shut, ended=ended)] == ["RunSucceeded"]


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ({"outcome": "Succeeded", "hosts": COUNTS}, ("RunSucceeded", "run r1 has ended: 1/4 hosts are done")),
        ({"outcome": "Aborted", "hosts": COUNTS}, ("RunAborted", "run r1 has ended: 1/4 hosts are done")),
    ],
)
def test_a_run_has_ended(ended: dict[str, Any], said: tuple[str, str]) -> None:
    assert told({"run": RUN}, {}, ended={"id": "r1", **ended}) == [said]


def escalated(count: int, *first: str) -> dict[str, Any]:
    return {"escalated": {"hosts": count, "first": list(first)}}


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        pytest.param({}, escalated(1, "a"), "a: nodemanager describe mn a", id="the first"),
        pytest.param(escalated(1, "a"), escalated(1, "a"), "", id="no other"),
        pytest.param(escalated(2, "a", "b"), escalated(1, "b"), "", id="one less"),
        pytest.param(escalated(1, "b"), escalated(1, "a"), "a: nodemanager describe mn a", id="another one"),
        pytest.param(escalated(1, "a"), escalated(1, "b"), "b: nodemanager describe mn b", id="one later"),
        pytest.param(
            escalated(4, "a", "b"), escalated(3, "a", "c"), "", id="one that was there before, not named"
        ),
        pytest.param(
            escalated(4, "a", "b"), escalated(5, "a", "b"),
            "1 further host, after b by name: see condition Escalated", id="one that is not named",
        ),
        pytest.param(
            escalated(1, "a"), escalated(4, "a", "b", "c"), "b, c and 1 more: nodemanager describe mn b",
            id="some that are named, and one that is not",
        ),
        pytest.param(
            escalated(4, "b", "d"), escalated(4, "a", "c"), "a, c: nodemanager describe mn a",
            id="before the last one named",
        ),
    ],
)  # fmt: skip
def test_drifts_are_to_be_looked_at(old: dict[str, Any], new: dict[str, Any], named: str) -> None:
    said = f"somebody changed what is to be looked at by a person, on {named}"
    assert told(old, new) == ([("DriftEscalated", said)] if named else [])


WAITS = {"run": RUN, "phase": "WaitingForApproval"}
PLAN, OTHER = ({"plan": {"hash": one * 12 + "x"}} for one in "ab")
AGAIN = "run r1 waits for an approval of plan aaaaaaaaaaaa: nodemanager maintenance plan monday"


@pytest.mark.parametrize(
    ("old", "new", "is_told"),
    [
        pytest.param({"run": RUN, "phase": "Running", **PLAN}, {**WAITS, **PLAN}, True, id="waits now"),
        pytest.param(
            {"phase": "WaitingForApproval", "run": RUN, **PLAN}, {**WAITS, **PLAN}, False, id="waited"
        ),
        pytest.param(
            {"phase": "WaitingForApproval", "run": RUN, **OTHER}, {**WAITS, **PLAN}, True, id="changed"
        ),
        pytest.param({"phase": "Running", "run": RUN, **OTHER}, {**WAITS, **PLAN}, True, id="both"),
        pytest.param(
            {"run": RUN, **PLAN}, {"run": RUN, "phase": "Paused", **PLAN}, False, id="waits for else"
        ),
        pytest.param({**PLAN}, {"phase": "WaitingForApproval", **PLAN}, False, id="no run"),
    ],
)
def test_a_plan_waits_for_an_approval(old: dict[str, Any], new: dict[str, Any], is_told: bool) -> None:
    assert told(old, new) == ([("WaitingForApproval", AGAIN)] if is_told else [])


def test_a_run_that_begins_and_waits_at_once_is_told_of_as_both() -> None:
    old = {"phase": "WaitingForApproval", **PLAN}
    assert [event for event, _ in told(old, {**WAITS, **PLAN})] == ["RunStarted", "WaitingForApproval"]


def kept(true: bool) -> dict[str, Any]:
    said = {"type": "RealtimeKept", "status": "True" if true else "False", "reason": "x"}
    return {"conditions": [said]}


SETS, CHANGED = ({"realtime": {"hash": one * 12 + "x", "operations": ["sshd", "ntp"]}} for one in "ab")


@pytest.mark.parametrize(
    ("old", "new", "enforced", "is_told"),
    [
        pytest.param({}, SETS, False, True, id="new"),
        pytest.param({}, SETS, True, False, id="approved"),
        pytest.param({**SETS, **kept(False)}, SETS, False, False, id="still waits"),
        pytest.param({**CHANGED, **kept(False)}, SETS, False, True, id="changed"),
        pytest.param({**SETS, **kept(True)}, SETS, False, True, id="the approval is gone"),
        pytest.param({**SETS, **kept(True)}, {}, False, False, id="nothing is enforced any more"),
    ],
)
def test_what_is_enforced_waits_for_an_approval(
    old: dict[str, Any], new: dict[str, Any], enforced: bool, is_told: bool
) -> None:
    said = (
        "nothing of sshd, ntp is enforced before somebody approves plan aaaaaaaaaaaa:"
        " nodemanager maintenance plan monday"
    )
    assert told(old, new, enforced=enforced) == ([("WaitingForApproval", said)] if is_told else [])


def ending(*hosts: str) -> MaintenanceDecision:
    """Return a decision: each host is NAME or NAME=minutes since it failed, in capitals if it did not."""
    found = {}
    for one in hosts:
        name, _, ago = one.partition("=")
        stage = HostStage.SUCCEEDED if name.isupper() else HostStage.FAILED
        ended = NOW - timedelta(minutes=int(ago)) if ago else None
        found[name] = RunProgress(stage, reason=Reason.TASK_FAILED, ended=ended)
    return MaintenanceDecision(progress=found)


@pytest.mark.parametrize(
    ("known", "hosts", "said"),
    [
        pytest.param(0, ["a=1", "B=0"], "a (TaskFailed)", id="one"),
        pytest.param(
            0, ["a=3", "b=1", "c=2"], "b (TaskFailed), c (TaskFailed), a (TaskFailed)", id="newest first"
        ),
        pytest.param(2, ["a=3", "b=1", "c=2"], "b (TaskFailed)", id="only those that nobody was told of"),
        pytest.param(1, ["a=3", "b"], "b (TaskFailed)", id="just now"),
        pytest.param(3, ["a=3", "b=1", "c=2"], "", id="none"),
        pytest.param(3, ["a=3"], "", id="fewer"),
        pytest.param(
            0, [f"{one}={number}" for number, one in enumerate("abcdef")],
            "a (TaskFailed), b (TaskFailed), c (TaskFailed), d (TaskFailed), e (TaskFailed) and 1 more",
            id="too many to name",
        ),
        pytest.param(
            0, [f"{one}={number}" for number, one in enumerate("abcde")],
            "a (TaskFailed), b (TaskFailed), c (TaskFailed), d (TaskFailed), e (TaskFailed)", id="all named",
        ),
    ],
)  # fmt: skip
def test_hosts_have_failed(known: int, hosts: list[str], said: str) -> None:
    run = {"run": {**RUN, "failed": known}}
    found = told(run, run, decision=ending(*hosts))
    assert found == ([("HostFailed", f"failed in run r1: {said}")] if said else [])


def test_what_failed_in_another_run_is_not_taken_for_known() -> None:
    old = {"run": {"id": "r0", "failed": 5}}
    found = told(old, {"run": RUN}, decision=ending("a=1"))
    assert ("HostFailed", "failed in run r1: a (TaskFailed)") in found
    found = told({}, {}, decision=ending("a=1"), ended={"id": "r1", "outcome": "Failed"})
    assert ("HostFailed", "failed in run r1: a (TaskFailed)") in found


@pytest.mark.parametrize("failed", [0, 1])
def test_a_notice_says_where_the_run_is_and_the_run_how_many_have_failed(failed: int) -> None:
    notify = [
        {"name": "all", "type": "webhook"},
        {"name": "few", "type": "slack", "events": ["RunStopped"]},
        {"name": "more", "type": "webhook", "events": ["RunStarted"]},
    ]
    seen = msgspec.convert({"metadata": {"name": "monday"}, "spec": {"notify": notify}}, NodeMaintenance)
    made = status(run=RUN, hosts=COUNTS)
    change = StatusChange(seen, made, ending(*["a=1"][:failed]), None, NOW, enforced=True)
    found = noticing.noticed(change)
    assert found.run is not None
    assert found.run.failed == failed
    (notice,) = found.notices
    assert (notice.number, notice.run, notice.to) == (1, "r1", ["all", "more"])
    assert (notice.at, notice.hosts) == ("2027-01-31T12:00:00Z", made.hosts)
    known = msgspec.structs.replace(made, notices=[Notice(number=6), Notice(number=7)])
    nobody_decided = noticing.noticed(StatusChange(seen, known, None, None, NOW, enforced=True))
    assert [one.number for one in nobody_decided.notices] == [6, 7, 8]
    assert nobody_decided.notices[-1].hosts is None


def test_a_long_message_is_cut_off_and_is_one_line() -> None:
    run = {"id": "r1", "operations": ["a\nb", "c" * 2000]}
    ((_, said),) = told({}, {"run": run})
    assert said.startswith("run r1 of a b, c")
    assert len(said) == 1024
