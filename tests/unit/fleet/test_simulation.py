"""What the simulation has of its own: a calendar that remembers, and a time axis without quiet times."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.api.maintenance.windows import WindowSpec
from nodemanager.fleet.maintenance.claims import State
from nodemanager.fleet.simulation.axis import axis
from nodemanager.fleet.simulation.record import SimVisit
from nodemanager.fleet.simulation.remembering import RememberingCalendar
from nodemanager.fleet.windows.calendar import Calendar
from support import fleets


@pytest.mark.parametrize("window", [one for one in fleets.WINDOWS if "always" not in one], ids=str)
@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(min_value=0, max_value=60 * 24 * 30), min_size=1, max_size=6))
def test_a_calendar_that_remembers_answers_as_one_that_does_not(
    window: dict[str, Any], minutes: list[int]
) -> None:
    spec = msgspec.convert(window, WindowSpec)
    remembering, plain = RememberingCalendar(spec), Calendar(spec)
    for minute in minutes:
        now = fleets.START + timedelta(minutes=minute)
        assert remembering.following(now, 3) == plain.following(now, 3)
        assert (remembering.opened(now) is None) == (plain.opened(now) is None)


def test_quiet_times_take_no_room() -> None:
    def span(start: float, end: float) -> SimVisit:
        hours = fleets.START + timedelta(hours=start), fleets.START + timedelta(hours=end)
        return SimVisit("h", "m", *hours, State.DONE, None)

    scale = axis([span(0, 1), span(1.2, 2), span(168, 170)], 100)
    assert len(scale.periods) == 2
    assert scale.shown == timedelta(hours=4)
    assert scale.at(fleets.START) == 0
    assert scale.at(fleets.START + timedelta(hours=100)) == 50
    assert scale.at(fleets.START + timedelta(hours=169)) == 75
    assert scale.at(fleets.START + timedelta(days=99)) == 100
