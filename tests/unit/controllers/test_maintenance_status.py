"""The status of a maintenance: its phase, its operations and runs, who waits for what, and what is news."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.maintenance_status import (
    MAX_REASONS,
    EndedRun,
    NodeMaintenanceStatus,
    OperationState,
    PlanState,
    RealtimePlan,
    RefusedApproval,
    RunState,
)
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.api.maintenance.operations import Operation
from nodemanager.controllers.node_maintenances.inputs import Problem
from nodemanager.controllers.node_maintenances.realtime_sets import RealtimeKept
from nodemanager.controllers.node_maintenances.status import recording
from nodemanager.controllers.node_maintenances.status.recording import News, StatusInputs
from nodemanager.fleet.maintenance import runs
from nodemanager.fleet.maintenance.decide import HostStart, HostWait, MaintenanceDecision, Stop
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.passes import MaintenanceLook
from nodemanager.fleet.maintenance.progress import HostStage, RunProgress
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.runs import OperationJudgement, Skipped
from nodemanager.kube import conditions

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
HOUR = timedelta(hours=1)
BEFORE, AT, AFTER = "2026-11-16T05:00:00Z", "2026-11-16T06:00:00Z", "2026-11-16T07:00:00Z"
ONCE, WEEKLY = (
    {"name": "patch", "type": "one-shot"},
    {"name": "boot", "type": "cron", "schedule": "0 6 * * 1"},
)
OPEN = WindowView(open=True)
RUN = RunState(id="r1", operations=["patch"], started_at=AT, slots={"patch": "one"})


def maintenance(
    status: dict[str, Any] | None = None, operations: Sequence[dict[str, Any]] = (), **spec: Any
) -> NodeMaintenance:
    meta = {"name": "monday", "uid": "m-1", "generation": 3}
    body = {"metadata": meta, "spec": {"operations": operations, **spec}, "status": status or {}}
    return msgspec.convert(body, NodeMaintenance)


def recorded(
    one: NodeMaintenance, *judgements: OperationJudgement, run: RunState | None = None,
    decision: MaintenanceDecision | None = None, window: WindowView = OPEN, reason: Reason | None = None,
    ended: EndedRun | None = None, problem: Problem | None = None, plan: PlanState | None = None, **more: Any,
) -> NodeMaintenanceStatus:  # fmt: skip
    look = MaintenanceLook(window, judgements, decision=decision, reason=reason)
    return recording.status_of(StatusInputs(one, look, run, ended, problem, plan, NOW, **more))


def stages(**counts: int) -> dict[str, RunProgress]:
    """Return how far hosts are, as many of each stage."""
    return {
        f"{stage}-{number}": RunProgress(HostStage(stage))
        for stage, count in counts.items() for number in range(count)
    }  # fmt: skip


# Where it is


def waits(*reasons: Reason) -> MaintenanceDecision:
    return MaintenanceDecision(waits=tuple(HostWait(f"h{at}", one) for at, one in enumerate(reasons)))


@pytest.mark.parametrize(
    ("decision", "phase"),
    [
        pytest.param(None, "Running", id="nothing decided"),
        pytest.param(MaintenanceDecision(), "Running", id="nobody waits"),
        pytest.param(waits(Reason.PAUSED), "Paused", id="paused"),
        pytest.param(waits(Reason.NOT_APPROVED), "WaitingForApproval", id="not approved"),
        pytest.param(waits(Reason.WINDOW_CLOSED), "WaitingForWindow", id="shut"),
        pytest.param(waits(Reason.WINDOW_CLOSED, Reason.PAUSED), "Paused", id="what people can end first"),
        pytest.param(waits(Reason.BUDGET_SPENT), "Running", id="waits for its turn"),
        pytest.param(
            MaintenanceDecision((HostStart("a", 0),), waits(Reason.PAUSED).waits), "Running",
            id="somebody begins",
        ),
        pytest.param(
            MaintenanceDecision(waits=waits(Reason.PAUSED).waits, progress=stages(running=1)), "Running",
            id="somebody is in work",
        ),
        pytest.param(
            MaintenanceDecision(
                stops=(Stop(Reason.STOPPED, ("a",)),), progress=stages(running=1, failed=1)
            ),
            "Stopped", id="stopped, with somebody in work",
        ),
    ],
)  # fmt: skip
def test_where_a_run_is(decision: MaintenanceDecision | None, phase: str) -> None:
    assert recorded(maintenance(), run=RUN, decision=decision).phase == phase


DONE = {"name": "patch", "done": runs.one_shot_id("m-1", msgspec.convert(ONCE, Operation))}
SETTLED, JUDGED = OperationJudgement("patch"), OperationJudgement("boot")
OVER: dict[str, Any] = {"operations": [DONE]}
FAILED, WELL = EndedRun(id="r0", outcome="Failed"), EndedRun(id="r0", outcome="Succeeded")


WRONG = Problem(Reason.STEPS_INVALID, "operation x", "no")


def history(*outcomes: str) -> dict[str, Any]:
    return {"history": [{"id": f"r{at}", "outcome": one} for at, one in enumerate(outcomes)]}


@pytest.mark.parametrize(
    ("one", "judged", "more", "phase"),
    [
        pytest.param(maintenance(OVER, [ONCE]), SETTLED, {}, "Succeeded", id="nothing known of how it ended"),
        pytest.param(maintenance(OVER, [ONCE]), SETTLED, {"ended": FAILED}, "Failed", id="just failed"),
        pytest.param(maintenance(OVER, [ONCE]), SETTLED, {"ended": WELL}, "Succeeded", id="just done"),
        pytest.param(
            maintenance({**OVER, **history("Failed", "Succeeded")}, [ONCE]), SETTLED, {}, "Failed",
            id="the last one failed",
        ),
        pytest.param(
            maintenance({**OVER, **history("Succeeded", "Failed")}, [ONCE]), SETTLED, {}, "Succeeded",
            id="the last one succeeded",
        ),
        pytest.param(
            maintenance({**OVER, **history("Succeeded"), "phase": "Failed"}, [ONCE]), SETTLED, {}, "Failed",
            id="it was said before, and runs are forgotten",
        ),
        pytest.param(
            maintenance({**OVER, "phase": "Succeeded"}, [ONCE]), SETTLED, {"problem": WRONG}, "Succeeded",
            id="what is wrong since does not matter",
        ),
        pytest.param(
            maintenance({**OVER, **history("Failed"), "phase": "Succeeded"}, [ONCE]), SETTLED, {},
            "Succeeded", id="it was said before, and only runs that failed are remembered",
        ),
        pytest.param(maintenance({}, [ONCE]), SETTLED, {}, "WaitingForSlot", id="not done"),
        pytest.param(
            maintenance(OVER, [ONCE]), OperationJudgement("patch", due="x"), {}, "WaitingForSlot",
            id="due again",
        ),
        pytest.param(
            maintenance(OVER, [ONCE]), OperationJudgement("patch", next_run=NOW), {}, "WaitingForSlot",
            id="due later",
        ),
        pytest.param(maintenance(), None, {}, "WaitingForSlot", id="nothing to do"),
        pytest.param(
            maintenance({"operations": [{"name": "boot", "lastSlot": AT}]}, [WEEKLY]), JUDGED, {},
            "Succeeded", id="never due again",
        ),
        pytest.param(maintenance({}, [WEEKLY]), JUDGED, {}, "WaitingForSlot", id="never due"),
        pytest.param(
            maintenance({}, [ONCE]), SETTLED, {"problem": WRONG}, "Pending", id="wrong",
        ),
        pytest.param(
            maintenance(), None, {"realtime": RealtimeKept((), (), None, approved=False)},
            "WaitingForApproval", id="what is enforced waits",
        ),
        pytest.param(
            maintenance(), None, {"realtime": RealtimeKept((), (), None, approved=True)}, "WaitingForSlot",
            id="what is enforced is approved",
        ),
        pytest.param(maintenance(), None, {"reason": Reason.WINDOW_CLOSED}, "WaitingForWindow", id="shut"),
    ],
)  # fmt: skip
def test_where_it_is_between_runs(
    one: NodeMaintenance, judged: OperationJudgement | None, more: dict[str, Any], phase: str
) -> None:
    assert recorded(one, *([judged] if judged is not None else []), **more).phase == phase


def test_it_is_over_when_all_of_its_operations_are() -> None:
    again = [ONCE, WEEKLY]
    assert recorded(maintenance(OVER, again), SETTLED, JUDGED).phase == "WaitingForSlot"
    later = OperationJudgement("boot", next_run=NOW)
    assert recorded(maintenance(OVER, again), SETTLED, later).phase == "WaitingForSlot"


def test_why_a_run_stopped_is_said_with_what_to_do() -> None:
    stop = MaintenanceDecision(
        stops=(Stop(Reason.STOPPED, ("a", "b")),), progress=stages(failed=2, skipped=1)
    )
    found = conditions.get(recorded(maintenance(), run=RUN, decision=stop).conditions, "Progressing")
    assert found is not None
    assert found.message.startswith("2 hosts failed: managednode/a and 1 more. ")
    assert "retry monday" in found.message


# What its conditions say


def told(made: NodeMaintenanceStatus, kind: str) -> tuple[str, str, str]:
    found = conditions.get(made.conditions, kind)
    assert found is not None
    assert found.observed_generation == 3
    return found.status, found.reason, found.message


def test_whether_it_is_valid() -> None:
    assert told(recorded(maintenance()), "Valid") == ("True", "Good", "")
    assert told(recorded(maintenance(), problem=WRONG), "Valid") == ("False", "StepsInvalid", "no")


def test_whether_it_gets_on() -> None:
    running = recorded(maintenance(), run=RUN)
    assert told(running, "Progressing") == ("True", "Running", "")
    assert told(running, "Complete") == ("False", "Running", "")
    waiting = recorded(maintenance(), run=RUN, decision=waits(Reason.PAUSED))
    assert told(waiting, "Progressing")[:2] == ("False", "Paused")
    assert told(waiting, "Progressing")[2] == waiting.waiting[0].remedy != ""
    done = recorded(maintenance(OVER, [ONCE]), SETTLED)
    assert told(done, "Complete") == ("True", "Succeeded", "")
    assert told(done, "Progressing") == ("False", "Succeeded", "")


def test_whether_what_is_enforced_at_all_times_is_so() -> None:
    plan = RealtimePlan(hash="x", operations=["sshd"])
    sets = tuple(f"monday-{one}" for one in "abcdef")
    good = recorded(maintenance(), realtime=RealtimeKept(sets, (), plan, approved=True))
    named = "see ConfigSet monday-a, monday-b, monday-c, monday-d, monday-e"
    assert told(good, "RealtimeKept") == ("True", "Kept", named)
    waiting = recorded(maintenance(), realtime=RealtimeKept(sets, (), plan, approved=False))
    assert told(waiting, "RealtimeKept")[:2] == ("False", "NotApproved")
    assert told(waiting, "RealtimeKept")[2].endswith("nodemanager maintenance approve monday")
    bad = recorded(maintenance(), realtime=RealtimeKept(sets, ("one", "x" * 2000), plan, approved=True))
    assert told(bad, "RealtimeKept")[:2] == ("False", "NotKept")
    assert told(bad, "RealtimeKept")[2].startswith("one; xxx")
    assert len(told(bad, "RealtimeKept")[2]) == 1024
    none = recorded(maintenance(msgspec.to_builtins(good)))
    assert conditions.get(none.conditions, "RealtimeKept") is None
    assert len(none.conditions) == 3


def test_a_condition_that_says_the_same_keeps_its_time() -> None:
    before = msgspec.to_builtins(recorded(maintenance()))
    for one in before["conditions"]:
        one["lastTransitionTime"] = BEFORE
    after = recorded(maintenance(before), problem=WRONG)
    times = {one.type: one.last_transition_time for one in after.conditions}
    assert times == {"Valid": AT, "Progressing": BEFORE, "Complete": BEFORE}


# What it consists of


def test_hosts_are_counted_and_those_that_come_next_are_named_while_a_run_is_under_way() -> None:
    found = stages(waiting=1, running=2, succeeded=3, failed=4, skipped=5)
    coming = tuple(HostWait(f"h{number}", Reason.PARALLELISM) for number in range(7))
    decision = MaintenanceDecision(waits=coming, progress=found)
    made = recorded(maintenance(), run=RUN, decision=decision)
    assert msgspec.to_builtins(made.hosts) == {
        "total": 15, "waiting": 1, "running": 2, "succeeded": 3, "failed": 4, "skipped": 5, "text": "3/15",
    }  # fmt: skip
    assert made.next_hosts == ["h0", "h1", "h2", "h3", "h4"]
    assert made.run == msgspec.structs.replace(RUN, failed=4)
    assert recorded(maintenance(), decision=decision).next_hosts == []
    known = msgspec.to_builtins(made)
    between = recorded(maintenance(known), plan=PlanState(hash="p"))
    assert (between.hosts, between.next_hosts, between.run) == (made.hosts, [], None)
    assert between.plan == PlanState(hash="p")


def test_what_others_found_is_in_it() -> None:
    kept = RealtimeKept(("a",), (), RealtimePlan(hash="x"), approved=True)
    no = RefusedApproval(name="x")
    made = recorded(maintenance(), realtime=kept, refused=[no])
    assert (made.observed_generation, made.realtime, made.refused_approvals) == (3, kept.plan, [no])
    assert recorded(maintenance(msgspec.to_builtins(made))).realtime is None


def test_people_are_asked_for_what_is_enforced_until_it_is_approved() -> None:
    one = maintenance(notify=[{"name": "ops", "type": "webhook"}])
    for approved, asked in ((True, []), (False, ["WaitingForApproval"])):
        kept = RealtimeKept((), (), RealtimePlan(hash="x", operations=["sshd"]), approved)
        assert [notice.event for notice in recorded(one, realtime=kept).notices] == asked


@pytest.mark.parametrize(
    ("view", "text", "is_open"),
    [
        (WindowView(open=True, closes_at=NOW), f"open until {AT}", True),
        (WindowView(open=True), "open", True),
        (WindowView(open=True, opens_at=NOW), "open", True),
        (WindowView(opens_at=NOW), AT, False),
        (WindowView(), "shut", False),
    ],
)
def test_when_its_window_is_open(view: WindowView, text: str, is_open: bool) -> None:
    window = recorded(maintenance(), window=view).window
    assert window is not None
    assert (window.text, window.open) == (text, is_open)
    assert window.opens_at == (AT if view.opens_at is not None else None)
    assert window.closes_at == (AT if view.closes_at is not None else None)


def test_those_that_wait_are_told_by_reason_most_of_them_first() -> None:
    found = recording.waiting(
        [
            HostWait("a", Reason.PAUSED, "x", NOW, NOW + HOUR),
            HostWait("b", Reason.BUDGET_SPENT, "one"),
            HostWait("c", Reason.BUDGET_SPENT, "other", NOW + HOUR, NOW),
            HostWait("d", Reason.BUDGET_SPENT, "one", NOW, NOW + HOUR),
            HostWait("e", Reason.HOST_SILENT),
        ],
        "monday",
    )
    said = [(one.reason, one.hosts, one.first, one.object, one.since, one.next_check) for one in found]
    assert said == [
        ("BudgetSpent", 3, ["b", "c", "d"], "", AT, AT),
        ("HostSilent", 1, ["e"], "", None, None),
        ("Paused", 1, ["a"], "x", AT, AFTER),
    ]
    many = recording.waiting([HostWait(f"h{number}", Reason.PAUSED, "x") for number in range(9)], "monday")
    assert [(one.hosts, len(one.first), one.object) for one in many] == [(9, 5, "x")]


def test_what_ends_a_wait_is_said_with_the_names_that_are_known() -> None:
    one, two = HostWait("web1", Reason.NODE_CORDONED), HostWait("web2", Reason.NODE_CORDONED)
    ((alone,), (both,)) = (recording.waiting(found, "monday") for found in ([one], [one, two]))
    assert "web1" in alone.remedy
    assert "web1" not in both.remedy


def test_nobody_waits_in_a_run_that_has_ended_and_not_more_reasons_are_told_than_fit() -> None:
    decision = MaintenanceDecision(waits=waits(*Reason).waits)
    assert len(recorded(maintenance(), run=RUN, decision=decision).waiting) == MAX_REASONS
    ended = MaintenanceDecision(waits=decision.waits, outcome="Succeeded")
    assert recorded(maintenance(), decision=ended).waiting == []
    assert recorded(maintenance()).waiting == []


# Its operations


def operation(one: NodeMaintenance, judged: OperationJudgement, **more: Any) -> OperationState:
    (found,) = recorded(one, judged, **more).operations
    return found


def test_an_operation_is_due_next_and_remembers_the_last_slot() -> None:
    old = {"operations": [{"name": "x", "lastSlot": AFTER}, {"name": "boot", "lastSlot": BEFORE}]}
    found = operation(maintenance(old), OperationJudgement("boot", last_slot=NOW, next_run=NOW + HOUR))
    assert found == OperationState(name="boot", last_slot=AT, next_run=AFTER)
    found = operation(maintenance(old), OperationJudgement("boot"))
    assert found == OperationState(name="boot", last_slot=BEFORE)
    assert operation(maintenance(), OperationJudgement("boot")) == OperationState(name="boot")


def test_it_is_due_when_the_first_of_its_operations_is() -> None:
    two = OperationJudgement("a", next_run=NOW + HOUR), OperationJudgement("b", next_run=NOW)
    assert recorded(maintenance(), *two, OperationJudgement("c")).next_run == AT
    assert recorded(maintenance(), OperationJudgement("c")).next_run is None


def test_slots_that_are_skipped_are_counted_once() -> None:
    judged = OperationJudgement(
        "boot", skipped=(Skipped(NOW, Reason.PAUSED), Skipped(NOW + HOUR, Reason.WINDOW_CLOSED)),
    )  # fmt: skip
    for last, skipped in ((None, 4), (BEFORE, 4), (AT, 3), (AFTER, 2)):
        old = {"operations": [{"name": "boot", "skipped": 2, "lastSlot": last, "skippedReason": "Paused"}]}
        found = operation(maintenance(old), judged)
        assert (found.skipped, found.skipped_reason) == (skipped, "WindowClosed")
        assert operation(maintenance(old), OperationJudgement("boot")).skipped_reason == "Paused"


def test_an_operation_begins_with_the_run_that_it_is_part_of() -> None:
    both = maintenance({}, [ONCE, WEEKLY])
    begun = RunState(id="r", operations=["patch", "boot"], started_at=AT, slots={"patch": "x", "boot": AFTER})
    (once, weekly, other) = recorded(both, SETTLED, JUDGED, OperationJudgement("x"), run=begun).operations
    assert once == OperationState(name="patch", active=True, last_run=AT)
    assert weekly == OperationState(name="boot", active=True, last_run=AT, last_slot=AFTER)
    assert other == OperationState(name="x")
    known = {"run": msgspec.to_builtins(begun)}
    (again,) = recorded(maintenance(known, [WEEKLY]), JUDGED, run=begun).operations
    assert again == OperationState(name="boot", active=True)
    without = msgspec.structs.replace(begun, slots={})
    assert operation(both, JUDGED, run=without) == OperationState(name="boot", active=True, last_run=AT)
    gone = operation(maintenance(), JUDGED, run=begun)
    assert gone == OperationState(name="boot", active=True, last_run=AT), "nobody declares it any more"


@pytest.mark.parametrize(
    ("outcome", "slots", "done"),
    [
        ("Succeeded", {"patch": "one"}, "one"),
        ("Failed", {"patch": "one"}, "one"),
        ("Replaced", {"patch": "one"}, ""),
        ("Succeeded", {"boot": AT}, ""),
        ("Succeeded", {}, ""),
    ],
)
def test_a_one_shot_is_done_when_its_run_has_ended(outcome: str, slots: dict[str, str], done: str) -> None:
    old = {"run": {"id": "r0", "operations": ["patch"], "slots": slots}}
    judged = OperationJudgement("patch", next_run=NOW)
    found = operation(maintenance(old, [ONCE]), judged, ended=EndedRun(id="r0", outcome=outcome))
    assert (found.done, found.next_run) == (done, None if done else AT)


def test_what_comes_again_is_never_done() -> None:
    old = {"run": {"id": "r0", "operations": ["boot"], "slots": {"boot": AT}}}
    judged = OperationJudgement("boot", next_run=NOW)
    found = operation(maintenance(old, [WEEKLY]), judged, ended=WELL)
    assert (found.done, found.next_run) == ("", AT)
    assert operation(maintenance({}, [ONCE]), OperationJudgement("patch"), ended=WELL).done == ""


# Its runs


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({}, ["new", "r0", "r1", "r2", "r3", "r4"]),
        ({"successfulRunsHistoryLimit": 2}, ["new", "r0", "r1", "r3"]),
        ({"failedRunsHistoryLimit": 1}, ["new", "r0", "r1", "r2", "r4"]),
        ({"successfulRunsHistoryLimit": 0, "failedRunsHistoryLimit": 0}, []),
    ],
)
def test_of_runs_that_have_ended_so_many_are_kept_as_are_wanted(
    limits: dict[str, Any], kept: list[str]
) -> None:
    old = history("Succeeded", "Failed", "Succeeded", "Aborted", "Succeeded")
    ended = EndedRun(id="new", outcome="Succeeded")
    default: dict[str, Any] = {"successfulRunsHistoryLimit": 5, "failedRunsHistoryLimit": 5}
    found = recorded(maintenance(old, **{**default, **limits}), ended=ended).history
    assert [one.id for one in found] == kept
    if not limits:
        usual = recorded(maintenance(history(*["Failed"] * 9, *["Succeeded"] * 9))).history
        assert [one.outcome for one in usual] == ["Failed"] * 3 + ["Succeeded"] * 3


# News


def status(**fields: Any) -> NodeMaintenanceStatus:
    return msgspec.convert(fields, NodeMaintenanceStatus)


BEGUN = "run r1 of a, b"
STARTED: dict[str, Any] = {"run": {"id": "r1", "operations": ["a", "b"]}}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({}, STARTED, [BEGUN]),
        ({"run": {"id": "r0"}}, STARTED, [BEGUN]),
        (STARTED, STARTED, []),
        (STARTED, {}, []),
        ({}, {**STARTED, "plan": {"hosts": 2}}, [f"{BEGUN} on 2 hosts"]),
        (
            {}, {**STARTED, "plan": {"hosts": 2, "withoutAgent": 6, "firstWithoutAgent": list("tuvxyz")}},
            [f"{BEGUN} on 2 hosts; 6 Kubernetes Nodes without an agent, left out: t, u, v, x, y and 1 more"],
        ),
        (
            {}, {**STARTED, "plan": {"hosts": 2, "withoutNode": 1}},
            [f"{BEGUN} on 2 hosts; 1 host without a Kubernetes Node, left out"],
        ),
    ],
)  # fmt: skip
def test_a_run_that_has_begun_is_news(old: dict[str, Any], new: dict[str, Any], said: list[str]) -> None:
    assert recording.news(status(**old), status(**new)) == [News("RunStarted", one) for one in said]


@pytest.mark.parametrize(
    ("old", "new", "is_news"),
    [("Running", "Stopped", True), ("Stopped", "Stopped", False), ("Stopped", "Running", False)],
)
def test_a_run_that_stops_is_news(old: str, new: str, is_news: bool) -> None:
    why = {"type": "Progressing", "status": "False", "reason": "Stopped", "message": "2 hosts failed"}
    found = recording.news(status(phase=old), status(phase=new, conditions=[why]))
    assert found == ([News("RunStopped", "2 hosts failed", bad=True)] if is_news else [])


def test_a_run_that_has_ended_is_news() -> None:
    first = {"id": "r1", "outcome": "Succeeded", "hosts": {"text": "3/3"}}
    second = {"id": "r2", "outcome": "Aborted", "hosts": {"text": "1/3"}}
    well = News("RunSucceeded", "run r1: 3/3 hosts are done")
    assert recording.news(status(), status(history=[first])) == [well]
    assert recording.news(status(history=[first]), status(history=[first])) == []
    ill = News("RunAborted", "run r2: 1/3 hosts are done", bad=True)
    assert recording.news(status(history=[first]), status(history=[second, first])) == [ill]
    assert recording.news(status(history=[first]), status()) == []


def said(kind: str, true: bool, message: str = "no") -> dict[str, Any]:
    one = {"type": kind, "status": "True" if true else "False", "reason": "Why", "message": message}
    return {"conditions": [one]}


@pytest.mark.parametrize("kind", ["Valid", "RealtimeKept"])
def test_what_is_wrong_is_news_until_it_is_known(kind: str) -> None:
    wrong, right, other = said(kind, true=False), said(kind, true=True), said(kind, true=False, message="oh")
    for old, new, is_news in (
        ({}, wrong, True), (right, other, True), (wrong, wrong, False), (other, wrong, True),
        (wrong, right, False), (wrong, {}, False), ({}, right, False), ({}, said("Other", true=False), False),
    ):  # fmt: skip
        found = recording.news(status(**old), status(**new))
        assert found == ([News("Why", new["conditions"][0]["message"], bad=True)] if is_news else [])
