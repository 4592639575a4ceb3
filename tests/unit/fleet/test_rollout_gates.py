"""What keeps further hosts from a change: they wait, those that have it are watched, and may return."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from nodemanager.api.common.configsetrevision import ConfigSetRevisionSpec
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.common.node_conditions import ALIVE
from nodemanager.api.common.node_upgrades import UpcomingUpgrades
from nodemanager.api.common.rollout import (
    PAUSE,
    PAUSED,
    PROGRESSING,
    SCALE,
    SOAKING,
    STABLE,
    UNDOING,
    WAITING,
    RolloutApproval,
    ThresholdTurn,
)
from nodemanager.api.maintenance.maintenanceapproval import MaintenanceApprovalSpec
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.rollout import approving, visitors
from nodemanager.fleet.rollout.deciding import decide
from nodemanager.fleet.rollout.facts import RolloutHost
from nodemanager.fleet.rollout.gates import (
    ASK_SECONDS,
    LOOK_SECONDS,
    HealthFinding,
    Obstacle,
    RolloutGates,
    WindowGate,
    obstacle,
)
from nodemanager.fleet.rollout.looking import RolloutLook
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from support import rollout_hosts
from support.rollout_decisions import NEW, NOW, fleet, moved, rollout, said, status

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
SHUT = RolloutGates(WindowGate("nights", WindowView(opens_at=NOW + MINUTE)))
OPEN = RolloutGates(WindowGate("nights", WindowView(open=True, closes_at=NOW + HOUR)))
UNSEEN = RolloutGates(unapproved="ab" * 32)
LOST = RolloutGates(WindowGate("nights", problem=Obstacle(RolloutReason.WINDOW_NOT_FOUND, "there is none")))


@pytest.mark.parametrize(
    ("view", "words", "again"),
    [
        (WindowView(opens_at=NOW + MINUTE), "is shut: it opens at 2026-01-01T12:01:00Z", 60),
        (WindowView(opens_at=NOW + HOUR), "is shut: it opens at 2026-01-01T13:00:00Z", LOOK_SECONDS),
        (WindowView(), "is shut: no opening is in sight", LOOK_SECONDS),
        (
            WindowView(open=True, closes_at=NOW + MINUTE, opens_at=NOW + HOUR, minimum=2 * MINUTE),
            "too little of its time is left: it opens at 2026-01-01T13:00:00Z",
            LOOK_SECONDS,
        ),
    ],
)
def test_a_window_that_is_shut_says_when_it_opens(view: WindowView, words: str, again: float) -> None:
    found = obstacle(RolloutGates(WindowGate("nights", view)), NOW)
    assert found is not None
    assert (found.reason, found.again) == (RolloutReason.WINDOW_CLOSED, again)
    assert words in found.message


def test_a_window_that_is_open_or_not_named_keeps_nobody() -> None:
    assert obstacle(OPEN, NOW) is None
    assert obstacle(RolloutGates(), NOW) is None


@pytest.mark.parametrize("gates", [SHUT, LOST])
def test_the_first_stage_waits(gates: RolloutGates) -> None:
    hosts = fleet("", 20)
    first = decide(rollout(), status(WAITING, moved=0, stage=0), hosts, RolloutLook(NOW, gates=gates))
    assert (said(first)[0], said(first)[2], moved(first, hosts)) == (WAITING, 0, 0)
    assert first.status.reason in (RolloutReason.WINDOW_CLOSED, RolloutReason.WINDOW_NOT_FOUND)
    begun = decide(rollout(), first.status, hosts, RolloutLook(NOW, gates=OPEN))
    assert (begun.status.stage, moved(begun, hosts)) == (1, 1)


def test_a_stage_that_is_proven_goes_on_soaking_until_the_window_opens() -> None:
    """Its soak does not begin anew, however often somebody looks; hosts that fail meanwhile return."""
    hosts, given = fleet("h", 20), rollout(stages=["1", "5"])
    here = status(SOAKING, since=300)
    for _ in range(3):
        waits = decide(given, here, hosts, RolloutLook(NOW, gates=SHUT))
        assert said(waits) == (SOAKING, "WindowClosed", 1)
        assert (waits.status.since, waits.again, moved(waits, hosts)) == (here.since, 60, 1)
        here = waits.status
    assert decide(given, here, hosts, RolloutLook(NOW, gates=OPEN)).status.stage == 2
    failed = decide(given, here, fleet("f", 20), RolloutLook(NOW, gates=SHUT))
    assert said(failed) == (UNDOING, "HostsReturning", 0)


def test_a_stage_in_parts_waits_between_them_and_soaks_only_after_the_last() -> None:
    hosts, given = fleet("h", 20), rollout(stages=["5"], max_unavailable=1)
    waits = decide(given, status(SOAKING, since=9999), hosts, RolloutLook(NOW, gates=SHUT))
    assert said(waits) == (WAITING, "WindowClosed", 1)
    assert moved(waits, hosts) == 1
    fewer = decide(given, waits.status, fleet("h", 1), RolloutLook(NOW, gates=SHUT))  # the others left
    assert (said(fewer)[0], fewer.again) == (SOAKING, 300)


def test_hosts_that_are_not_healthy_are_named_before_the_window() -> None:
    given = rollout(stages=["5"], max_unavailable=2)
    waits = decide(given, status(WAITING, moved=2), fleet("hu", 20), RolloutLook(NOW, gates=SHUT))
    assert said(waits)[1] == RolloutReason.HOSTS_UNPROVEN
    silent = decide(given, status(WAITING, moved=2), fleet("aa", 20), RolloutLook(NOW, gates=SHUT))
    assert (said(silent)[1], silent.again) == (RolloutReason.HOSTS_SILENT, 60)


# Gates of health

NO = RolloutGates(health=HealthFinding(RolloutReason.GATE_FAILS, "errors: 5 of 5", 600))
SILENT = RolloutGates(health=HealthFinding(RolloutReason.GATE_UNANSWERED, "errors: no answer within 5 s"))


@pytest.mark.parametrize(
    ("phase", "since", "gates", "wanted"),
    [
        (PROGRESSING, 0, NO, (WAITING, "GateFails", 1)),  # a soak begins when it holds
        (PROGRESSING, 0, SILENT, (WAITING, "GateUnanswered", 1)),
        (SOAKING, 10, NO, (UNDOING, "HostsReturning", 0)),
        (SOAKING, 10, SILENT, (SOAKING, "Soaking", 1)),
        (SOAKING, 300, SILENT, (SOAKING, "GateUnanswered", 1)),
        (SOAKING, 300, RolloutGates(), (PROGRESSING, "HostsUnproven", 2)),
    ],
)
def test_a_gate_of_health_and_a_stage_whose_hosts_are_healthy(
    phase: str, since: float, gates: RolloutGates, wanted: tuple[str, str, int]
) -> None:
    hosts = fleet("h", 20)
    decision = decide(
        rollout(stages=["1", "5"]), status(phase, since=since), hosts, RolloutLook(NOW, gates=gates)
    )
    assert said(decision) == wanted
    if wanted[1].startswith("Gate"):
        assert (moved(decision, hosts), decision.again) == (1, ASK_SECONDS)


def test_a_gate_that_never_holds_stops_it_after_its_timeout_and_one_without_answer_does_not() -> None:
    hosts, given = fleet("h", 20), rollout(on_failure=PAUSE)
    for gates, reason in ((NO, "GateFails"), (SILENT, "GateUnanswered")):
        for since, stops in ((599, False), (600, gates is NO)):
            here = status(WAITING, since=since, reason=reason)
            found = decide(given, here, hosts, RolloutLook(NOW, gates=gates))
            assert said(found)[:2] == ((PAUSED, "Stopped") if stops else (WAITING, reason))
    assert found.status.since == here.since
    stopped = decide(given, status(SOAKING), hosts, RolloutLook(NOW, gates=NO))
    assert stopped.status.message == "revision 2 failed at gate errors: 5 of 5"


def test_a_gate_is_waited_for_before_the_first_stage_and_before_the_end() -> None:
    begins = status(WAITING, moved=0, stage=0, since=9999)
    for hosts in (fleet("", 20), []):  # what is stable is for all that join
        first = decide(rollout(), begins, hosts, RolloutLook(NOW, gates=NO))
        assert said(first) == (WAITING, "GateFails", 0)
    last = status(SOAKING, moved=2, stage=2, since=300)
    given = rollout(stages=["1", "100%"])
    assert said(decide(given, last, fleet("hh", 2), RolloutLook(NOW, gates=SILENT)))[:2] == (
        SOAKING,
        "GateUnanswered",
    )
    assert decide(given, last, fleet("hh", 2), RolloutLook(NOW, gates=SHUT)).status.phase == STABLE


def test_hosts_that_are_on_their_way_are_not_held_against_a_gate() -> None:
    waits = decide(rollout(), status(PROGRESSING), fleet("u", 20), RolloutLook(NOW, gates=NO))
    assert said(waits) == (PROGRESSING, "HostsUnproven", 1)


def test_a_gate_that_says_no_undoes_nothing_that_nobody_has() -> None:
    """A stage may have begun without any host, for others had taken what maxUnavailable allows."""
    here = status(WAITING, since=9999, moved=0, reason="GateFails")
    given = rollout(stages=["5"], max_unavailable=1)
    waits = decide(given, here, fleet("", 20), RolloutLook(NOW, gates=NO))
    assert said(waits) == (WAITING, "GateFails", 1)
    waits = decide(given, here, visited(fleet("", 20), 7), RolloutLook(NOW, gates=NO))
    assert said(waits) == (WAITING, "BudgetSpent", 1)


@pytest.mark.parametrize(("gates", "reason"), [(SHUT, "WindowClosed"), (UNSEEN, "NotApproved")])
def test_what_has_no_answer_is_not_told_while_something_else_is_waited_for(
    gates: RolloutGates, reason: str
) -> None:
    """So the status is not another one whenever an answer comes, or is old; a no still counts."""
    hosts, given = fleet("h", 20), rollout(stages=["5"], max_unavailable=1)
    here = status(WAITING, since=700, reason=reason)
    for health in (SILENT.health, None):
        waits = decide(given, here, hosts, RolloutLook(NOW, gates=gates._replace(health=health)))
        assert (said(waits), waits.status.since) == ((WAITING, reason, 1), here.since)
    no = decide(given, here, hosts, RolloutLook(NOW, gates=gates._replace(health=NO.health)))
    assert said(no) == (WAITING, "GateFails", 1)
    later = msgspec.structs.replace(no.status, since=here.since)
    assert decide(given, later, hosts, RolloutLook(NOW, gates=NO)).status.phase == UNDOING


# Approvals


@pytest.mark.parametrize(
    ("gates", "wanted"),
    [
        (RolloutGates(), None),
        (RolloutGates(settling=0.5), ("GroupSettling", "the other sets of the group", 0.5)),
        (
            RolloutGates(mismatch="db says 5%", settling=1, unapproved="ab"),
            ("GroupMismatch", "db says 5%", None),
        ),
        (RolloutGates(unrecorded="it is bent", mismatch="x"), ("AuditBroken", "it is bent", None)),
        (RolloutGates(gone=True, unrecorded="x"), ("DefaultGone", "the RolloutPolicy", None)),
        (RolloutGates(unapproved="abcd", window=SHUT.window), ("NotApproved", "an approval of abcd", None)),
    ],
)
def test_the_first_obstacle_is_told(
    gates: RolloutGates, wanted: tuple[str, str, float | None] | None
) -> None:
    found = obstacle(gates, NOW)
    if wanted is None:
        assert found is None
        return
    assert found is not None
    assert (found.reason.value, found.again) == (wanted[0], wanted[2])
    assert wanted[1] in found.message


def test_nobody_takes_what_nobody_approved_and_who_has_it_may_return() -> None:
    waits = decide(
        rollout(), status(WAITING, moved=0, stage=0), fleet("", 20), RolloutLook(NOW, gates=UNSEEN)
    )
    assert said(waits) == (WAITING, "NotApproved", 0)
    assert ("ab" * 32 in waits.status.message, waits.again) == (True, None)
    soaked = status(SOAKING, since=300)
    later = decide(rollout(stages=["1", "5"]), soaked, fleet("h", 20), RolloutLook(NOW, gates=UNSEEN))
    assert said(later) == (SOAKING, "NotApproved", 1)
    failed = decide(rollout(), later.status, fleet("f", 20), RolloutLook(NOW, gates=UNSEEN))
    assert failed.status.phase == UNDOING


def test_an_approval_is_of_one_content_and_of_somebody_else_if_it_has_to_be() -> None:
    digest, other = "ab" * 32, "cd" * 32

    revision = ConfigSetRevisionSpec(config_set="web", digest=digest)

    def approved(given: RolloutApproval, approver: str, hashed: str, name: str = "web") -> bool:
        spec = MaintenanceApprovalSpec(config_set=name, plan_hash=hashed, approver=approver)
        return approving.approves(spec, rollout(approval=given), revision)

    any_user = RolloutApproval(required=True)
    assert approved(any_user, "jane", digest)
    assert not approved(any_user, "jane", other)
    assert not approved(any_user, "jane", digest, "db")
    janes, joes, nobodys = (
        RolloutApproval(required=True, different_user=True, requester=one) for one in ("jane", "joe", "")
    )
    hashed = approving.hash_of(rollout(approval=janes), revision)
    assert approved(janes, "joe", hashed)
    assert not approved(janes, "jane", hashed)
    assert not approved(janes, "joe", digest)
    assert not approved(joes, "jane", hashed)  # what was jane's own does not count now that joe wrote last
    assert not approved(nobodys, "joe", approving.hash_of(rollout(approval=nobodys), revision))


def test_without_a_wish_for_approvals_everybody_may_say_yes_and_nobody_has_to() -> None:
    revision = ConfigSetRevisionSpec(config_set="web", digest="ab" * 32, requester="jane")
    yes = MaintenanceApprovalSpec(config_set="web", plan_hash=revision.digest, approver="jane")
    for given, needed in ((None, False), (RolloutApproval(), False), (RolloutApproval(required=True), True)):
        asked = rollout(approval=given)
        assert approving.is_needed(asked) is needed
        assert approving.requesters(asked, revision) == []
        assert approving.hash_of(asked, revision) == revision.digest
        assert approving.approves(yes, asked, revision)


def test_who_asked_for_a_change_does_not_approve_it_when_somebody_else_changes_the_set() -> None:
    """Not even in advance: what counts is who asked when the revision was made."""
    revision = ConfigSetRevisionSpec(config_set="web", digest="ab" * 32, requester="jane")
    janes, joes = (
        rollout(approval=RolloutApproval(required=True, different_user=True, requester=one))
        for one in ("jane", "joe")
    )
    own = approving.hash_of(janes, revision)
    assert approving.hash_of(joes, revision) == own
    ahead = approving.hash_of(joes, ConfigSetRevisionSpec(config_set="web", digest="ab" * 32))
    for hashed, approver, counts in (
        (ahead, "jane", False), (own, "jane", False), (own, "joe", False), (own, "ann", True)
    ):  # fmt: skip
        yes = MaintenanceApprovalSpec(config_set="web", plan_hash=hashed, approver=approver)
        assert approving.approves(yes, joes, revision) == counts, (hashed, approver)


# What others do to the same hosts


def test_a_host_is_away_while_a_maintenance_or_its_upgrade_is_at_work() -> None:
    claim = Claim("monday", "u", "h", "r", 1, State.WORKING, since=NOW, begun=NOW, expires=NOW)
    ended = msgspec.structs.replace(claim, state=State.DONE)
    for text, words in (
        (claims.encode(claim), "maintenance monday"),
        (claims.encode(ended), ""),
        ("what is this", "some maintenance"),
        ("", ""),
    ):
        node = ManagedNode(metadata=ObjectMeta(annotations={ANNOTATION_VISIT: text}))
        assert visitors.named(node) == words
    upgrading = ManagedNodeStatus(upgrade=UpcomingUpgrades(started_at="2026-01-01T00:00:00Z"))
    assert visitors.named(ManagedNode(status=upgrading)) == "its upgrade"


def visited(hosts: list[RolloutHost], *places: int) -> list[RolloutHost]:
    return [
        one._replace(away="maintenance monday") if number in places else one
        for number, one in enumerate(hosts)
    ]


def test_hosts_that_others_work_on_count_as_unavailable() -> None:
    given, begins = rollout(stages=["5"], max_unavailable=2), status(WAITING, moved=0, stage=0)
    hosts = visited(fleet("", 20), 7, 8)
    begun = decide(given, begins, hosts, RolloutLook(NOW))
    waits = decide(given, begun.status, hosts, RolloutLook(NOW))
    assert said(waits) == (WAITING, "BudgetSpent", 1)
    assert moved(waits, hosts) == 0
    assert "such as h7 (maintenance monday), h8 (maintenance monday)" in waits.status.message
    less = visited(fleet("", 20), 7)
    assert moved(decide(given, waits.status, less, RolloutLook(NOW)), less) == 1
    # Between two parts; one on its way that is worked on as well counts once; without a ceiling nobody does.
    hosts = visited(fleet("h", 20), 7, 8)
    assert said(decide(given, status(SOAKING, since=999), hosts, RolloutLook(NOW))) == (
        WAITING,
        "BudgetSpent",
        1,
    )
    both = decide(given, status(PROGRESSING), visited(fleet("u", 20), 0), RolloutLook(NOW))
    assert moved(both, fleet("u", 20)) == 2
    free = decide(rollout(stages=["5"]), begins, visited(fleet("", 20), 7, 8), RolloutLook(NOW))
    assert moved(free, fleet("", 20)) == 5


def test_a_silent_host_is_not_worked_on_for_ever() -> None:
    """It died in its upgrade: it takes no room of maxUnavailable, and counts as any that fell silent."""
    begun = "2026-01-01T11:00:00Z"
    web, turn = {"role": "web"}, ThresholdTurn(threshold=SCALE, at="2026-01-01T10:00:00Z")
    new = msgspec.structs.replace(NEW, labels=web)
    here = status(PROGRESSING, next=new, turns=[turn], threshold=SCALE)
    upgrading, claim = UpcomingUpgrades(started_at=begun), {ANNOTATION_VISIT: "by somebody"}
    for alive, later, notes, wanted in (
        ("False", timedelta(minutes=59), {}, ("its upgrade", "absent")),
        ("False", HOUR, {}, ("", "lost")),
        ("False", HOUR, claim, ("", "absent")),  # a long maintenance undoes no change
        ("True", HOUR, {}, ("its upgrade", "unproven")),
    ):
        condition = Condition(type=ALIVE, status=alive, last_transition_time=begun)
        told = ManagedNodeStatus(release="6.1", upgrade=upgrading, conditions=[condition])
        meta = ObjectMeta(name="h", uid="u", labels=web, annotations=notes)
        node = ManagedNode(metadata=meta, status=told)
        (one,) = rollout_hosts.of_hosts("web", here, [node], now=NOW - HOUR + later)
        assert (one.away, one.progress) == wanted
