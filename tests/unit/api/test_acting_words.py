"""What people read of a hold, and which of several holds decides."""

from __future__ import annotations

import math

import pytest

from nodemanager.api.common import acting
from nodemanager.api.common.acting import Hold, HoldOrigin, Permission, RunningHold

UNTIL = "2026-03-01T04:00:00Z"


def held(left: float, origin: HoldOrigin = HoldOrigin.API, by: str = "") -> RunningHold:
    return RunningHold(Hold(reason="a disk", until=UNTIL, by=by), origin, left)


@pytest.mark.parametrize(
    ("origin", "by", "words"),
    [
        (HoldOrigin.API, "", f"a disk; held until {UNTIL}"),
        (HoldOrigin.API, "ada", f"a disk; held until {UNTIL}, by ada"),
        (HoldOrigin.HOST, "", f"a disk; held on the host itself until {UNTIL}"),
        (HoldOrigin.HOST, "root", f"a disk; held on the host itself until {UNTIL}, by root"),
    ],
)
def test_a_hold_says_why_where_until_when_and_by_whom(origin: HoldOrigin, by: str, words: str) -> None:
    assert held(1, origin, by).words() == words


def test_a_host_acts_when_the_last_of_its_holds_has_ended() -> None:
    for none in ([], [held(0)], [held(-5), held(0)]):
        found = acting.decide(none)
        assert (found, found.may_act, found.again_in) == (Permission(), True, math.inf)
    short, long = held(0.5), held(60, HoldOrigin.HOST)
    for holds in ([short, long, held(-1)], [long, short]):
        found = acting.decide(holds)
        assert (found.hold, found.may_act, found.again_in) == (long, False, 60)
    assert acting.decide([short]) == Permission(short, 0.5)
