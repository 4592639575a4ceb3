"""What comes next for a host that was begun with: every transition, by the evidence that it needs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.fleet.maintenance import claims, visits
from nodemanager.fleet.maintenance.claims import Claim, State, Unreadable
from nodemanager.fleet.maintenance.facts import GateFinding, HostFacts, HostHealth, NodeFacts, TaskFacts
from nodemanager.fleet.maintenance.reasons import REMEDIES, Reason
from nodemanager.fleet.maintenance.states import STATES, Move, Visit, VisitHold, VisitRules

NOW = datetime(2026, 11, 16, 6, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
RULES = VisitRules(cordons=True, drains=True)
FIELDS = [one.encode_name for one in msgspec.structs.fields(Claim)]


def claim(state: State, **fields: Any) -> Claim:
    made = Claim(
        maintenance="monday", uid="m-1", host_uid="h-1", run="r1", attempt=0, state=state,
        since=NOW - 5 * MINUTE, begun=NOW - 10 * MINUTE, expires=NOW + 60 * MINUTE,
        task="web1-0123456789", boot_id="one",
    )  # fmt: skip
    return msgspec.structs.replace(made, **fields)


def visit(state: State, **fields: Any) -> Visit:
    """Return a visit; fields of host, health and claim are told apart by their names."""
    held = fields.pop("claim", None) or claim(state)
    health = HostHealth(**{name: fields.pop(name) for name in ("alive", "boot_id", "heard", "failing_after")
                           if name in fields})  # fmt: skip
    host = HostFacts("web1", "h-1", NOW - timedelta(days=1), health=health, node=fields.pop("node", None))
    return Visit(held, host, fields.pop("rules", RULES), fields.pop("now", NOW), **fields)


def moved(one: Visit) -> Claim:
    found = visits.advance(one)
    assert isinstance(found, Move), found
    return found.claim


def held(one: Visit) -> VisitHold:
    found = visits.advance(one)
    assert isinstance(found, VisitHold), found
    return found


def ends(one: Visit) -> tuple[State, State | None, Reason | None]:
    claimed = moved(one)
    return claimed.state, claimed.end, claimed.reason


def task(phase: str = "Running", **fields: Any) -> TaskFacts:
    return TaskFacts("web1-0123456789", phase, **{"taken": True, **fields})


def test_a_task_that_nobody_took_before_the_window_closed_is_no_failure() -> None:
    late = task("Expired", taken=False, windowed=True)
    assert ends(visit(State.WORKING, task=late)) == (State.RETURNING, State.UNDONE, Reason.TIME_TOO_SHORT)
    never = task("Expired", taken=False)
    assert ends(visit(State.WORKING, task=never)) == (State.RETURNING, State.UNDONE, Reason.TASK_EXPIRED)


def test_claim_6_every_state_and_every_reason_says_what_is_waited_for() -> None:
    assert set(STATES) == {state for state in State if not state.is_end}
    assert all(REMEDIES[rules.reason] for rules in STATES.values())
    assert set(REMEDIES) == set(Reason)


def test_a_host_that_is_no_node_begins_with_the_work() -> None:
    host = visit(State.WORKING).host
    assert visits.first_state(host, RULES) is State.WORKING
    node = HostFacts("web1", "h-1", NOW, node=NodeFacts())
    assert visits.first_state(node, RULES) is State.CORDONING
    assert visits.first_state(node, VisitRules()) is State.WORKING


def test_a_node_is_drained_once_it_is_cordoned() -> None:
    assert held(visit(State.CORDONING, node=NodeFacts())).reason is Reason.CORDONING
    assert moved(visit(State.CORDONING, node=NodeFacts(cordoned=True, pods=3))).state is State.DRAINING
    only = VisitRules(cordons=True)
    assert moved(visit(State.CORDONING, node=NodeFacts(cordoned=True), rules=only)).state is State.WORKING
    assert moved(visit(State.CORDONING, node=None)).state is State.WORKING


def test_a_drain_names_what_keeps_it_and_then_yields() -> None:
    kept = NodeFacts(cordoned=True, pods=1, blocked_by="poddisruptionbudget/web")
    assert held(visit(State.DRAINING, node=kept)).object == "poddisruptionbudget/web"
    assert moved(visit(State.DRAINING, node=NodeFacts(cordoned=True))).state is State.WORKING


@pytest.mark.parametrize(
    ("policy", "end"),
    [
        ("skip", (State.RETURNING, State.UNDONE, Reason.DRAIN_TIMED_OUT)),
        ("stop", (State.RETURNING, State.HALTED, Reason.DRAIN_TIMED_OUT)),
    ],
)
def test_a_drain_that_takes_too_long_ends_as_it_is_told(policy: str, end: tuple[Any, ...]) -> None:
    rules = VisitRules(cordons=True, drains=True, drain_timeout=5 * MINUTE, on_drain_timeout=policy)
    assert ends(visit(State.DRAINING, node=NodeFacts(cordoned=True, pods=1), rules=rules)) == end


def test_a_drain_may_wait_until_the_visit_has_to_end() -> None:
    rules = VisitRules(cordons=True, drains=True, drain_timeout=MINUTE, on_drain_timeout="wait")
    stuck = NodeFacts(cordoned=True, pods=1)
    assert held(visit(State.DRAINING, node=stuck, rules=rules)).reason is Reason.DRAINING
    late = visit(State.DRAINING, node=stuck, rules=rules, now=NOW + timedelta(hours=2))
    assert ends(late) == (State.RETURNING, State.UNDONE, Reason.DEADLINE_EXCEEDED)


def test_no_work_begins_when_the_window_closed_during_the_drain() -> None:
    shut = visit(State.DRAINING, node=NodeFacts(cordoned=True), may_work=False)
    assert ends(shut) == (State.RETURNING, State.UNDONE, Reason.TIME_TOO_SHORT)


def test_a_task_is_remembered_once_it_was_seen_so_that_a_deleted_one_is_not_made_again() -> None:
    assert held(visit(State.WORKING)).reason is Reason.TASK_NOT_TAKEN
    seen = moved(visit(State.WORKING, task=task()))
    assert seen.seen
    assert seen.state is State.WORKING
    lost = visit(State.WORKING, claim=seen)
    assert ends(lost) == (State.RETURNING, State.HALTED, Reason.TASK_LOST)


@pytest.mark.parametrize(
    ("phase", "end"),
    [
        ("Failed", (State.RETURNING, State.HALTED, Reason.TASK_FAILED)),
        ("Undone", (State.RETURNING, State.UNDONE, Reason.TASK_UNDONE)),
        ("Halted", (State.HALTED, None, Reason.TASK_HALTED)),
        ("Expired", (State.RETURNING, State.HALTED, Reason.TASK_EXPIRED)),
        ("Refused", (State.RETURNING, State.UNDONE, Reason.TASK_REFUSED)),
        ("Succeeded", (State.PROVING, None, None)),
    ],
)
def test_how_a_task_ends_decides_how_the_visit_ends(phase: str, end: tuple[Any, ...]) -> None:
    assert ends(visit(State.WORKING, task=task(phase))) == end
    assert ends(visit(State.REBOOTING, task=task(phase))) == end


def test_a_task_that_the_end_of_the_window_cut_off_is_undone_where_that_is_wanted() -> None:
    rules = VisitRules(can_undo=True, undo_expired=True)
    found = moved(visit(State.WORKING, task=task("Expired"), rules=rules))
    assert (found.state, found.reason) == (State.UNDOING, Reason.TASK_EXPIRED)


def test_a_restart_of_the_agent_is_no_reboot() -> None:
    same = visit(State.PROVING, task=task("Succeeded", rebooted=True), boot_id="one")
    assert "old boot" in held(same).object
    booted = visit(State.PROVING, task=task("Succeeded", rebooted=True), boot_id="two")
    assert ends(booted) == (State.DONE, None, Reason.SUCCEEDED)
    ours = claim(State.PROVING, cordoned=True)
    booted = visit(State.PROVING, claim=ours, task=task("Succeeded", rebooted=True), boot_id="two")
    assert ends(booted) == (State.RETURNING, State.DONE, Reason.SUCCEEDED), "its Node is given back first"


def test_only_what_is_newer_than_the_order_proves_anything() -> None:
    before = visit(State.PROVING, heard=NOW - 6 * MINUTE)
    assert "not heard of since" in held(before).object
    assert moved(visit(State.PROVING, heard=NOW - 4 * MINUTE)).state is State.DONE


def test_a_host_that_is_not_proven_in_time_is_undone() -> None:
    late = {"failing_after": GateFinding("http https://web1/"), "now": NOW + 6 * MINUTE}
    undo = visit(State.PROVING, rules=VisitRules(can_undo=True), **late)
    assert ends(undo) == (State.UNDOING, None, Reason.NOT_PROVEN)
    assert ends(visit(State.PROVING, **late)) == (State.RETURNING, State.HALTED, Reason.NOT_PROVEN)
    gone = visit(State.UNDOING, claim=claim(State.UNDOING, reason=Reason.NOT_PROVEN), undo=task("Succeeded"))
    assert ends(gone) == (State.RETURNING, State.UNDONE, Reason.NOT_PROVEN)
    assert ends(visit(State.UNDOING, undo=task("Failed"))) == (State.HALTED, None, Reason.TASK_HALTED)


def test_a_host_soaks_and_one_that_fails_meanwhile_is_proven_anew() -> None:
    rules = VisitRules(soak=10 * MINUTE)
    assert moved(visit(State.PROVING, rules=rules)).state is State.SOAKING
    assert held(visit(State.SOAKING, rules=rules)).next_check == NOW + 5 * MINUTE
    assert moved(visit(State.SOAKING, rules=rules, alive=False)).state is State.PROVING
    assert moved(visit(State.SOAKING, rules=rules, now=NOW + 5 * MINUTE)).state is State.DONE


def test_a_gate_that_nobody_asked_proves_nothing_and_does_not_begin_the_soak_anew() -> None:
    unasked = {"failing_after": GateFinding("http x: not asked yet", Reason.GATE_NOT_ASKED)}
    assert held(visit(State.PROVING, **unasked)).object == "http x: not asked yet"
    rules = VisitRules(soak=10 * MINUTE)
    over = held(visit(State.SOAKING, rules=rules, now=NOW + 6 * MINUTE, **unasked))
    assert (over.reason, over.object) == (Reason.SOAKING, "http x: not asked yet")


def test_a_host_that_falls_silent_keeps_its_cordon_and_is_given_back_when_it_is_heard() -> None:
    over = NOW + timedelta(hours=2)
    working = claim(State.WORKING, seen=True, cordoned=True)
    lost = moved(visit(State.WORKING, claim=working, task=task(), alive=False, now=over))
    assert (lost.state, lost.reason) == (State.HALTED, Reason.HOST_LOST)
    back = visit(State.HALTED, claim=lost, task=task("Succeeded"), now=over)
    assert moved(back).state is State.RETURNING


def test_nobody_elses_cordon_is_waited_for_or_taken_away() -> None:
    mine = claim(State.RETURNING, cordoned=True, end=State.DONE)
    assert (
        held(visit(State.RETURNING, claim=mine, node=NodeFacts(cordoned=True, ours=True))).reason
        is Reason.RETURNING
    )
    for node in (None, NodeFacts(), NodeFacts(cordoned=True, ours=False)):
        assert moved(visit(State.RETURNING, claim=mine, node=node)).state is State.DONE
    theirs = msgspec.structs.replace(mine, cordoned=False)
    assert (
        moved(visit(State.RETURNING, claim=theirs, node=NodeFacts(cordoned=True, ours=True))).state
        is State.DONE
    )


def test_a_claim_survives_being_written_down() -> None:
    made = claim(State.RETURNING, end=State.UNDONE, reason=Reason.DRAIN_TIMED_OUT, cordoned=True)
    assert claims.decode(claims.encode(made)) == made
    assert len(claims.encode(made)) < claims.MAX_TEXT / 2
    assert claims.decode(None) is None


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"state": "Flying"}', "x" * 3000, "null", "7", '{"maintenance": 3}'],
)
def test_what_is_no_claim_counts_as_held_and_says_why(text: str) -> None:
    found = claims.decode(text)
    assert isinstance(found, Unreadable)
    assert found.holds
    assert found.why
    assert found.reason is Reason.CLAIM_UNREADABLE


@given(
    st.one_of(
        st.text(),
        st.dictionaries(
            st.sampled_from(FIELDS), st.one_of(st.integers(), st.text(), st.none(), st.booleans())
        ).map(
            lambda found: msgspec.json.encode({**msgspec.to_builtins(claim(State.WORKING)), **found}).decode()
        ),
    )
)
def test_whatever_somebody_writes_there_is_read_without_an_error(text: str) -> None:
    found = claims.decode(text)
    assert found is None or found.holds in (True, False)


@pytest.mark.parametrize("field", ["since", "begun", "expires"])
def test_a_claim_with_a_time_of_no_zone_is_none(field: str) -> None:
    bare = claim(State.WORKING, **{field: NOW.replace(tzinfo=None)})
    assert claims.decode(claims.encode(bare)) == Unreadable("it has a time without a time zone")


def test_a_claim_holds_its_host_until_it_has_ended() -> None:
    ended = {State.DONE, State.UNDONE, State.HALTED}
    assert {state for state in State if state.is_end} == ended
    assert {state for state in State if not claim(state).holds} == ended


def test_an_annotation_is_read_up_to_a_length_and_an_empty_one_is_none() -> None:
    text = claims.encode(claim(State.WORKING))
    assert claims.decode(text.ljust(claims.MAX_TEXT)) == claim(State.WORKING)
    said = f"it has {claims.MAX_TEXT + 1} characters; at most {claims.MAX_TEXT} are read"
    assert claims.decode(text.ljust(claims.MAX_TEXT + 1)) == Unreadable(said)
    assert claims.decode("") is None
    returning = claims.decode(claims.encode(claim(State.RETURNING)))
    assert returning == Unreadable("it is Returning, and does not say how it ends")
    assert claims.decode(claims.encode(claim(State.PROVING))) == claim(State.PROVING)


def test_what_a_new_claim_does_not_say_is_not_so() -> None:
    made = claims.decode(claims.encode(claim(State.WORKING)))
    assert isinstance(made, Claim)
    assert (made.seen, made.cordoned, made.end, made.reason) == (False, False, None, None)


def test_a_claim_that_returns_without_an_end_or_without_a_zone_is_none() -> None:
    assert isinstance(claims.decode(claims.encode(claim(State.RETURNING))), Unreadable)
    bare = claim(State.WORKING, since=NOW.replace(tzinfo=None))
    assert isinstance(claims.decode(claims.encode(bare)), Unreadable)


def test_the_name_of_a_task_is_the_same_whenever_it_is_asked_and_another_for_another_try() -> None:
    name = claims.task_name("web1", "m", "r", "h", 0)
    assert name == claims.task_name("web1", "m", "r", "h", 0)
    assert name.startswith("web1-")
    others = {
        claims.task_name("web1", *other)
        for other in (("m", "r", "h", 1), ("m", "s", "h", 0), ("m", "r", "g", 0))
    }
    assert len(others | {name}) == 4
    assert len(claims.task_name("w" * 253, "m", "r", "h", 0)) <= 253
    assert claims.task_name("w" * 199 + "-x.example", "m", "r", "h", 0).startswith("w" * 199 + "-")
    assert "--" not in claims.task_name("w" * 199 + "-x.example", "m", "r", "h", 0)
    assert len(name) == len("web1-") + 10


def test_a_host_that_was_lost_and_comes_back_is_given_back_once() -> None:
    lost = claim(State.HALTED, reason=Reason.HOST_LOST, cordoned=True)
    back = moved(
        visit(State.HALTED, claim=lost, node=NodeFacts(cordoned=True, ours=True), task=task("Failed"))
    )
    assert (back.state, back.end) == (State.RETURNING, State.HALTED)
    given = moved(visit(State.RETURNING, claim=back, node=NodeFacts(), task=task("Failed")))
    assert (given.state, given.cordoned) == (State.HALTED, False)
    held(visit(State.HALTED, claim=given, node=NodeFacts(), task=task("Failed")))
    ours = NodeFacts(cordoned=True, ours=True)
    late = moved(visit(State.HALTED, claim=lost, node=ours, task=None))
    assert (late.state, late.end) == (State.RETURNING, State.HALTED), "its task was deleted after its end"
    held(visit(State.HALTED, claim=lost, node=ours, task=task()))


def test_no_work_begins_after_the_window_closed_also_if_it_was_about_to() -> None:
    assert ends(visit(State.WORKING, may_work=False)) == (
        State.RETURNING,
        State.UNDONE,
        Reason.TIME_TOO_SHORT,
    )
    held(visit(State.WORKING, claim=claim(State.WORKING, seen=True), task=task(), may_work=False))
