"""How a rollout says where it is, since when, and whom that is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.api.common.rollout import PROGRESSING, SOAKING, RolloutStatus
from nodemanager.fleet.rollout import telling
from nodemanager.fleet.rollout.facts import UNAWARE, RolloutHost, RolloutProgress
from nodemanager.fleet.rollout.looking import RolloutHosts
from nodemanager.fleet.rollout.reasons import RolloutReason

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
EARLIER, LATER = "2026-01-01T11:00:00Z", "2026-01-01T12:00:01Z"
UNPROVEN, PAUSED = RolloutReason.HOSTS_UNPROVEN, RolloutReason.PAUSED


@pytest.mark.parametrize(
    ("phase", "reason", "since", "wanted"),
    [
        (PROGRESSING, UNPROVEN, EARLIER, EARLIER),
        (PROGRESSING, UNPROVEN, "2026-01-01T12:00:00Z", "2026-01-01T12:00:00Z"),
        (PROGRESSING, UNPROVEN, LATER, "2026-01-01T12:00:00Z"),  # never in the future
        (PROGRESSING, UNPROVEN, None, "2026-01-01T12:00:00Z"),
        (PROGRESSING, PAUSED, EARLIER, "2026-01-01T12:00:00Z"),  # it waits for something else now
        (SOAKING, UNPROVEN, EARLIER, "2026-01-01T12:00:00Z"),
    ],
)
def test_since_when_is_kept_while_it_is_the_same(
    phase: str, reason: RolloutReason, since: str | None, wanted: str
) -> None:
    before = RolloutStatus(phase=phase, reason=reason, since=since)
    found = telling.in_phase(before, PROGRESSING, UNPROVEN, "so", NOW)
    assert (found.phase, found.reason, found.message) == (PROGRESSING, UNPROVEN, "so")
    assert found.since == wanted


@pytest.mark.parametrize(("late", "begins"), [(0, "2026-01-01T12:00:00Z"), (1, LATER), (999_999, LATER)])
def test_a_soak_is_never_shorter_than_declared_whatever_it_waits_for(late: int, begins: str) -> None:
    now = NOW + timedelta(microseconds=late)
    begun = telling.in_phase(RolloutStatus(phase=PROGRESSING), SOAKING, UNPROVEN, "", now)
    assert begun.since == begins
    soaks = RolloutStatus(phase=SOAKING, reason=UNPROVEN, since=EARLIER)
    assert telling.in_phase(soaks, SOAKING, PAUSED, "", now).since == EARLIER


def test_a_long_message_is_cut_to_what_the_api_takes() -> None:
    found = telling.in_phase(RolloutStatus(), PROGRESSING, UNPROVEN, "x" * 5000, NOW)
    assert len(found.message) <= telling.MAX_MESSAGE


def host(
    name: str, progress: RolloutProgress = RolloutProgress.HEALTHY, why: str = "", away: str = ""
) -> RolloutHost:
    return RolloutHost(name, 0, canary=False, progress=progress, why=why, away=away)


def seen(*hosts: RolloutHost, **groups: Any) -> RolloutHosts:
    given = {
        "moved": hosts,
        "awake": hosts,
        "put_off": (),
        "failed": (),
        "unproven": (),
        "holding": (),
        **groups,
    }
    return RolloutHosts(hosts, again=None, **given)


def test_some_hosts_are_named_and_the_others_counted() -> None:
    names = "fbadcg"
    assert telling.named([host(one) for one in names[:5]]) == "a, b, c, d, f"
    assert telling.named([host(one) for one in names]) == "a, b, c, d, f and 1 more host"
    assert telling.named([host("b", why="drifted"), host("a")]) == "a, b (drifted)"
    assert telling.named([]) == ""


def test_who_takes_what_may_be_unavailable_is_named_with_who_has_it() -> None:
    found = seen(host("a", away="maintenance monday"), host("b"), host("c", away="its upgrade"))
    assert telling.worked_on(found) == (
        "as many hosts as maxUnavailable allows are being worked on, such as a (maintenance monday),"
        " c (its upgrade)"
    )


def test_hosts_that_failed_and_are_too_few_are_named_or_counted() -> None:
    bad = host("a", RolloutProgress.FAILED)
    assert telling.left_behind(seen(host("b"))) == ""
    assert telling.left_behind(seen(bad, host("b"), failed=(bad,))) == "a failed, fewer than stopAfter"
    # One that had its time before: which one it was, nobody remembers.
    assert telling.left_behind(seen(bad, host("b"))) == "1 host failed, fewer than stopAfter"


def test_hosts_that_could_not_say_that_they_returned_are_named() -> None:
    lost = [host(one, RolloutProgress.LOST, "silent") for one in "ba"]
    assert (
        telling.not_returned(seen(host("c"), *lost))
        == "; a (silent), b (silent) did not say that they returned"
    )
    assert telling.not_returned(seen(host("c"), host("d", RolloutProgress.ABSENT))) == ""


def test_agents_that_know_no_stages_are_counted() -> None:
    old = [host(one, RolloutProgress.ABSENT, UNAWARE) for one in "ab"]
    assert telling.besides(seen(host("c"), host("d", why="silent"))) == ""
    said = "took it at once and will not return: the agent there knows no stages"
    assert telling.besides(seen(host("c"), old[0])) == f"; 1 host {said}"
    assert telling.besides(seen(*old)) == f"; 2 hosts {said}"
