"""Gates of health of a rollout: whom they are about, what counts as an answer, and from when on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.common.rollout import PROGRESSING, SOAKING, UNDOING, WAITING, RolloutStatus
from nodemanager.api.maintenance.health_gates import HealthGate, HttpGate
from nodemanager.controllers.disruption.nodes import Node, NodeCondition, NodeStatus
from nodemanager.controllers.rollouts.health import RolloutHealth, is_asked_for, proof_since
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.questions import GateAnswer, Question
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.rollout.deciding import decide
from nodemanager.fleet.rollout.gates import RolloutGates, WindowGate
from nodemanager.fleet.rollout.looking import RolloutLook
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from support.rollout_decisions import NOW as BEGIN
from support.rollout_decisions import STEP, fleet, rollout, status

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
SHOP, OWN = HttpGate(url="http://shop/"), HttpGate(url="http://$(host)/")
EVER = datetime.max.replace(tzinfo=UTC)


def host(name: str, ready: str = "True") -> ManagedNode:
    told = Condition(type="Ready", status=ready, reason="ApplyFailed", message="web: no")
    return ManagedNode(metadata=ObjectMeta(name=name), status=ManagedNodeStatus(conditions=[told]))


def health(
    *gates: HealthGate,
    since: datetime | None = None,
    refused: str = "",
    hosts: Sequence[ManagedNode] | None = None,
) -> RolloutHealth:
    node = Node(status=NodeStatus(conditions=[NodeCondition(type="Ready", status="False")]))
    about = [host("a"), host("b", "False")] if hosts is None else hosts
    return RolloutHealth(gates, "x", about, {"a": node}.get, refused, since)


def test_one_question_for_all_hosts_and_one_for_each_that_has_the_change() -> None:
    asked = list(health(HealthGate(http=SHOP), HealthGate(http=OWN), HealthGate(ready=True)).questions())
    assert asked == [SHOP, HttpGate(url="http://a/"), HttpGate(url="http://b/")]


@pytest.mark.parametrize(
    ("gate", "reason", "said"),
    [
        (HealthGate(ready=True), "GateFails", "node/a: not Ready"),
        (HealthGate(config_sets_hold=True, name="all"), "GateFails", "all: managednode/b: web: no"),
        (HealthGate(http=SHOP), "GateNotAsked", "http http://shop/: not asked yet"),
        (
            HealthGate(http=HttpGate(url="http://u:p@x/")),
            "GateInvalid",
            "health[0].http.url: must have",
        ),
    ],
)
def test_what_does_not_hold_is_named(gate: HealthGate, reason: str, said: str) -> None:
    found = health(gate).finding({}, NOW)
    assert found is not None
    assert found.reason == reason
    assert found.said.startswith(said)
    assert found.patience == (0 if reason == "GateInvalid" else 600)


def test_nodes_that_cannot_be_read_are_not_taken_for_ready() -> None:
    found = health(HealthGate(ready=True), refused="nodes is forbidden").finding({}, NOW)
    assert found is not None
    assert found.reason == "GateForbidden"


def test_only_gates_about_nodes_want_them_to_be_read() -> None:
    found = health(HealthGate(http=SHOP), refused="nodes is forbidden").finding({SHOP: GateAnswer(NOW)}, NOW)
    assert found is None


def test_a_gate_that_cannot_be_asked_is_wrong_whatever_was_answered() -> None:
    wrong = HttpGate(url="http://u:p@x/")
    found = health(HealthGate(http=wrong)).finding({wrong: GateAnswer(NOW, "answered 401")}, NOW)
    assert found is not None
    assert found.reason == "GateInvalid"


def test_a_question_is_called_as_people_call_its_gate() -> None:
    named = health(HealthGate(http=SHOP, name="the shop"))
    found = named.finding({SHOP: GateAnswer(NOW, "answered 500, not 200")}, NOW)
    assert found is not None
    assert found.said == "the shop: answered 500, not 200"


def test_a_no_is_worth_more_than_no_answer() -> None:
    both = health(HealthGate(http=SHOP), HealthGate(http=HttpGate(url="http://db/"), timeout="1m"))
    no = GateAnswer(NOW, "answered 500, not 200")
    lost = GateAnswer(NOW, "no answer within 5 s", Reason.GATE_UNANSWERED)
    found = both.finding({SHOP: lost, HttpGate(url="http://db/"): no}, NOW)
    assert found is not None
    assert (found.reason, found.patience) == ("GateFails", 60)


def test_a_yes_counts_for_a_moment_and_for_as_long_as_many_hosts_need_to_be_asked() -> None:
    begun, first = health(HealthGate(http=SHOP)), health(HealthGate(http=SHOP), hosts=[])
    for one, seconds, holds in ((first, 9, True), (first, 11, False), (begun, 59, True), (begun, 61, False)):
        found = one.finding({SHOP: GateAnswer(NOW)}, NOW + timedelta(seconds=seconds))
        assert (found is None) == holds, seconds
    no = begun.finding({SHOP: GateAnswer(NOW, "answered 500, not 200")}, NOW + timedelta(seconds=61))
    assert no is not None
    assert no.reason == "GateFails"  # until it is asked again


def test_a_first_stage_with_more_gates_than_are_asked_at_once_can_begin() -> None:
    """The last ones are asked when the first have answered, each within its seconds."""
    shops = [HttpGate(url=f"http://shop/{number}") for number in range(8)]
    answers: dict[Question, GateAnswer] = {
        one: GateAnswer(NOW + timedelta(seconds=5 * (place // 4))) for place, one in enumerate(shops)
    }
    for count, holds in ((8, True), (4, False)):
        first = health(*(HealthGate(http=one) for one in shops[:count]), hosts=[])
        assert (first.finding(answers, NOW + timedelta(seconds=10.5)) is None) == holds


def test_what_a_gate_said_of_a_host_in_an_earlier_rollout_does_not_stop_a_soak() -> None:
    """A host that comes back in a soak has the change at once, and is asked about after that."""
    soaks = RolloutStatus(phase=SOAKING, reason="Soaking", stage=1, since="2026-11-16T06:00:00Z")
    asked = health(HealthGate(http=OWN), since=proof_since(soaks), hosts=[host("a")])
    for age, reason in ((300, "GateNotAsked"), (0, "GateFails")):
        old = GateAnswer(NOW - timedelta(seconds=age), "answered 500, not 200")
        found = asked.finding({HttpGate(url="http://a/"): old}, NOW + timedelta(seconds=9))
        assert found is not None
        assert found.reason == reason


@pytest.mark.parametrize("other", [Reason.GATE_BEFORE, Reason.GATE_UNANSWERED])
def test_a_gate_that_says_no_or_nothing_in_turns_stops_it_after_its_timeout(other: Reason) -> None:
    here, known, asked = status(PROGRESSING), None, health(HealthGate(http=SHOP), hosts=[host("a")])
    for second in range(0, 1200, 10):
        now = BEGIN + timedelta(seconds=second)
        known = GateAnswer(now, "answered 500", other if second % 20 else Reason.GATE_BEFORE).following(known)
        gates = RolloutGates(health=asked.finding({SHOP: known}, now))
        here = decide(rollout(), here, fleet("h", 20), RolloutLook(now, gates=gates)).status
        if here.phase == UNDOING:
            break
    assert (here.phase, second) == (UNDOING, 600)


def test_a_no_after_a_long_time_without_an_answer_has_its_timeout() -> None:
    """Such as from a Prometheus that is there again, and has no results yet."""
    lost = GateAnswer(NOW, "connection refused", Reason.GATE_UNANSWERED).following(None)
    again = GateAnswer(NOW + timedelta(seconds=20), "no result").following(lost)
    assert (lost.no_since, again.no_since) == (None, NOW + timedelta(seconds=20))
    later = GateAnswer(NOW + timedelta(seconds=90), "no result").following(again)
    assert later.no_since == later.asked  # nobody asked in between
    assert GateAnswer(later.asked).following(later).no_since is None


def test_what_was_asked_before_hosts_were_healthy_proves_nothing() -> None:
    one = health(HealthGate(http=SHOP), since=NOW)
    for why in ("", "answered 500, not 200"):
        found = one.finding({SHOP: GateAnswer(NOW - timedelta(seconds=1), why)}, NOW)
        assert found is not None
        assert found.reason == "GateNotAsked"
    assert one.finding({SHOP: GateAnswer(NOW)}, NOW) is None


@pytest.mark.parametrize(
    ("phase", "reason", "stage", "wanted"),
    [
        (WAITING, "GateNotAsked", 0, None),
        (SOAKING, "Soaking", 1, NOW - timedelta(minutes=1)),  # answers of before let it begin
        (PROGRESSING, "HostsUnproven", 1, EVER),
        (WAITING, "HostsSilent", 1, EVER),
        (WAITING, "GateNotAsked", 1, NOW + timedelta(seconds=1)),
        (WAITING, "GateFails", 1, None),  # it is the answer itself
        (WAITING, "WindowClosed", 0, None),
        (WAITING, "WindowClosed", 1, NOW + timedelta(seconds=1)),
        (WAITING, "BudgetSpent", 1, NOW + timedelta(seconds=1)),
    ],
)
def test_when_a_proof_begins(phase: str, reason: str, stage: int, wanted: datetime | None) -> None:
    here = RolloutStatus(phase=phase, reason=reason, stage=stage, since="2026-11-16T06:00:00Z")
    assert proof_since(here) == wanted
    if stage == 0:  # the first stage has grown since, and some hosts have the change
        some = msgspec.structs.replace(here, threshold=1)
        assert proof_since(some) == NOW + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("phase", "reason", "begun", "asked"),
    [
        (SOAKING, "Soaking", True, True),
        (WAITING, "GateFails", False, True),
        (WAITING, "GateForbidden", True, True),
        (WAITING, "WindowClosed", False, False),
        (WAITING, "WindowClosed", True, True),
        (PROGRESSING, "HostsUnproven", True, False),
        (UNDOING, "HostsReturning", True, False),
    ],
)
def test_gates_are_asked_while_their_answers_matter(
    phase: str, reason: str, begun: bool, asked: bool
) -> None:
    """While something else keeps the first hosts from the change, there is nothing to ask about."""
    here = RolloutStatus(phase=phase, reason=reason, threshold=1 if begun else 0)
    assert is_asked_for(here) is asked


def test_a_part_that_waits_for_something_else_is_not_told_anew_at_every_answer() -> None:
    """Each time that would be a write of the set to every agent; and no answer is missed meanwhile."""
    given = rollout(stages=["5"], max_unavailable=1)
    window = WindowGate("nights", WindowView(opens_at=BEGIN + timedelta(hours=1)))
    for shut, worked_on, reason in ((window, "", "WindowClosed"), (None, "maintenance x", "BudgetSpent")):
        hosts = [one._replace(away=worked_on) if one.name == "h9" else one for one in fleet("h", 20)]
        here, told = status(PROGRESSING), list[str]()
        answers: dict[Question, GateAnswer] = {}
        for second in range(150):
            now = BEGIN + timedelta(seconds=second)
            asked = health(HealthGate(http=SHOP), since=proof_since(here), hosts=[host("a")])
            gates = RolloutGates(shut if second < 120 else None, asked.finding(answers, now))
            seen = hosts if second < 120 else fleet("h", 20)
            new = decide(given, here, seen, RolloutLook(now, gates=gates)).status
            told += [new.reason] if new.reason != here.reason or new.since != here.since else []
            here = new
            if second % 10 == 0 and is_asked_for(here):
                answers = {SHOP: GateAnswer(now)}
            if here.threshold > STEP:
                break
        assert (told, second) == ([reason, "HostsUnproven"], 120)


@pytest.mark.parametrize(
    "shut",
    [
        RolloutGates(WindowGate("nights", WindowView(opens_at=BEGIN + timedelta(days=1)))),
        RolloutGates(unapproved="4f1c09d2ab77"),
        RolloutGates(unrecorded="the audit log cannot be relied on: it is behind"),
    ],
)
def test_a_gate_that_says_no_stops_a_part_that_waits_for_something_else(shut: RolloutGates) -> None:
    """Whatever keeps further hosts from the change: some have it."""
    given, here = rollout(stages=["5"], max_unavailable=1), status(PROGRESSING)
    answers: dict[Question, GateAnswer] = {}
    for second in range(0, 1200, 10):
        now = BEGIN + timedelta(seconds=second)
        asked = health(HealthGate(http=SHOP), since=proof_since(here), hosts=[host("a")])
        gates = shut._replace(health=asked.finding(answers, now))
        here = decide(given, here, fleet("h", 20), RolloutLook(now, gates=gates)).status
        if is_asked_for(here):
            answers = {SHOP: GateAnswer(now, "answered 500", Reason.GATE_BEFORE).following(answers.get(SHOP))}
        if here.phase == UNDOING:
            break
    assert here.phase == UNDOING
