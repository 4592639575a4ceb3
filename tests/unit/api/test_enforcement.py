"""When a ConfigSet is enforced: at which moment it opens, closes, and which edge comes next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from nodemanager.api.common import enforcement
from nodemanager.api.common.enforcement import EnforcedSpan, Enforcement

DAY = datetime(2026, 3, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def at(hour: int) -> datetime:
    return DAY + timedelta(hours=hour)


def spans(*hours: tuple[int, int | None]) -> Enforcement:
    return Enforcement(
        openings=[
            EnforcedSpan(
                start=f"{at(start):%Y-%m-%dT%H:%M:%SZ}",
                end=None if end is None else f"{at(end):%Y-%m-%dT%H:%M:%SZ}",
            )
            for start, end in hours
        ]
    )


TWO = spans((2, 4), (6, 8))
OVERLAPPING = spans((2, 4), (3, 5))
ENDLESS = spans((2, 4), (3, None))
NEVER = Enforcement()
UNREADABLE = Enforcement(
    openings=[EnforcedSpan(start="soon"), EnforcedSpan(start="2026-03-01T00:00:00Z", end="x")]
)


@pytest.mark.parametrize(
    ("moment", "is_open", "closes", "opens"),
    [
        pytest.param(at(2) - SECOND, False, None, at(2), id="before it opens"),
        pytest.param(at(2), True, at(4), at(6), id="the moment it opens"),
        pytest.param(at(4) - SECOND, True, at(4), at(6), id="before it closes"),
        pytest.param(at(4), False, None, at(6), id="the moment it closes"),
        pytest.param(at(7), True, at(8), None, id="in the last one"),
        pytest.param(at(8), False, None, None, id="after the last one"),
    ],
)
def test_two_openings(
    moment: datetime, is_open: bool, closes: datetime | None, opens: datetime | None
) -> None:
    assert enforcement.is_open(TWO, moment) is is_open
    assert enforcement.closes_at(TWO, moment) == closes
    assert enforcement.opens_at(TWO, moment) == opens


def test_of_openings_that_overlap_the_later_end_counts() -> None:
    assert enforcement.closes_at(OVERLAPPING, at(3)) == at(5)
    assert enforcement.closes_at(OVERLAPPING, at(2)) == at(4), "the second one has not begun"
    assert enforcement.closes_at(ENDLESS, at(2)) == at(4)
    assert enforcement.closes_at(ENDLESS, at(3)) is None
    assert enforcement.is_open(ENDLESS, at(1000))


def test_a_set_without_enforcement_is_always_enforced() -> None:
    assert enforcement.is_open(None, DAY)
    assert enforcement.closes_at(None, DAY) is None
    assert enforcement.opens_at(None, DAY) is None


@pytest.mark.parametrize("none", [NEVER, UNREADABLE], ids=["never", "unreadable"])
def test_while_in_doubt_nothing_is_changed(none: Enforcement) -> None:
    assert not enforcement.is_open(none, DAY)
    assert enforcement.closes_at(none, DAY) is None
    assert enforcement.opens_at(none, DAY) is None
    assert enforcement.next_edge([none], DAY) is None


def test_the_next_edge_of_several_sets() -> None:
    several = [None, TWO, spans((3, 7)), spans((5, None))]
    edges, moment = [], DAY
    while (found := enforcement.next_edge(several, moment)) is not None:
        edges.append(found)
        moment = found
    assert edges == [at(2), at(3), at(4), at(5), at(6), at(7), at(8)]
