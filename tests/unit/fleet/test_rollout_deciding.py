"""How far a rollout may be: one decision at a time, at the edges where it turns."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from nodemanager.api.common.rollout import (
    PAUSED,
    PROGRESSING,
    SCALE,
    SOAKING,
    STABLE,
    UNDOING,
    UNDONE,
    WAITING,
    Canary,
    RolloutCounts,
)
from nodemanager.fleet.rollout import stages, turns
from nodemanager.fleet.rollout.deciding import RolloutDecision, decide
from nodemanager.fleet.rollout.facts import UNAWARE, RolloutHost, RolloutProgress
from nodemanager.fleet.rollout.looking import RolloutLook
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.fleet.rollout.telling import MAX_MESSAGE
from nodemanager.fleet.rollout.witness import Witness
from nodemanager.kube import times
from nodemanager.kube.selectors import LabelSelector
from support.rollout_decisions import (
    CHOSEN,
    NEW,
    NOW,
    OLD,
    STEP,
    F,
    H,
    U,
    ago,
    fleet,
    host,
    moved,
    rollout,
    said,
    status,
)  # fmt: skip

# A stage, and the end


def test_one_bad_host_and_max_unavailable_bring_it_to_nobody_unproven() -> None:
    """As many hosts have it at the end as there are, and no two are on their way to it at once."""
    given = rollout(stages=["5", "50%", "100%"], soak="1m", max_unavailable=1, stop_after=2)
    now, here, most, have = NOW, status(WAITING, moved=0, stage=0), 0, set()
    for _ in range(3000):
        known = turns.of(here)
        hosts = [
            host(
                f"h{one}", one * STEP, U if one not in have else F if one == 1 else H,
                turn=known.latest(one * STEP, canary=False),
            )
            for one in range(100)
        ]  # fmt: skip
        most = max(most, sum(one.position < here.threshold and one.progress is U for one in hosts))
        decision = decide(given, here, hosts, RolloutLook(now))
        have = {one for one in range(100) if one * STEP < here.threshold}
        if decision.status.phase == STABLE:
            break
        now += timedelta(seconds=max(1.0, decision.again or 0.0))
        here = decision.status
    assert (decision.status.reason, len(have), here.threshold, most) == (
        RolloutReason.ROLLED_OUT,
        100,
        SCALE,
        1,
    )


@pytest.mark.parametrize(
    ("phase", "since", "hosts", "wanted"),
    [
        (PROGRESSING, 0, "h", (SOAKING, "Soaking", 1)),
        (PROGRESSING, 599, "u", (PROGRESSING, "HostsUnproven", 1)),
        (PROGRESSING, 600, "u", (UNDOING, "HostsReturning", 0)),
        (PROGRESSING, 0, "f", (UNDOING, "HostsReturning", 0)),
        (SOAKING, 299, "h", (SOAKING, "Soaking", 1)),
        (SOAKING, 300, "h", (PROGRESSING, "HostsUnproven", 2)),
        (SOAKING, 9999, "u", (PROGRESSING, "HostsUnproven", 1)),
        (SOAKING, 0, "f", (UNDOING, "HostsReturning", 0)),
        (SOAKING, 0, "a", (PROGRESSING, "HostsUnproven", 1)),  # goes on to the next one
        (PROGRESSING, 9999, "p", (WAITING, "HostsPutOff", 1)),
        (SOAKING, 9999, "p", (WAITING, "HostsPutOff", 1)),
        (WAITING, 9999, "u", (PROGRESSING, "HostsUnproven", 1)),
    ],
)  # fmt: skip
def test_the_first_stage(phase: str, since: float, hosts: str, wanted: tuple[str, str, int]) -> None:
    given = fleet(hosts, 20)
    decision = decide(rollout(stages=["1", "5"]), status(phase, since=since), given, RolloutLook(NOW))
    assert said(decision) == wanted
    assert moved(decision, given) == {2: 5, 1: 2 if hosts == "a" else 1, 0: 0}[wanted[2]]


def test_it_looks_again_when_the_soak_or_the_first_deadline_is_over() -> None:
    soaking = decide(rollout(), status(SOAKING, since=100), fleet("h", 20), RolloutLook(NOW))
    assert soaking.again == 200
    waiting = decide(rollout(), status(PROGRESSING, since=100, moved=2), fleet("hu", 20), RolloutLook(NOW))
    assert waiting.again == 500
    fresh = decide(rollout(), status(SOAKING, since=100, moved=2), fleet("hu", 20), RolloutLook(NOW))
    assert fresh.again == 600
    assert "waits for h1" in fresh.status.message


def test_it_is_over_when_all_hosts_have_it_whatever_the_number_of_the_stage() -> None:
    hosts = fleet("hh", 3)
    for since, stage, limit in ((299, 1, STEP + 1), (300, 2, SCALE)):
        late = status(SOAKING, since=since, moved=2, stage=4)
        found = decide(rollout(stages=["2"]), late, hosts, RolloutLook(NOW)).status
        assert (found.stage, found.threshold) == (stage, limit)
    done = decide(
        rollout(stages=["2"]), status(SOAKING, since=300, moved=3, stage=2), fleet("hhh", 3), RolloutLook(NOW)
    )
    assert (done.status.phase, done.status.stable, done.status.next) == (STABLE, NEW, None)


@pytest.mark.parametrize(
    ("sizes", "stage", "size"),
    [
        (["1", "30%"], 1, 25),
        (["50%"], 0, 25),
        (["50%", "10%"], 2, 25),
        (["1", "100%"], 1, 25),
        (["1", "5%", "10%", "25%", "50%"], 3, 25),
        ([], 3, 25),
        (["100"], 0, 25),
    ],
)
def test_other_stages_bring_it_to_nobody_before_the_soak(sizes: list[str], stage: int, size: int) -> None:
    hosts = fleet("h" * 25, 100)
    here = status(SOAKING, since=60, moved=25, stage=3)
    decision = decide(rollout(stages=sizes), here, hosts, RolloutLook(NOW, edited=True))
    assert (decision.status.stage, moved(decision, hosts)) == (stage, size)
    soaked = msgspec.structs.replace(decision.status, since=times.rfc3339(ago(300)))
    after = decide(rollout(stages=sizes), soaked, hosts, RolloutLook(NOW))
    assert (after.status.stage > stage, moved(after, hosts) > size) == (True, True)


def test_a_first_stage_that_grows_is_not_waited_for_if_nobody_can_prove_it() -> None:
    here = status(SOAKING, since=60, moved=1)
    for hosts, stage, size in (("h", 0, 1), ("u", 0, 1), ("p", 0, 1), ("l", 0, 1), ("a", 1, 10)):
        given = fleet(hosts, 20)
        found = decide(rollout(stages=["50%"]), here, given, RolloutLook(NOW, edited=True))
        assert (found.status.stage, moved(found, given)) == (stage, size), hosts


def test_a_stage_in_parts() -> None:
    given = rollout(stages=["10"], max_unavailable="20%")
    hosts = fleet("hhh", 20)
    decision = decide(given, status(PROGRESSING, moved=3), hosts, RolloutLook(NOW))
    assert moved(decision, hosts) == 7
    for busy, more in (("hhhuu", 7), ("hhhuuuu", 7), ("hhhpppp", 7), ("hhhffff", 11), ("hhhhhhhhh", 10)):
        hosts = fleet(busy, 20)
        least = rollout(stages=["10"], max_unavailable="20%", stop_after=9)
        decision = decide(least, status(PROGRESSING, moved=len(busy)), hosts, RolloutLook(NOW))
        assert moved(decision, hosts) == min(10, more), busy


def test_hosts_at_one_place_go_together_also_in_parts() -> None:
    hosts = [
        RolloutHost(str(number), place, canary=False, progress=H if place == 5 else U)
        for number, place in enumerate((5, 9, 9, 20, 30))
    ]
    assert [stages.threshold(hosts, size) for size in (1, 2, 3, 4, 5)] == [6, 6, 10, 21, SCALE]
    assert stages.threshold(hosts[1:], 1) == 10  # the first ones are the least that there can be
    assert stages.in_parts(hosts, 4, 2, 6) == 10
    assert stages.in_parts(hosts, 4, 1, 6) == 6
    assert stages.in_parts(hosts, 2, 2, 6) == 6
    assert stages.in_parts(hosts, 4, 4, 6) == 21


# Who has had their time


@pytest.mark.parametrize(
    ("back", "turn", "relapsed", "watched", "failed"),
    [
        (None, None, None, 9e9, True),
        (599, None, None, 9e9, False),  # heard again since
        (600, None, None, 9e9, True),
        (None, 599, None, 9e9, False),  # its turn came later
        (None, 600, None, 9e9, True),
        (None, -60, None, 9e9, True),  # somebody set the clock
        (None, None, 599, 9e9, False),  # it was healthy until then
        (None, None, 600, 9e9, True),
        (None, None, None, 599.0, False),  # nobody could hear it
        (None, None, None, 600.0, True),
    ],
)  # fmt: skip
def test_each_host_has_a_time_of_its_own(
    back: float | None, turn: float | None, relapsed: float | None, watched: float, failed: bool
) -> None:
    when = [None if one is None else ago(one) for one in (back, turn)]
    seen = Witness(relapsed={} if relapsed is None else {"late": ago(relapsed)})
    hosts = [*fleet("h" * 9, 20), host("late", 1, back=when[0], turn=when[1])]
    for since in (700, 7000):  # however long the stage lasts
        here = status(PROGRESSING, since=since, moved=9)
        decision = decide(rollout(), here, hosts, RolloutLook(NOW, watched, witness=seen))
        assert (decision.status.phase == UNDOING) == failed
        assert not failed or decision.status.message == "revision 2 failed on late, and is undone"


def test_a_part_does_not_begin_the_clocks_of_those_before_it_anew() -> None:
    given = rollout(stages=["100%"], max_unavailable=2)
    now, here = NOW, status(WAITING, moved=0, stage=0)
    for minute in range(30):
        known = turns.of(here)
        hosts = [
            host(f"h{one}", one * STEP, U if one in (1, 59 - minute) else H,
                 turn=known.latest(one * STEP, canary=False))
            for one in range(60)
        ]  # fmt: skip
        here = decide(given, here, hosts, RolloutLook(now)).status
        if here.phase == UNDOING:
            break
        now += timedelta(minutes=1)
    assert 10 <= minute <= 13, (minute, here)
    assert here.message.startswith("revision 2 failed on h1,")


# Who falls silent


@pytest.mark.parametrize("phase", [PROGRESSING, SOAKING, WAITING])
def test_a_host_that_falls_silent_with_the_change_fails_when_it_was_so_for_its_time(phase: str) -> None:
    for since, failed in ((599, False), (600, True)):
        hosts = [*fleet("h", 20), host("gone", 0, RolloutProgress.LOST, why="silent", back=ago(since))]
        found = decide(rollout(), status(phase, since=30), hosts, RolloutLook(NOW))
        assert (found.status.phase == UNDOING) == failed
        assert failed or (moved(found, hosts), found.again) == (2, 1)
    assert found.status.message == (
        "revision 2 failed on gone (silent), and is undone; gone (silent) did not say that they returned"
    )


def test_a_host_that_is_lost_takes_room_and_holds_up_its_stage() -> None:
    parts = rollout(stages=["10"], max_unavailable=2)
    for hosts, more in (("hhll", 4), ("hhhl", 5)):
        given = [one._replace(back=ago(60)) for one in fleet(hosts, 20)]
        assert moved(decide(parts, status(PROGRESSING, moved=4), given, RolloutLook(NOW)), given) == more
    for phase, message in ((PROGRESSING, "waits for h0"), (SOAKING, "waits for h0")):
        one = [one._replace(back=ago(60)) for one in fleet("l", 20)]  # nobody else takes its place
        found = decide(rollout(), status(phase, since=9999), one, RolloutLook(NOW))
        assert (moved(found, one), message in found.status.message) == (1, True)


def test_a_host_that_falls_silent_in_a_soak_does_not_begin_it_anew_but_holds_up_the_next_stage() -> None:
    hosts = [*fleet("hh", 20), host("gone", 1, RolloutProgress.LOST, back=ago(50))]
    for since, again in ((100, 200), (400, 550)):
        found = decide(rollout(), status(SOAKING, since=since, moved=2), hosts, RolloutLook(NOW))
        assert (said(found), found.again) == ((SOAKING, "Soaking", 1), again)
    assert "waits for gone, which fell silent" in found.status.message


def test_what_is_left_behind_is_told_at_the_end() -> None:
    given = rollout(stages=["100%"], stop_after=2)
    gone = host("gone", 1, RolloutProgress.LOST, why="silent", back=ago(600))
    for hosts in ([*fleet("hh", 2), gone], [*fleet("hh", 2), host("gone", 1, F, why="silent")]):
        done = decide(given, status(SOAKING, since=9999, moved=3), hosts, RolloutLook(NOW)).status
        assert (done.phase, done.message) == (STABLE, "gone (silent) failed, fewer than stopAfter")


def test_after_an_outage_nobody_waits_longer_than_ten_minutes_for_a_long_deadline() -> None:
    given, here = rollout(progress_deadline="24h"), status(PROGRESSING, since=90000)
    for watched, phase in ((599.0, PROGRESSING), (600.0, UNDOING)):
        assert decide(given, here, fleet("u", 20), RolloutLook(NOW, watched)).status.phase == phase


def test_a_soak_is_never_shorter_than_declared_although_moments_are_written_to_the_second() -> None:
    hosts, late = fleet("h", 100), NOW + timedelta(seconds=0.9)
    begun = decide(rollout(soak="5s"), status(PROGRESSING), hosts, RolloutLook(late))
    assert begun.status.phase == SOAKING
    assert begun.again == pytest.approx(5.1)
    again = decide(rollout(soak="5s"), begun.status, hosts, RolloutLook(late + timedelta(seconds=0.05)))
    assert again.status == begun.status
    assert again.again == pytest.approx(5.05)
    for seconds, stage in ((4.99, 1), (5.1, 2)):
        look = RolloutLook(late + timedelta(seconds=seconds))
        assert decide(rollout(soak="5s"), begun.status, hosts, look).status.stage == stage
    assert decide(rollout(soak="0"), status(PROGRESSING), hosts, RolloutLook(late)).status.stage == 2


@pytest.mark.parametrize(
    ("soak", "watched", "stage"), [("5m", 83, 1), ("5m", 84, 2), ("20s", 19, 1), ("20s", 20, 2), ("0", 0, 2)]
)
def test_a_soak_that_nobody_saw_is_none(soak: str, watched: float, stage: int) -> None:
    decision = decide(
        rollout(soak=soak), status(SOAKING, since=9999), fleet("h", 100), RolloutLook(NOW, watched)
    )
    assert decision.status.stage == stage
    assert stage == 2 or decision.again == 1


def test_who_comes_back_neither_ends_nor_restarts_a_soak() -> None:
    back = RolloutHost("back", 1, canary=False, progress=U, back=ago(50))

    def found(since: float, host: RolloutHost) -> RolloutDecision:
        return decide(
            rollout(), status(SOAKING, since=since, moved=2), [*fleet("hh", 20), host], RolloutLook(NOW)
        )

    assert (said(found(100, back)), found(100, back).again) == ((SOAKING, "Soaking", 1), 200)
    assert (said(found(400, back)), found(400, back).again) == ((SOAKING, "Soaking", 1), 550)
    assert "waits for back" in found(400, back).status.message
    assert found(700, back._replace(back=ago(599))).status.phase == SOAKING
    assert found(700, back._replace(back=ago(600))).status.phase == UNDOING
    assert found(400, back._replace(progress=H)).status.stage > 1
    assert found(100, back._replace(back=ago(100))).status.phase == PROGRESSING


# Failures


def test_fewer_failed_hosts_than_stop_it_hold_nobody_up() -> None:
    given, hosts = rollout(stop_after=2), fleet("hf", 20)
    decision = decide(given, status(PROGRESSING, moved=2), hosts, RolloutLook(NOW))
    assert said(decision) == (SOAKING, "Soaking", 1)
    assert decision.status.counts == RolloutCounts(hosts=20, moved=2, healthy=1, failed=1, silent=0)
    assert (
        decide(given, status(PROGRESSING, moved=3), fleet("hff", 20), RolloutLook(NOW)).status.phase
        == UNDOING
    )


def test_those_that_had_their_time_are_remembered_by_their_number() -> None:
    given = rollout(stop_after=2)
    hung = decide(given, status(PROGRESSING, since=600, moved=2), fleet("hu", 20), RolloutLook(NOW))
    assert said(hung) == (SOAKING, "Soaking", 1)
    assert hung.status.counts == RolloutCounts(hosts=20, moved=2, healthy=1, failed=1)
    still = decide(given, hung.status, fleet("hu", 20), RolloutLook(NOW + timedelta(seconds=300)))
    assert still.status.stage > 1  # and nobody waits for it again
    later = decide(given, hung.status, fleet("uu", 20), RolloutLook(NOW))
    assert said(later) == (PROGRESSING, "HostsUnproven", 1)
    well = decide(given, hung.status, fleet("hh", 20), RolloutLook(NOW))
    assert well.status.counts == RolloutCounts(hosts=20, moved=2, healthy=2)


def test_it_stops_when_all_that_have_it_fail() -> None:
    given = rollout(stop_after=5)
    for hosts, phase in (
        ("ff", UNDOING),
        ("fu", PROGRESSING),
        ("fh", SOAKING),
        ("fp", UNDOING),
        ("fa", UNDOING),
    ):
        assert (
            decide(given, status(PROGRESSING, moved=2), fleet(hosts, 20), RolloutLook(NOW)).status.phase
            == phase
        ), hosts


def test_pause_instead_of_undo_stays_as_it_is() -> None:
    given = rollout(on_failure="pause")
    decision = decide(given, status(SOAKING, moved=2), fleet("hf", 20), RolloutLook(NOW))
    found = decision.status
    assert (found.phase, found.reason, found.next, found.threshold) == (
        PAUSED,
        RolloutReason.STOPPED,
        NEW,
        STEP + 1,
    )
    assert found.message == "revision 2 failed on h1"
    assert decide(given, found, fleet("hh", 20), RolloutLook(NOW)).status.phase == PAUSED


def test_undo_takes_next_away_and_says_who_does_not_return() -> None:
    hosts = [
        *fleet("hf", 20),
        RolloutHost("old", 5, canary=False, progress=RolloutProgress.ABSENT, why=UNAWARE),
    ]
    found = decide(rollout(), status(SOAKING, moved=2, canary=CHOSEN), hosts, RolloutLook(NOW)).status
    assert (found.next, found.refused, found.stable) == (None, NEW, OLD)
    assert (found.threshold, found.stage, found.canary, found.started_at) == (0, 0, None, None)
    assert "1 host took it at once and will not return" in found.message
    assert decide(rollout(), found, fleet("hu", 20), RolloutLook(NOW)).status.phase == UNDOING
    undone = decide(rollout(), found, fleet("", 0), RolloutLook(NOW)).status
    assert (undone.phase, undone.reason, undone.message) == (
        UNDONE,
        RolloutReason.HOSTS_FAILED,
        found.message,
    )


def test_what_it_says_has_room_in_the_status() -> None:
    hosts = [one._replace(name=f"{one.name}{'x' * 250}") for one in fleet("f" * 9, 20)]
    found = decide(rollout(), status(PROGRESSING, moved=9), hosts, RolloutLook(NOW)).status
    assert len(found.message) == MAX_MESSAGE
    short = decide(rollout(), status(PROGRESSING, moved=9), fleet("f" * 9, 20), RolloutLook(NOW)).status
    assert "h0, h1, h2, h3, h4 and 4 more hosts" in short.message
    six = decide(rollout(), status(PROGRESSING, moved=6), fleet("f" * 6, 20), RolloutLook(NOW)).status
    assert "h4 and 1 more host, and" in six.message


# Nobody there


def test_paused_comes_before_all_but_failures() -> None:
    given = rollout(paused=True)
    for hosts in ([], fleet("h", 20), fleet("u", 20)):
        found = decide(given, status(SOAKING, since=9999), hosts, RolloutLook(NOW)).status
        assert (found.phase, found.reason, found.next, found.stage) == (PAUSED, RolloutReason.PAUSED, NEW, 1)
    assert decide(given, status(SOAKING), fleet("f", 20), RolloutLook(NOW)).status.phase == UNDOING


def test_without_hosts_a_change_is_proven_only_if_none_ever_had_it() -> None:
    never = decide(rollout(), status(WAITING, moved=0, stage=0), [], RolloutLook(NOW)).status
    assert (never.phase, never.reason, never.stable) == (STABLE, RolloutReason.NO_HOSTS, NEW)
    left = decide(rollout(), status(SOAKING, since=9999), [], RolloutLook(NOW)).status
    assert (left.phase, left.reason, left.stable, left.next) == (
        WAITING,
        RolloutReason.HOSTS_SILENT,
        OLD,
        NEW,
    )


def test_all_silent_waits_with_a_code() -> None:
    found = decide(rollout(), status(PROGRESSING, since=9999), fleet("aaa", 3), RolloutLook(NOW)).status
    assert (found.phase, found.reason) == (WAITING, RolloutReason.HOSTS_SILENT)
    assert found.counts == RolloutCounts(hosts=3, moved=1, silent=1)


def test_what_is_put_off_brings_it_to_nobody_else() -> None:
    """When the window opens, no more hosts take it than the stage has."""
    hosts = fleet("p", 20)
    found = decide(rollout(), status(PROGRESSING, since=9999), hosts, RolloutLook(NOW)).status
    assert (found.threshold, found.reason) == (1, RolloutReason.HOSTS_PUT_OFF)
    both = decide(rollout(), status(SOAKING, since=9999, moved=2), fleet("hp", 20), RolloutLook(NOW)).status
    assert (both.phase, both.stage) == (WAITING, 1)


# Canaries


def canaries(progress: RolloutProgress, total: int = 20) -> list[RolloutHost]:
    return [RolloutHost("c", 5 * SCALE // 10, canary=True, progress=progress), *fleet("", total)]


def test_canaries_go_first_and_alone() -> None:
    given = rollout(canary=Canary(CHOSEN), stages=["3"])
    begun = decide(given, status(WAITING, moved=0, stage=0), fleet("", 20), RolloutLook(NOW)).status
    assert (begun.stage, begun.canary, begun.threshold) == (1, CHOSEN, 0)
    here = status(PROGRESSING, moved=0, canary=CHOSEN)
    hosts = canaries(H)
    assert said(decide(given, here, hosts, RolloutLook(NOW))) == (SOAKING, "Soaking", 1)
    soaked = decide(given, status(SOAKING, since=300, moved=0, canary=CHOSEN), hosts, RolloutLook(NOW))
    assert (soaked.status.stage, moved(soaked, hosts)) == (2, 3)


def test_no_canary_waits_and_ends_with_the_canary() -> None:
    given, hosts = rollout(canary=Canary(CHOSEN)), fleet("", 20)
    here = status(PROGRESSING, moved=0, canary=CHOSEN)
    waits = decide(given, here, hosts, RolloutLook(NOW))
    assert said(waits) == (WAITING, "NoCanary", 1)
    other = LabelSelector(match_labels={"first": "yes"})
    changed = decide(rollout(canary=Canary(other)), waits.status, hosts, RolloutLook(NOW, edited=True))
    assert (said(changed), changed.status.canary) == ((WAITING, "NoCanary", 1), other)
    removed = decide(rollout(stages=["2"]), waits.status, hosts, RolloutLook(NOW, edited=True))
    assert (said(removed), removed.status.canary, moved(removed, hosts)) == (
        (PROGRESSING, "HostsUnproven", 1),
        None,
        2,
    )
    kept = decide(rollout(), here, canaries(U), RolloutLook(NOW, edited=True))
    assert (kept.status.canary, kept.status.stage) == (CHOSEN, 1)  # somebody has it already


def test_a_clock_that_goes_back_begins_the_phase_anew() -> None:
    found = decide(rollout(), status(SOAKING, since=-3600), fleet("h", 20), RolloutLook(NOW)).status
    assert found.since == times.rfc3339(NOW)
    odd = msgspec.structs.replace(status(PROGRESSING), since=None)
    assert decide(rollout(), odd, fleet("u", 20), RolloutLook(NOW)).status.since == times.rfc3339(NOW)


# What is said, and by whom


def test_it_says_for_whom_it_waits() -> None:
    given = rollout(stop_after=5)
    both = decide(given, status(PROGRESSING, moved=2), fleet("fu", 20), RolloutLook(NOW)).status
    assert both.message == "stage 1 of 4: waits for h1"
    known = status(PROGRESSING, counts=RolloutCounts(failed=1))
    alone = decide(given, known, fleet("u", 20), RolloutLook(NOW))
    assert (alone.status.message, alone.again) == ("stage 1 of 4: waits for h0", 600)
    old = RolloutHost("old", 0, canary=False, progress=RolloutProgress.ABSENT, why=UNAWARE)
    told = decide(
        given, status(PROGRESSING, moved=2), [*fleet("hu", 20), old], RolloutLook(NOW)
    ).status.message
    assert told.startswith("stage 1 of 4: waits for h1; 1 host took it at once")
    waits = host("web", 1, RolloutProgress.PUT_OFF, why="waits for a lock")
    put_off = decide(
        given, status(PROGRESSING, moved=2), [*fleet("hh", 20), waits], RolloutLook(NOW)
    ).status.message
    assert put_off == "stage 1 of 4: web (waits for a lock)"


def test_those_that_failed_now_are_among_those_that_did_before() -> None:
    given = rollout(stop_after=3)
    known = status(PROGRESSING, moved=3, counts=RolloutCounts(failed=1))
    found = decide(given, known, fleet("hfu", 20), RolloutLook(NOW)).status
    assert (found.phase, found.message) == (PROGRESSING, "stage 1 of 4: waits for h2")
    assert found.counts == RolloutCounts(hosts=20, moved=3, healthy=1, failed=1)
    two = status(PROGRESSING, moved=3, counts=RolloutCounts(failed=2))
    assert decide(given, two, fleet("hfu", 20), RolloutLook(NOW)).status.phase == SOAKING


def test_who_is_put_off_is_not_silent() -> None:
    found = decide(rollout(), status(SOAKING, moved=3), fleet("hpa", 20), RolloutLook(NOW)).status
    assert found.counts == RolloutCounts(hosts=20, moved=3, healthy=1, silent=1)


def test_they_return_until_the_last_one_has() -> None:
    undoing = status(
        UNDOING, moved=0, next=None, refused=NEW, reason=RolloutReason.HOSTS_RETURNING, message="no"
    )
    for hosts, phase in (("u", UNDOING), ("h", UNDONE), ("a", UNDONE), ("hu", UNDOING)):
        assert decide(rollout(), undoing, fleet(hosts, len(hosts)), RolloutLook(NOW)).status.phase == phase
    nothing = status(STABLE, next=None)
    assert decide(rollout(), nothing, fleet("u", 1), RolloutLook(NOW)) == RolloutDecision(nothing)


@pytest.mark.parametrize("reason", [RolloutReason.HOSTS_RETURNING, RolloutReason.REVERTED])
def test_those_that_do_not_return_in_time_are_named(reason: RolloutReason) -> None:
    undoing = status(UNDOING, since=599, moved=0, next=None, refused=NEW, reason=reason, message="no")
    waits = [host("h1", 1, why="waits for its window")]
    found = decide(rollout(), undoing, waits, RolloutLook(NOW))
    assert (found.status, found.again) == (undoing, 1)
    for seconds in (1, 2, 3000):
        found = decide(rollout(), found.status, waits, RolloutLook(NOW + timedelta(seconds=seconds)))
        late = reason if reason == RolloutReason.REVERTED else RolloutReason.HOSTS_NOT_RETURNED
        assert (found.status.phase, found.status.reason, found.again) == (UNDOING, late, None)
        assert found.status.message == "no; still have it: h1 (waits for its window)"
    over = decide(rollout(), found.status, fleet("h", 1), RolloutLook(NOW)).status
    assert (over.phase, over.message) in ((UNDONE, "no"), (STABLE, ""))


def test_a_stage_in_parts_goes_on_if_nobody_edits_it() -> None:
    for sizes in (["1"], ["1", "10"]):
        here = status(PROGRESSING, moved=3, stage=2)
        for edited, stage in ((False, 2), (True, 1)):
            found = decide(
                rollout(stages=sizes, max_unavailable=1),
                here,
                fleet("hhu", 20),
                RolloutLook(NOW, edited=edited),
            )
            assert (found.status.stage, found.status.threshold) == (stage, here.threshold)


def test_somebody_has_to_prove_it_and_no_more_than_one() -> None:
    hosts = [host("a", 5, RolloutProgress.ABSENT), host("b", 6), host("c", 7), host("d", 90)]
    assert stages.threshold(hosts, 1) == 7
    assert stages.threshold(hosts, 1, 8) == 8
    assert stages.threshold([host("c", 50, canary=True), *hosts], 1) == 0
    gone = [one._replace(progress=RolloutProgress.ABSENT) for one in hosts]
    assert stages.threshold(gone, 1) == 6


def test_canaries_count_in_parts() -> None:
    hosts = [host("c", 50, H, canary=True), host("a", 9), host("b", 9), host("d", 20)]
    assert stages.in_parts(hosts, 3, 1, 0) == 0
    assert stages.in_parts(hosts, 3, 2, 0) == 10


@pytest.mark.parametrize(
    ("size", "total", "wanted"),
    [("1", 10, 1), ("50%", 10, 5), ("5%", 10, 1), ("99%", 10, 9), (3, 10, 3), ("100%", 7, 7)],
)
def test_how_many_hosts_are_meant(size: int | str, total: int, wanted: int) -> None:
    assert stages.count(size, total) == wanted


def test_the_sizes_of_stages() -> None:
    assert stages.sizes(rollout(), 100, canaries=False) == [1, 5, 25, 100]
    assert stages.sizes(rollout(stages=["7"]), 10, canaries=True) == [0, 7, 10]
    assert stages.sizes(rollout(stages=["7", "20"]), 10, canaries=False) == [7, 10]
