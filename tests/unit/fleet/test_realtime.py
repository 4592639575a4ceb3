"""Operations of type realtime as ConfigSets: for whom, when, and when they change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.declarations import File
from nodemanager.api.common.enforcement import EnforcedSpan
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance, NodeMaintenanceSpec
from nodemanager.api.maintenance.nodeoperationtemplate import NodeOperationTemplateSpec
from nodemanager.api.maintenance.operations import LocalReference, Operation
from nodemanager.api.maintenance.realtime_set import RealtimeSet
from nodemanager.api.maintenance.series import SeriesSpec
from nodemanager.api.maintenance.windows import WindowSchedule, WindowSpec
from nodemanager.fleet.maintenance import realtime
from nodemanager.fleet.maintenance.realtime import AHEAD, ENOUGH, RealtimeError
from nodemanager.fleet.windows.calendar import Calendar
from nodemanager.kube import times
from nodemanager.kube.objects import ObjectMeta
from nodemanager.kube.selectors import LabelSelector, matches

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)  # a Monday
DAILY = Calendar(WindowSpec(schedules=[WindowSchedule(start="06:00", duration="3h")]))
SSHD = Operation(
    name="sshd", type="realtime", config_set=RealtimeSet(priority=7, files=[File(path="/etc/x", content="x")])
)


def maintenance(*operations: Operation, paused: bool = False) -> NodeMaintenance:
    spec = NodeMaintenanceSpec(operations=list(operations), paused=paused)
    return NodeMaintenance(metadata=ObjectMeta(name="nights", namespace="ns", uid="u1"), spec=spec)


def span(start: datetime, end: datetime | None) -> EnforcedSpan:
    return EnforcedSpan(start=times.rfc3339(start), end=times.rfc3339(end) if end else None)


def test_a_set_has_what_the_operation_declares_and_belongs_to_the_maintenance() -> None:
    owner = maintenance(SSHD)
    spans = [span(NOW, None)]
    made = realtime.wanted(owner, SSHD, {}, LabelSelector(), spans)
    assert (made.metadata.name, made.metadata.namespace) == ("nights-sshd", "ns")
    assert [(one.kind, one.uid) for one in made.metadata.owner_references] == [("NodeMaintenance", "u1")]
    assert ([one.path for one in made.spec.files], made.spec.priority) == (["/etc/x"], 7)
    assert made.spec.enforcement is not None
    assert made.spec.enforcement.openings == spans
    assert realtime.is_ours(made, owner)
    assert realtime.obsolete([made], owner) == []
    assert realtime.obsolete([made], maintenance()) == [made]


@pytest.mark.parametrize("how", ["paused", "suspended"])
def test_while_it_is_stopped_it_is_only_looked_at(how: str) -> None:
    stopped = Operation(name="sshd", type="realtime", config_set=SSHD.config_set, suspend=how == "suspended")
    owner = maintenance(stopped, paused=how == "paused")
    made = realtime.wanted(owner, stopped, {}, LabelSelector(), [span(NOW, None)])
    assert made.spec.enforcement is not None
    assert made.spec.enforcement.openings == []


def test_a_template_that_is_not_there_is_named() -> None:
    operation = Operation(name="sshd", type="realtime", template_ref=LocalReference(name="gone"))
    with pytest.raises(RealtimeError, match=r"operation sshd: .*gone"):
        realtime.wanted(maintenance(operation), operation, {}, LabelSelector(), [])


def test_hosts_are_chosen_by_the_selector_of_the_series_where_that_says_all() -> None:
    by_role = LabelSelector(match_labels={"role": "web"})
    assert realtime.chosen(SeriesSpec(selector=by_role), ["a", "b"]) == by_role
    assert realtime.chosen(SeriesSpec(), ["a", "b"]) == LabelSelector()
    named = realtime.chosen(SeriesSpec(selector=by_role, exclude=LabelSelector()), ["b", "a"])
    labels = [{"kubernetes.io/hostname": name, "role": "web"} for name in "abc"]
    assert [matches(named, one) for one in labels] == [True, True, False]
    assert realtime.chosen(SeriesSpec(node_selector=by_role), ["b", "a"]) == named, "agents know no Nodes"
    with pytest.raises(RealtimeError, match="this one chooses 1025; choose them by a label"):
        realtime.chosen(SeriesSpec(names=["x"]), [str(number) for number in range(1025)])


def test_a_template_that_is_done_once_is_named_too() -> None:
    operation = Operation(name="sshd", type="realtime", template_ref=LocalReference(name="once"))
    once = {"once": NodeOperationTemplateSpec()}
    with pytest.raises(RealtimeError, match=r"operation sshd: cannot use template once .*a configSet"):
        realtime.wanted(maintenance(operation), operation, once, LabelSelector(), [])


def test_as_many_hosts_are_named_as_a_selector_takes() -> None:
    full = realtime.chosen(SeriesSpec(names=["x"]), [str(number) for number in range(1024)])
    assert full.match_expressions[0].values == sorted(map(str, range(1024)))


def test_sets_of_others_and_operations_that_are_done_once_are_left_alone() -> None:
    made = realtime.wanted(maintenance(SSHD), SSHD, {}, LabelSelector(), [])
    assert [one.controller for one in made.metadata.owner_references] == [True]
    other = NodeMaintenance(metadata=ObjectMeta(name="nights", namespace="ns", uid="u2"))
    assert not realtime.is_ours(made, other)
    assert realtime.obsolete([made], other) == []
    once = Operation(name="sshd", type="one-shot")
    assert realtime.operations(maintenance(once, SSHD)) == [SSHD]
    assert realtime.obsolete([made], maintenance(once)) == [made], "it is no set any more"


def test_the_name_of_a_set_has_room_for_the_operation() -> None:
    assert realtime.set_name("nights", "sshd") == "nights-sshd"
    assert realtime.set_name("n" * 200 + "x", "sshd") == "n" * 200 + "-sshd"
    assert realtime.set_name("n" * 199 + "-x", "sshd") == "n" * 199 + "-sshd"


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(lambda spans: spans[: ENOUGH - 1], id="too few"),
        pytest.param(lambda spans: spans[1:], id="the next one is missing"),
        pytest.param(lambda spans: [*spans, *spans], id="more than there are"),
        pytest.param(lambda spans: [EnforcedSpan("soon", spans[0].end), *spans[1:]], id="no start"),
        pytest.param(lambda spans: [EnforcedSpan(spans[0].start, "soon"), *spans[1:]], id="no end"),
        pytest.param(lambda spans: [EnforcedSpan(spans[0].start), *spans[1:]], id="endless"),
        pytest.param(
            lambda spans: [EnforcedSpan("2026-03-03T05:00:00Z", spans[0].end), *spans[1:]], id="early"
        ),
    ],
)
def test_spans_that_are_not_true_or_too_few_are_replaced(known: Any) -> None:
    given = realtime.openings(DAILY, [], NOW)
    assert realtime.openings(DAILY, known(given), NOW) == given


def test_just_enough_spans_stay_and_those_that_are_over_do_not_count() -> None:
    given = realtime.openings(DAILY, [], NOW)
    over = span(NOW - timedelta(hours=6), NOW)
    assert realtime.openings(DAILY, given[:ENOUGH], NOW) == given[:ENOUGH]
    assert realtime.openings(DAILY, [over, *given[:ENOUGH]], NOW) == [over, *given[:ENOUGH]]
    assert realtime.openings(DAILY, [over, *given[: ENOUGH - 1]], NOW) == given


def test_an_opening_begun_otherwise_is_the_same_from_now_on() -> None:
    """Who asked while it was open knows another start than who asked before."""
    now = NOW.replace(day=3, hour=7)
    given = realtime.openings(DAILY, [], now)
    begun = [EnforcedSpan("2026-03-03T06:30:00Z", given[0].end), *given[1:]]
    assert realtime.openings(DAILY, begun, now) == begun
    later = [EnforcedSpan("2026-03-03T07:30:00Z", given[0].end), *given[1:]]
    assert realtime.openings(DAILY, later, now) == given


def test_spans_stay_as_they_are_until_they_run_short() -> None:
    given = realtime.openings(DAILY, [], NOW)
    assert len(given) == AHEAD
    changes = 0
    for day in range(60):
        now = NOW + timedelta(days=day)
        after = realtime.openings(DAILY, given, now)
        changes += after != given
        given = after
        ahead = [one for one in given if one.end and datetime.fromisoformat(one.end) > now]
        assert len(ahead) >= ENOUGH
    assert changes == 3


def test_another_window_replaces_them_at_once() -> None:
    given = realtime.openings(DAILY, [], NOW)
    later = Calendar(WindowSpec(schedules=[WindowSchedule(start="07:00", duration="3h")]))
    assert realtime.openings(later, given, NOW)[0].start == "2026-03-03T07:00:00Z"


def test_an_opening_that_is_under_way_is_no_news() -> None:
    given = realtime.openings(DAILY, [], NOW)
    assert realtime.openings(DAILY, given, NOW.replace(day=3, hour=7)) == given
    always = Calendar(WindowSpec(always=True))
    endless = realtime.openings(always, [], NOW)
    assert [one.end for one in endless] == [None]
    assert realtime.openings(always, endless, NOW + timedelta(days=100)) == endless


def test_a_window_that_never_opens_again_is_no_news_either() -> None:
    past = Calendar(WindowSpec(always=True, valid_until="2026-01-01T00:00:00Z"))
    assert realtime.openings(past, [], NOW) == []
    known = [span(NOW - timedelta(days=2), NOW - timedelta(days=1))]
    assert realtime.openings(past, known, NOW) == known


def test_a_plan_is_of_what_is_declared_and_not_of_when_it_is_open() -> None:
    def hashed(operation: Operation = SSHD, window: str = "3h", **more: Any) -> str:
        chosen = more.get("chosen")
        owner = maintenance(operation, paused=more.get("paused", False))
        spans = [span(NOW + timedelta(days=len(window)), None)]
        made = realtime.wanted(owner, operation, {}, chosen or LabelSelector(), spans)
        spec = WindowSpec(schedules=[WindowSchedule(start="06:00", duration=window)])
        return realtime.plan_hash(owner, {operation.name: made}, spec)

    suspended = msgspec.structs.replace(SSHD, suspend=True)
    assert hashed() == hashed(paused=True) == hashed(suspended)
    other = Operation(
        name="sshd", type="realtime", config_set=RealtimeSet(files=[File(path="/etc/x", content="y")])
    )
    for change in (
        hashed(other),
        hashed(msgspec.structs.replace(SSHD, name="ssh")),
        hashed(chosen=LabelSelector(match_labels={"role": "web"})),
        hashed(window="4h"),
    ):
        assert change != hashed()


def test_what_is_shut_keeps_what_it_declares() -> None:
    made = realtime.wanted(maintenance(SSHD), SSHD, {}, LabelSelector(), [span(NOW, None)])
    shut = realtime.shut(made)
    assert shut.spec.enforcement is not None
    assert (shut.spec.enforcement.openings, shut.spec.files) == ([], made.spec.files)
    assert shut.spec.enforcement.window == "NodeMaintenance nights"
