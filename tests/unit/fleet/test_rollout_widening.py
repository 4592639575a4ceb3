"""How many further hosts take a change: the stage, its part, and since when."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from nodemanager.api.common.rollout import (
    PROGRESSING,
    SCALE,
    STAGED,
    Canary,
    Rollout,
    RolloutStatus,
    ThresholdTurn,
)
from nodemanager.fleet.rollout import looking, stages, widening
from nodemanager.fleet.rollout.facts import RolloutHost, RolloutProgress
from nodemanager.fleet.rollout.looking import RolloutHosts, RolloutLook
from nodemanager.kube import times
from nodemanager.kube.selectors import LabelSelector

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
AT = times.rfc3339(NOW)
WORDS = {
    "h": RolloutProgress.HEALTHY, "u": RolloutProgress.UNPROVEN,
    "p": RolloutProgress.PUT_OFF, "f": RolloutProgress.FAILED,
    "a": RolloutProgress.ABSENT,
}  # fmt: skip
STEP = 100
CHOSEN = LabelSelector(match_labels={"canary": "yes"})


def rollout(**fields: Any) -> Rollout:
    return Rollout(strategy=STAGED, **{"stages": ["2", "5"], **fields})


def status(moved: int = 0, **fields: Any) -> RolloutStatus:
    """Return one in which so many hosts had their turn."""
    return RolloutStatus(phase=PROGRESSING, since=AT, started_at=AT, threshold=moved * STEP, **fields)


def seen(given: Rollout, known: RolloutStatus, hosts: str, away: str = "") -> RolloutHosts:
    """Return a look at hosts of which each letter is one; in capitals = a canary."""
    found = [
        RolloutHost(
            f"h{at}",
            at * STEP,
            one.isupper(),
            WORDS[one.lower()],
            turn=NOW,
            away="tuesday" * (str(at) in away),
        )
        for at, one in enumerate(hosts)
    ]
    return looking.of(given, known, found, RolloutLook(NOW))


@pytest.mark.parametrize(
    ("known", "begun"),
    [
        (RolloutStatus(), False),
        (RolloutStatus(stage=1), True),
        (RolloutStatus(threshold=1), True),
        (RolloutStatus(turns=[ThresholdTurn(threshold=0, at=AT)]), True),
    ],
)
def test_a_rollout_has_begun_when_somebody_had_a_turn(known: RolloutStatus, begun: bool) -> None:
    assert widening.has_begun(known) is begun


def test_there_are_more_as_long_as_not_all_moved() -> None:
    assert widening.is_for_more(seen(rollout(), status(2), "hhh"))
    assert not widening.is_for_more(seen(rollout(), status(3), "hhh"))


@pytest.mark.parametrize(
    ("said", "known", "sizes"),
    [
        pytest.param(None, None, [2, 5, 10], id="no canaries"),
        pytest.param(Canary(selector=CHOSEN), None, [0, 2, 5, 10], id="canaries"),
        pytest.param(
            Canary(selector=CHOSEN), RolloutStatus(stage=1), [2, 5, 10], id="told of after it began"
        ),
        pytest.param(None, RolloutStatus(stage=1, canary=CHOSEN), [0, 2, 5, 10], id="begun with canaries"),
    ],
)
def test_stages_are_those_that_it_began_with(
    said: Canary | None, known: RolloutStatus | None, sizes: list[int]
) -> None:
    known, given = known or status(), rollout(canary=said)
    assert widening.sizes(given, known, seen(given, known, "h" * 10)) == sizes


@pytest.mark.parametrize(
    ("hosts", "moved", "size", "most", "away", "wanted"),
    [
        pytest.param("h" * 10, 2, 5, None, "", 5, id="all of the stage"),
        pytest.param("h" * 10, 2, 0, None, "", 2, id="the stage of the canaries moves nobody else"),
        pytest.param("h" * 10, 2, 5, 2, "", 4, id="two at once"),
        pytest.param("h" * 10, 2, 5, "20%", "", 4, id="two of ten at once"),
        pytest.param("hu" + "h" * 8, 2, 5, 2, "", 3, id="one is on its way"),
        pytest.param("hp" + "h" * 8, 2, 5, 2, "", 3, id="one is put off"),
        pytest.param("up" + "h" * 8, 2, 5, 2, "", 2, id="both are"),
        pytest.param("uu" + "h" * 8, 2, 5, 1, "", 2, id="more than may be"),
        pytest.param("hf" + "h" * 8, 2, 5, 2, "", 4, id="one that failed is not on its way"),
        pytest.param("h" * 10, 2, 5, 2, "9", 3, id="others work on one"),
        pytest.param("h" * 10, 2, 5, 2, "89", 2, id="others work on as many as may be"),
        pytest.param("uh" + "h" * 8, 2, 5, 2, "09", 2, id="one counts once"),
        pytest.param("uh" + "h" * 8, 2, 5, 3, "09", 3, id="one counts once and there is room"),
    ],
)
def test_no_more_hosts_than_may_be_are_on_their_way(
    hosts: str, moved: int, size: int, most: int | str | None, away: str, wanted: int
) -> None:
    given, known = rollout(max_unavailable=most), status(moved)
    look = seen(given, known, hosts, away)
    found = widening.limit(given, known, look, size)
    assert len(stages.moved(RolloutStatus(threshold=found), look.hosts)) == wanted
    alone = widening.limit(given, known, look, size, shared=False)
    free = seen(given, known, hosts)
    assert alone == widening.limit(given, known, free, size), "as if nobody else were there"


@pytest.mark.parametrize(
    ("hosts", "known", "stage", "moved"),
    [
        pytest.param("h" * 10, status(), 1, 2, id="the first"),
        pytest.param("h" * 10, status(2, stage=1), 2, 5, id="the second"),
        pytest.param("h" * 10, status(5, stage=1), 3, 10, id="so many have the second already"),
        pytest.param("h" * 10, status(4, stage=1), 2, 5, id="one is missing in the second"),
        pytest.param("h" * 10, status(10, stage=1), 3, 10, id="all have it: the last is the last"),
    ],
)
def test_the_next_stage_is_the_first_that_is_for_more(
    hosts: str, known: RolloutStatus, stage: int, moved: int
) -> None:
    given = rollout()
    look = seen(given, known, hosts)
    sizes = widening.sizes(given, known, look)
    found = widening.next_stage(given, known, look, sizes, NOW)
    assert (found.stage, len(stages.moved(found, look.hosts))) == (stage, moved)
    assert (found.phase, found.reason, found.message) == (
        PROGRESSING, "HostsUnproven", f"stage {stage} of 3 has begun"
    )  # fmt: skip
    assert found.threshold == (SCALE if moved == 10 else (moved - 1) * STEP + 1)


def test_canaries_are_a_stage_of_their_own_and_those_that_it_began_with() -> None:
    given = rollout(canary=Canary(selector=CHOSEN))
    look = seen(given, status(), "Hh" + "h" * 8)
    first = widening.next_stage(given, status(), look, widening.sizes(given, status(), look), NOW)
    assert (first.stage, first.threshold, first.canary) == (1, 0, CHOSEN)
    assert [one.at for one in first.turns] == [AT]
    other = rollout(canary=Canary(selector=LabelSelector()))
    look = seen(other, first, "Hh" + "h" * 8)
    second = widening.next_stage(other, first, look, widening.sizes(other, first, look), NOW)
    assert (second.stage, second.canary) == (2, CHOSEN)
    late = status(2, stage=1)
    look = seen(given, late, "h" * 10)
    found = widening.next_stage(given, late, look, widening.sizes(given, late, look), NOW)
    assert found.canary is None
