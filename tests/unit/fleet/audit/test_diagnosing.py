"""Which records are named, and for what, where some do not fit together."""

from __future__ import annotations

import pytest

from nodemanager.fleet.audit import diagnosing
from nodemanager.fleet.audit.diagnosing import ChainLink

ALIEN = b"another one"


def leaf(number: int) -> bytes:
    return b"record %d" % number


def link(
    place: int, number: int | None = None, knew: bytes | None = None, own: bytes | None = None
) -> ChainLink:
    """Return what a record shows: its number, which one it knew before it, and its own hash."""
    before = leaf(place - 1) if knew is None else knew
    return ChainLink(place if number is None else number, before.hex(), leaf(place) if own is None else own)


def honest(*numbers: int) -> list[ChainLink]:
    return [link(one) for one in numbers]


UNREADABLE = ChainLink(-1, "", b"garbage")
MISFIT = "the next record knew another one"
ONE_OF = "one of them: they do not fit together"
TWICE, BEYOND = "there is more than one of this number", "no record of this number was signed here"
MOVED = "not in their order"
STRANGE = "it has another number, or cannot be read"


@pytest.mark.parametrize(
    ("links", "first", "before", "end", "said"),
    [
        # What is as it was written.
        pytest.param(honest(0, 1, 2), 0, None, 3, [], id="whole"),
        pytest.param(honest(3, 4, 5), 3, leaf(2), 6, [], id="a part, after what is known"),
        pytest.param(honest(3, 4, 5), 3, None, None, [], id="a part that nobody signed"),
        pytest.param([], 3, leaf(2), 3, [], id="nothing new"),
        # Numbers that are not there.
        pytest.param(honest(0, 1, 3), 0, None, 4, ["dropped: record 2: missing"], id="one is missing"),
        pytest.param(honest(0, 3), 0, None, 4, ["dropped: records 1 to 2: missing"], id="two in a row"),
        pytest.param(honest(5, 7), 4, leaf(3), 8,
                     ["dropped: record 4: missing", "dropped: record 6: missing"],
                     id="the first, and another"),
        pytest.param(honest(0, 1), 0, None, 4, ["dropped: records 2 to 3: missing"], id="the last ones"),
        pytest.param([], 3, None, 5, ["dropped: records 3 to 4: missing"], id="all"),
        pytest.param([link(0), link(2), link(3, own=ALIEN), link(4)], 0, None, 5,
                     ["dropped: record 1: missing"], id="where some are missing, nothing is said of links"),
        # Numbers that should not be there.
        pytest.param(honest(0, 1, 1, 2), 0, None, 3, [f"inserted: record 1: {TWICE}"],
                     id="twice"),
        pytest.param(honest(0, 2, 2, 0, 1), 0, None, 3,
                     [f"inserted: record 0: {TWICE}",
                      f"inserted: record 2: {TWICE}"], id="two of them twice"),
        pytest.param(honest(0, 1, 2, 3), 0, None, 3,
                     [f"inserted: record 3: {BEYOND}"],
                     id="beyond what was signed"),
        pytest.param(honest(2, 3, 4), 3, None, 5,
                     [f"inserted: record 2: {BEYOND}"], id="before it"),
        pytest.param([*honest(0, 1, 2, 9, 9)], 0, None, 3,
                     [f"inserted: record 9: {TWICE}"],
                     id="beyond, and said once"),
        # As many as there should be, with other numbers.
        pytest.param([link(0), UNREADABLE, link(2)], 0, None, 3, [f"altered: record 1: {STRANGE}"],
                     id="one cannot be read"),
        pytest.param([link(4), UNREADABLE, link(6)], 4, None, None, [f"altered: record 5: {STRANGE}"],
                     id="one of those that nobody signed cannot be read"),
        pytest.param([link(3), link(4, number=9), link(5, number=8)], 3, None, 6,
                     [f"altered: record 4: {STRANGE}", f"altered: record 5: {STRANGE}"], id="other numbers"),
        pytest.param(honest(5, 4), 5, None, 7, [f"altered: record 6: {STRANGE}"],
                     id="one of before is the last"),
        # Nobody signed how many there are.
        pytest.param(honest(0, 1, 3), 0, None, None, ["dropped: record 2: missing"],
                     id="unsigned, one is missing"),
        pytest.param(honest(4), 3, leaf(2), None, ["dropped: record 3: missing"],
                     id="unsigned, the first is missing"),
        pytest.param([*honest(0, 1), UNREADABLE], 0, None, None, [f"altered: record 2: {STRANGE}"],
                     id="unsigned, the last cannot be read"),
        pytest.param([UNREADABLE, UNREADABLE], 3, leaf(2), None,
                     [f"altered: record 3: {STRANGE}", f"altered: record 4: {STRANGE}"],
                     id="unsigned, none can be read"),
        pytest.param([link(0), link(1), link(2, number=9)], 0, None, None, [f"altered: record 2: {STRANGE}"],
                     id="unsigned, another number and still linked"),
        pytest.param([link(3, number=9), link(4)], 3, leaf(2), None, [f"altered: record 3: {STRANGE}"],
                     id="unsigned, another number for the first, linked to what is known"),
        pytest.param([link(0), UNREADABLE, link(3)], 0, None, None,
                     [f"altered: record 1: {STRANGE}", "dropped: record 2: missing"],
                     id="unsigned, one cannot be read and the next is missing"),
        # Another order.
        pytest.param(honest(1, 0), 0, None, 2, [f"reordered: records 0 to 1: {MOVED}"], id="all of them"),
        pytest.param(honest(0, 2, 1, 3), 0, None, 4, [f"reordered: records 1 to 2: {MOVED}"],
                     id="exchanged"),
        pytest.param(honest(5, 4, 6, 8, 7), 4, None, None,
                     [f"reordered: records 4 to 5: {MOVED}", f"reordered: records 7 to 8: {MOVED}"],
                     id="two pairs that nobody signed"),
        pytest.param([link(0), link(2), link(1, own=ALIEN), link(3), link(4)], 0, None, 5,
                     [f"reordered: records 1 to 2: {MOVED}", f"altered: record 1: {MISFIT}"],
                     id="exchanged, and one is another"),
        # Links that do not fit.
        pytest.param([link(0), link(1, own=ALIEN), link(2), link(3)], 0, None, 4,
                     [f"altered: record 1: {MISFIT}"], id="the next one knew another"),
        pytest.param([link(0), link(1, knew=ALIEN, own=ALIEN), link(2), link(3)], 0, None, 4,
                     [f"altered: record 1: {MISFIT}"],
                     id="it knew another, and the next one another than it"),
        pytest.param([link(0), link(1), link(2, own=ALIEN), link(3)], 0, None, 4,
                     [f"altered: records 2 to 3: {ONE_OF}"], id="nobody can tell which, as nothing follows"),
        pytest.param([link(0), link(1, knew=ALIEN, own=ALIEN), link(2)], 0, None, 3,
                     [f"altered: record 1: {MISFIT}"], id="it knew another, and is the last but one"),
        pytest.param([link(0, own=ALIEN), link(1), link(2, own=ALIEN), link(3), link(4)], 0, None, 5,
                     [f"altered: record 0: {MISFIT}", f"altered: record 2: {MISFIT}"], id="two apart"),
        pytest.param([link(3), link(4)], 3, ALIEN, None, [f"altered: record 2: {MISFIT}"],
                     id="not what follows on what is known"),
        pytest.param([link(3)], 3, ALIEN, None, [f"altered: records 2 to 3: {ONE_OF}"],
                     id="one, and it does not"),
        pytest.param([link(0)], 0, ALIEN, 1, [f"altered: record 0: {ONE_OF}"], id="the first of all"),
        pytest.param([link(0), link(1)], 0, ALIEN, 2, [f"altered: record 0: {MISFIT}"],
                     id="the first of two"),
    ],
)  # fmt: skip
def test_what_is_said_of_records(
    links: list[ChainLink], first: int, before: bytes | None, end: int | None, said: list[str]
) -> None:
    assert [str(one) for one in diagnosing.by_place(links, first, before, end)] == said


def test_what_was_left_out_before_anybody_signed_is_an_alarm_at_its_place() -> None:
    found = diagnosing.by_place(honest(3, 4, 6, 7), 3, leaf(2), None)
    assert [(one.first, one.last) for one in found] == [(5, 5)]


@pytest.mark.parametrize(
    ("numbers", "ranges"),
    [([], []), ([4], [(4, 4)]), ([1, 2, 3, 5, 7, 8], [(1, 3), (5, 5), (7, 8)]),
     ([-1, 0, 2], [(-1, 0), (2, 2)])],
)  # fmt: skip
def test_numbers_as_ranges(numbers: list[int], ranges: list[tuple[int, int]]) -> None:
    assert diagnosing.spans(numbers) == ranges
