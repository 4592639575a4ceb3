"""What a host proves by what it reports, and which revision is rolled out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from nodemanager.api.common import configsetrevision, enforcement, node_conditions, set_reports
from nodemanager.api.common.acting import Hold
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec, ConfigSetStatus
from nodemanager.api.common.configsetrevision import RESTART, ConfigSetRevision, ConfigSetRevisionSpec
from nodemanager.api.common.managednode import (
    AppliedConfigSet,
    ManagedNode,
    ManagedNodeSpec,
    ManagedNodeStatus,
)
from nodemanager.api.common.rollout import (
    ALL_AT_ONCE,
    PAUSED,
    PROGRESSING,
    SCALE,
    STABLE,
    STAGED,
    UNDOING,
    UNDONE,
    WAITING,
    RevisionRef,
    Rollout,
    RolloutCounts,
    RolloutStatus,
    ThresholdTurn,
)
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.controllers.registration import Caches
from nodemanager.controllers.rollouts import revisions, waking
from nodemanager.controllers.rollouts.reconciling import decide, is_only_told
from nodemanager.controllers.rollouts.steady_clock import JUMP_SECONDS, SteadyClock
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.rollout import beginning, facts, host_views, witness
from nodemanager.fleet.rollout.facts import RolloutProgress
from nodemanager.fleet.rollout.gates import RolloutGates
from nodemanager.fleet.rollout.looking import RolloutLook
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.fleet.rollout.witness import Witness
from nodemanager.kube import conditions, times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime.cache import Change
from support import rollout_hosts

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LABELS = {"role": "web"}
OLD = RevisionRef(name="web-1", revision=1, digest="a" * 64, labels=LABELS)
NEW = RevisionRef(name="web-2", revision=2, digest="b" * 64, labels=LABELS)
BEFORE, SINCE = "2026-01-01T10:00:00Z", "2026-01-01T11:30:00Z"
STARTED = "2026-01-01T11:00:00Z"
GENERATION = 7
ROLLOUT = RolloutStatus(
    observed_generation=GENERATION, phase=PROGRESSING, reason=RolloutReason.HOSTS_UNPROVEN, since=STARTED,
    started_at=STARTED, stable=OLD, next=NEW, stage=1, threshold=10**9, current="web-2",
)  # fmt: skip


def report(**changes: Any) -> AppliedConfigSet:
    given = {"name": "web", "observed_generation": 5, "digest": NEW.digest, "last_applied": SINCE, **changes}
    return AppliedConfigSet(**given)


def condition(kind: str, status: str, reason: str, since: str) -> Condition:
    return Condition(type=kind, status=status, reason=reason, last_transition_time=since)


def node(*reports: AppliedConfigSet, name: str = "h", made: str = BEFORE, **status: Any) -> ManagedNode:
    meta = ObjectMeta(name=name, uid=name, namespace="x", labels=LABELS, creation_timestamp=made)
    return ManagedNode(
        metadata=meta, status=ManagedNodeStatus(**{"release": "6.1", "configsets": list(reports), **status})
    )


def judged(one: ManagedNode, status: RolloutStatus = ROLLOUT) -> tuple[str, str]:
    (host,) = rollout_hosts.of_hosts("web", status, [one])
    return host.progress, host.why


LOCK = f"service:nginx: {set_reports.NO_LOCK} web: h2 holds it; waited 60 s, and tries again"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, ("healthy", "")),
        ({"digest": OLD.digest}, ("unproven", "")),
        ({"digest": ""}, ("unproven", "")),  # it knows about stages, and has what it had
        ({"digest": "", "observed_generation": GENERATION}, ("absent", facts.UNAWARE)),
        ({"digest": "", "observed_generation": 0}, ("absent", facts.UNAWARE)),
        ({"observed_generation": GENERATION}, ("healthy", "")),
        ({"error": "no"}, ("failed", "")),
        ({"conflicts": ["file:/x"]}, ("failed", "")),
        ({"error": "no", "digest": OLD.digest}, ("unproven", "")),
        ({"waiting": "file:/x: waits for Secret db"}, ("unproven", "")),
        ({"waiting": enforcement.WAITS}, ("put off", enforcement.WAITS)),
        ({"held": 1, "digest": OLD.digest}, ("put off", enforcement.WAITS)),
        ({"held": 1, "digest": "", "observed_generation": 0}, ("put off", enforcement.WAITS)),
        ({"error": LOCK}, ("put off", "waits for a lock")),
        ({"error": f"{LOCK}; file:/x: cannot write it"}, ("failed", "")),
    ],
)
def test_what_a_report_proves(given: dict[str, Any], wanted: tuple[str, str]) -> None:
    assert judged(node(report(**given))) == wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((node_conditions.ALIVE, "False", "LeaseExpired", SINCE), ("lost", "silent")),
        ((node_conditions.ALIVE, "False", "LeaseExpired", STARTED), ("absent", "silent")),
        ((node_conditions.ALIVE, "False", "LeaseExpired", BEFORE), ("absent", "silent")),
        ((node_conditions.HELD, "True", "Told", SINCE), ("absent", "held")),
        ((node_conditions.CONTESTED, "True", "Contested", SINCE), ("unproven", "something is contested")),
        ((node_conditions.CONTESTED, "True", "Contested", STARTED), ("unproven", "something is contested")),
        ((node_conditions.CONTESTED, "True", "Contested", BEFORE), ("healthy", "")),
        ((node_conditions.CONTESTED, "False", "NotContested", SINCE), ("healthy", "")),
        ((node_conditions.DRIFTED, "True", "NotRepaired", SINCE), ("unproven", "drifted")),
        ((node_conditions.DRIFTED, "True", "Observed", SINCE), ("healthy", "")),
        ((conditions.READY, "False", "ApplyFailed", SINCE), ("unproven", "its last pass broke off")),
        ((conditions.READY, "False", "ApplyFailed", BEFORE), ("healthy", "")),
        ((conditions.READY, "False", "Applying", SINCE), ("healthy", "")),
        ((conditions.READY, "True", "ApplyFailed", SINCE), ("healthy", "")),
    ],
)
def test_what_a_condition_says_of_a_host_that_reports_the_change(
    given: tuple[str, str, str, str], wanted: tuple[str, str]
) -> None:
    assert judged(node(report(), conditions=[condition(*given)])) == wanted


def test_another_set_that_fails_is_no_pass_that_broke_off() -> None:
    broken = [condition(conditions.READY, "False", "ApplyFailed", SINCE)]
    for fault in ({"error": "no"}, {"conflicts": ["file:/x"]}):
        other = report(name="other", **fault)
        assert judged(node(report(), other, conditions=broken)) == ("healthy", "")
    assert judged(node(report(), report(name="other"), conditions=broken))[0] == "unproven"


def test_hosts_that_say_nothing() -> None:
    assert judged(node(release="")) == ("absent", "has no agent")
    assert judged(node(report(), release="")) == ("healthy", "")
    assert judged(node()) == ("unproven", "")
    elsewhere = msgspec.structs.replace(ROLLOUT, next=msgspec.structs.replace(NEW, labels={"role": "db"}))
    assert judged(node(), elsewhere) == ("healthy", "")
    assert judged(node(report(digest=OLD.digest)), elsewhere) == ("unproven", "")  # it is to forget the set


def test_who_takes_part_and_since_when() -> None:
    alive = [condition(node_conditions.ALIVE, "True", "LeaseRenewed", SINCE)]
    (one,) = rollout_hosts.of_hosts("web", ROLLOUT, [node(report(), conditions=alive), node(made=SINCE)])
    assert (one.back, one.turn) == (times.parse(SINCE), None)
    turned = msgspec.structs.replace(ROLLOUT, turns=[ThresholdTurn(threshold=10**9, at=SINCE)])
    (one,) = rollout_hosts.of_hosts("web", turned, [node(report(digest=OLD.digest))])
    assert (one.back, one.turn) == (None, times.parse(SINCE))


SILENT = condition(node_conditions.ALIVE, "False", "LeaseExpired", SINCE)


def visited(state: claims.State) -> str:
    moment = datetime(2026, 1, 1, 11, tzinfo=UTC)
    return claims.encode(claims.Claim("m", "u", "h", "r", 1, state, moment, moment, moment))


def test_whose_silence_is_no_loss() -> None:
    gone = node(report(), conditions=[SILENT])
    assert judged(gone)[0] == RolloutProgress.LOST
    ignored = rollout_hosts.of_hosts("web", ROLLOUT, [gone], on_silence="ignore")
    assert [one.progress for one in ignored] == [RolloutProgress.ABSENT]
    # Not its turn.
    assert (
        judged(gone, msgspec.structs.replace(ROLLOUT, threshold=0))[0] == RolloutProgress.ABSENT
    )  # not its turn
    late = msgspec.structs.replace(ROLLOUT, turns=[ThresholdTurn(threshold=10**9, at="2026-01-01T11:30:01Z")])
    assert judged(gone, late)[0] == RolloutProgress.ABSENT  # it was silent when its turn came
    held = condition(node_conditions.HELD, "True", "Told", SINCE)
    assert judged(node(report(), conditions=[SILENT, held])) == ("absent", "held")
    for until, progress in (("2026-01-01T12:00:01Z", "absent"), ("2026-01-01T12:00:00Z", "lost")):
        spec = ManagedNodeSpec(hold=Hold(reason="disk", until=until))
        (one,) = rollout_hosts.of_hosts("web", ROLLOUT, [msgspec.structs.replace(gone, spec=spec)], now=NOW)
        assert one.progress == progress
    for state, progress in ((claims.State.REBOOTING, "absent"), (claims.State.DONE, "lost")):
        meta = msgspec.structs.replace(gone.metadata, annotations={ANNOTATION_VISIT: visited(state)})
        assert judged(msgspec.structs.replace(gone, metadata=meta))[0] == progress


def test_who_holds_or_visits_a_silent_host_has_the_rollout_looked_at() -> None:
    sets = SimpleNamespace(of=lambda _kind: SimpleNamespace(values=lambda: [config_set(ROLLOUT)]))
    old = node(report(), conditions=[SILENT])
    held = msgspec.structs.replace(old, spec=ManagedNodeSpec(hold=Hold(reason="disk", until=SINCE)))
    meta = msgspec.structs.replace(
        old.metadata, annotations={ANNOTATION_VISIT: visited(claims.State.WORKING)}
    )
    for new, woken in ((old, 0), (held, 1), (msgspec.structs.replace(old, metadata=meta), 1)):
        change = Change(ObjectKey("x", "h"), old, new)
        assert len(list(waking.on_node(change, cast("Caches", sets)))) == woken


def test_the_clock_of_a_host_is_not_asked_by_whom_has_seen_it() -> None:
    """One that was in trouble when the rollout began may say that it came later, and the other way round."""
    rollout = ("b" * 64, STARTED)
    for since in (BEFORE, SINCE):
        drifted = node(
            report(), conditions=[condition(node_conditions.DRIFTED, "True", "NotRepaired", since)]
        )
        assert host_views.calm([drifted, node(report())]) == ["h"]
        for known, wanted in (
            (Witness(rollout, whole=True), "healthy"),
            (Witness(rollout, whole=True, calm=frozenset({"h"})), "unproven"),
            (Witness(rollout, calm=frozenset({"h"})), "unproven"),
            (Witness(rollout), "healthy" if since == BEFORE else "unproven"),  # it was started since
        ):
            (one,) = rollout_hosts.of_hosts("web", ROLLOUT, [drifted], witness=known)
            assert one.progress == wanted


def test_what_troubles_a_host_before_anybody_has_the_change_is_not_held_against_it() -> None:
    """However long that waits for a window: here for days."""
    rollout, shut = ("b" * 64, STARTED), RolloutGates(unapproved="b" * 64)
    waits = msgspec.structs.replace(ROLLOUT, stage=0, threshold=0, turns=[], canary=None)
    drifted = node(report(), conditions=[condition(node_conditions.DRIFTED, "True", "NotRepaired", SINCE)])
    known = Witness(rollout, whole=True, calm=frozenset({"h"}))
    for nodes, calm in (([drifted], []), ([node(report())], ["h"])):
        found = decide(config_set(waits), NEW, nodes, RolloutLook(NOW, witness=known, gates=shut))
        assert (found.status.reason, list(found.witness.calm)) == ("NotApproved", calm)
    turn = ThresholdTurn(threshold=SCALE, at=times.rfc3339(NOW))
    begun = msgspec.structs.replace(ROLLOUT, turns=[turn])
    (one,) = rollout_hosts.of_hosts("web", begun, [drifted])  # by an operator that was started since
    assert one.progress == "healthy"


def test_what_a_process_has_seen() -> None:
    first = msgspec.structs.replace(ROLLOUT, stage=0, threshold=0)
    known = witness.of(Witness(calm=frozenset({"x"})), first)
    assert known == Witness(("b" * 64, STARTED), whole=True)
    assert witness.of(known, ROLLOUT) is known
    assert not witness.of(Witness(), ROLLOUT).whole
    later = NOW + timedelta(seconds=60)
    known = witness.after(known, ["a"], ["b"], ["c"], NOW)
    known = witness.after(known, [], ["a", "b"], [], NOW)
    assert known.relapsed == {"a": NOW}
    assert known.calm == {"c"}
    known = witness.after(known, [], ["a"], [], later)
    assert known.relapsed == {"a": NOW}
    assert witness.after(known, ["a"], [], [], later).relapsed == {}


def test_a_status_that_is_lost_is_made_again_from_what_most_hosts_have() -> None:
    third = RevisionRef(name="web-3", revision=3, digest="c" * 64, labels=LABELS)
    for digests, wanted in (("aab", OLD), ("abb", NEW), ("ab", OLD), ("cc", None)):
        nodes = [node(report(digest=one * 64), name=f"h{at}") for at, one in enumerate(digests)]
        found = decide(config_set(None), third, nodes, RolloutLook(NOW), [OLD, NEW]).status
        assert found.stable == (third if digests == "cc" else wanted)
        assert found.phase == (STABLE if digests == "cc" else found.phase)


def test_only_counts_and_words_are_not_worth_a_write_each() -> None:
    def counted(**counts: int) -> RolloutStatus:
        return msgspec.structs.replace(ROLLOUT, counts=RolloutCounts(**counts), message=str(counts))

    assert is_only_told(counted(healthy=1), counted(healthy=2))
    assert not is_only_told(counted(healthy=1), counted(failed=1))
    assert not is_only_told(counted(), msgspec.structs.replace(counted(), threshold=1))


def test_what_stopped_does_not_go_to_hosts_that_are_made_again() -> None:
    stopped = msgspec.structs.replace(ROLLOUT, phase=PAUSED, reason=RolloutReason.STOPPED)
    found = published([node(made=SINCE)], stopped)
    assert (found.phase, found.started_at) == (PAUSED, STARTED)


def test_who_has_yet_to_leave_what_was_undone() -> None:
    undone = msgspec.structs.replace(ROLLOUT, next=None, refused=NEW)
    assert judged(node(report()), undone)[0] == RolloutProgress.UNPROVEN
    assert judged(node(report(digest=OLD.digest)), undone)[0] == RolloutProgress.HEALTHY
    assert judged(node(), undone)[0] == RolloutProgress.HEALTHY
    silent = [condition(node_conditions.ALIVE, "False", "LeaseExpired", SINCE)]
    assert judged(node(report(), conditions=silent), undone)[0] == RolloutProgress.ABSENT


# Which revision is rolled out


def config_set(status: RolloutStatus | None, strategy: str = STAGED, **annotations: str) -> ConfigSet:
    meta = ObjectMeta(
        name="web", namespace="x", uid="u", generation=GENERATION, labels=LABELS, annotations=annotations,
        creation_timestamp=STARTED,
    )  # fmt: skip
    return ConfigSet(meta, ConfigSetSpec(rollout=Rollout(strategy=strategy)), ConfigSetStatus(rollout=status))


def published(
    nodes: list[ManagedNode], status: RolloutStatus | None = None, now: datetime = NOW, restart: str = ""
) -> RolloutStatus:
    more = {RESTART: restart} if restart else {}
    return decide(config_set(status, **more), NEW, nodes, RolloutLook(now)).status


@pytest.mark.parametrize(
    ("reports", "stable"),
    [
        ([report()], True),
        ([report(digest="", observed_generation=GENERATION)], True),  # as it was before there were revisions
        ([report(digest="", observed_generation=GENERATION, last_applied=STARTED)], True),
        ([report(digest="", observed_generation=GENERATION, last_applied=BEFORE)], False),  # of a deleted set
        ([report(digest="", observed_generation=GENERATION, last_applied=None)], False),
        ([report(digest="", observed_generation=GENERATION - 1)], False),
        ([report(digest=OLD.digest, observed_generation=GENERATION)], False),
        ([report(), report(digest=OLD.digest)], False),
        ([report(), None], False),
        ([], False),
    ],
)
def test_a_set_without_a_status_is_stable_only_if_all_hosts_have_it(
    reports: list[AppliedConfigSet | None], stable: bool
) -> None:
    nodes = [node(*([one] if one else []), name=f"h{number}") for number, one in enumerate(reports)]
    silent = [condition(node_conditions.ALIVE, "False", "LeaseExpired", SINCE)]
    nodes += [node(release="", name="never"), node(report(digest=OLD.digest), conditions=silent)]
    found = published(nodes)
    assert (found.phase == STABLE, found.stable == NEW, found.next == NEW) == (stable, stable, not stable)
    assert not stable or found.reason == RolloutReason.NO_CHANGE


def test_hosts_that_were_made_again_begin_anew() -> None:
    old = msgspec.structs.replace(ROLLOUT, stage=3)
    again = published([node(made=SINCE)], old)
    assert (again.next, again.stable, again.started_at, again.stage) == (NEW, OLD, times.rfc3339(NOW), 1)
    nobody = published([], old)
    assert (nobody.phase, nobody.next, nobody.started_at) == (WAITING, NEW, STARTED)


def test_a_clock_behind_that_of_the_api_leaves_no_host_out() -> None:
    behind = times.parse("2026-01-01T09:00:00Z")
    assert behind is not None
    found = published([node(name="a", made=BEFORE), node(name="b", made=STARTED)], now=behind)
    assert (found.started_at, found.since) == (STARTED, "2026-01-01T09:00:00Z")


def undone(**changes: Any) -> RolloutStatus:
    given = {
        "phase": UNDONE, "reason": RolloutReason.HOSTS_FAILED, "next": None, "refused": NEW, "stage": 0,
        "started_at": None, "restarted": "one", "message": "no", "threshold": 0,
    }  # fmt: skip
    return msgspec.structs.replace(ROLLOUT, **{**given, **changes})


@pytest.mark.parametrize(("annotation", "tried"), [("", False), ("one", False), ("two", True)])
def test_only_a_new_word_has_it_tried_again(annotation: str, tried: bool) -> None:
    found = published([node(report(digest=OLD.digest))], undone(), restart=annotation)
    assert (found.next == NEW, found.refused == NEW) == (tried, not tried)
    assert found.restarted == ("two" if tried else "one")


def test_a_new_word_has_what_stopped_go_on() -> None:
    stopped = msgspec.structs.replace(
        ROLLOUT, phase=PAUSED, reason=RolloutReason.STOPPED, counts=RolloutCounts(failed=3), restarted="one"
    )
    same = beginning.seen(stopped, GENERATION, "one", NOW)
    assert (same.phase, same.counts) == (PAUSED, RolloutCounts(failed=3))
    found = beginning.seen(stopped, GENERATION + 1, "two", NOW)
    assert (found.phase, found.reason, found.since) == (
        PROGRESSING,
        RolloutReason.HOSTS_UNPROVEN,
        times.rfc3339(NOW),
    )
    assert (found.counts, found.restarted, found.observed_generation) == (None, "two", GENERATION + 1)
    assert found.message
    paused = msgspec.structs.replace(stopped, reason=RolloutReason.PAUSED)
    assert beginning.seen(paused, GENERATION, "two", NOW).phase == PAUSED
    going = beginning.seen(msgspec.structs.replace(ROLLOUT, restarted="one"), GENERATION, "two", NOW)
    assert (going.since, going.restarted) == (STARTED, "two")
    first = beginning.seen(None, GENERATION, "two", NOW)
    assert (first.observed_generation, first.restarted, first.phase) == (GENERATION, "two", "")


def begun(status: RolloutStatus, current: RevisionRef, strategy: str = STAGED) -> RolloutStatus:
    return beginning.begin(Rollout(strategy=strategy), status, current, NOW, NOW)


def test_a_change_that_is_reverted_is_over_when_hosts_have_returned() -> None:
    back = begun(ROLLOUT, OLD)
    assert (back.phase, back.reason, back.stable, back.refused) == (UNDOING, RolloutReason.REVERTED, OLD, NEW)
    assert (back.next, back.threshold, back.stage, back.since) == (None, 0, 0, times.rfc3339(NOW))
    later = beginning.begin(Rollout(strategy=STAGED), back, OLD, NOW + timedelta(seconds=9), NOW)
    assert later == back
    waits = decide(config_set(back), OLD, [node(report())], RolloutLook(NOW)).status
    assert (waits.phase, waits.reason) == (UNDOING, RolloutReason.REVERTED)
    over = decide(config_set(back), OLD, [node(report(digest=OLD.digest))], RolloutLook(NOW)).status
    assert (over.phase, over.reason, over.refused) == (STABLE, RolloutReason.NO_CHANGE, None)
    again = begun(back, NEW)  # nobody refused it
    assert (again.phase, again.next, again.refused) == (WAITING, NEW, None)
    assert begun(undone(), OLD).reason == RolloutReason.REVERTED
    assert begun(undone(), NEW).refused == NEW


def test_a_change_takes_the_place_of_another() -> None:
    third = RevisionRef(name="web-3", revision=3, digest="c" * 64, labels=LABELS)
    found = begun(ROLLOUT, third)
    assert (found.phase, found.reason, found.stable, found.next) == (
        WAITING,
        RolloutReason.STARTED,
        OLD,
        third,
    )
    assert (found.stage, found.threshold, found.started_at) == (0, 0, times.rfc3339(NOW))
    assert (found.current, found.message) == ("web-3", "revision 3 is to be rolled out")
    renamed = msgspec.structs.replace(NEW, name="web-4")
    assert begun(ROLLOUT, renamed).next == renamed
    assert begun(ROLLOUT, renamed).stage == 1
    assert begun(ROLLOUT, NEW, ALL_AT_ONCE).stable == NEW
    assert begun(ROLLOUT, NEW, ALL_AT_ONCE).reason == RolloutReason.ALL_AT_ONCE
    after = begun(undone(), third)
    assert (after.next, after.refused, after.stable, after.restarted) == (third, None, OLD, "one")


@pytest.mark.parametrize(
    ("reason", "wanted"),
    [("RolledOut", "RolledOut"), ("AllAtOnce", "NoChange"), ("OfANewerVersion", "OfANewerVersion")],
)
def test_what_is_stable_stays_so(reason: str, wanted: str) -> None:
    old = RolloutStatus(phase=STABLE, reason=reason, stable=OLD, since=STARTED)
    found = begun(old, OLD)
    assert (found.phase, found.reason, found.since, found.stable) == (STABLE, wanted, STARTED, OLD)
    for other in ({"since": None}, {"phase": UNDOING}, {"stable": msgspec.structs.replace(OLD, revision=9)}):
        assert begun(msgspec.structs.replace(old, **other), OLD).since == times.rfc3339(NOW)


# The operator


def test_a_revision_of_a_newer_version_is_made_anew() -> None:
    here = config_set(msgspec.structs.replace(ROLLOUT, current="web-2"))
    digest = configsetrevision.digest_of(LABELS, {})
    spec = ConfigSetRevisionSpec(config_set="web", revision=2, labels=LABELS, digest=digest)
    good = ConfigSetRevision(ObjectMeta(name="web-2"), spec)
    assert revisions.current(here, [good]) is good
    content = {"files": 1}
    digest = configsetrevision.digest_of(LABELS, content)
    odd = ConfigSetRevision(
        ObjectMeta(name="web-2"), msgspec.structs.replace(spec, content=content, digest=digest)
    )
    assert revisions.current(here, [odd]) is None


def test_time_without_witnesses_does_not_count() -> None:
    clock, never = SteadyClock(), float("-inf")
    assert clock.watched(NOW, 1000.0, never) == 0
    assert clock.watched(NOW + timedelta(seconds=100), 1100.0, never) == 100
    assert clock.watched(NOW + timedelta(seconds=100), 1100.0, 1070.0) == 30  # an outage ended then
    small = timedelta(seconds=200 + JUMP_SECONDS)
    assert clock.watched(NOW + small, 1200.0, never) == 200
    assert clock.watched(NOW + small + timedelta(seconds=1), 1200.0, never) == 0  # somebody set the clock
    assert clock.watched(NOW + small + timedelta(seconds=6), 1205.0, never) == 5
