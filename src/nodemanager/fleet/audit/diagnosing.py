"""Finds the record that was altered, by the numbers and by the hash of the previous record in each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

ALTERED: Final = "altered"
DROPPED: Final = "dropped"
REORDERED: Final = "reordered"
INSERTED: Final = "inserted"
REWRITTEN: Final = "rewritten"
TRUNCATED: Final = "truncated"
FORGED: Final = "forged"
FORKED: Final = "forked"
UNKNOWN_KEY: Final = "unknown key"
HEAD: Final = "altered head"


class ChainLink(NamedTuple):
    """The part of a record that shows its place."""

    sequence: int
    """The number; -1 = it cannot be read."""
    previous: str
    leaf: bytes


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A part of the log that is not as it was written."""

    kind: str
    first: int
    last: int
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def by_place(
    links: Sequence[ChainLink], first: int, before: bytes | None, end: int | None
) -> list[AuditFinding]:
    """Return what was done to records that should have the numbers from `first` on, as far as can be seen.

    `before` is the hash of the record in front of them, if that is known; `end` is where a checkpoint says
    that they end.
    """
    in_place = all(link.sequence == first + place for place, link in enumerate(links))
    complete = end is None or end == first + len(links)
    found = [] if in_place and complete else _misplaced(links, first, before, end)
    if not found or all(one.kind == REORDERED for one in found):
        found += _altered(_in_order(links), before)
    return found


def _misplaced(
    links: Sequence[ChainLink], first: int, before: bytes | None, end: int | None
) -> list[AuditFinding]:
    count = len(links) if end is None else end - first
    numbers = [link.sequence for link in links]
    missing = sorted(set(range(first, first + count)) - set(numbers))
    if end is None and missing:  # a number beyond the end does not prove that all numbers below were there
        missing = [one for one in missing if one < max(numbers) or numbers[one - first] < 0]
    twice = [number for number, times in Counter(numbers).items() if times > 1]
    if len(numbers) == count and missing:  # the count is right, so some records have a wrong number
        changed = [
            place
            for place, number in enumerate(numbers)
            if number != first + place
            and first + place in missing
            # Where nobody signed how many there are, one with a higher number may come after missing ones.
            and (end is not None or number < 0 or _follows(links, place, before))
        ]
        if changed:
            others = [one for one in missing if one - first not in changed]
            return [
                *(
                    _one(ALTERED, first + place, "it has another number, or cannot be read")
                    for place in changed
                ),
                *(_span(DROPPED, low, high, "missing") for low, high in spans(others)),
            ]
    found = [_span(DROPPED, low, high, "missing") for low, high in spans(missing)]
    found += [_one(INSERTED, one, "there is more than one of this number") for one in sorted(twice)]
    beyond = sorted({one for one in numbers if not first <= one < first + count and one not in twice})
    if end is not None:
        found += [_one(INSERTED, one, "no record of this number was signed here") for one in beyond]
    moved = [] if found else [one for place, one in enumerate(numbers) if one != first + place]
    return found + [_span(REORDERED, low, high, "not in their order") for low, high in spans(sorted(moved))]


def _follows(links: Sequence[ChainLink], place: int, before: bytes | None) -> bool:
    """Whether this record is linked to the one in front of it, whatever its number."""
    last = links[place - 1].leaf if place else before
    return last is not None and links[place].previous == last.hex()


def _in_order(links: Sequence[ChainLink]) -> list[ChainLink]:
    known: dict[int, ChainLink] = {}
    for link in links:
        known.setdefault(link.sequence, link)
    return [known[number] for number in sorted(known) if number >= 0]


def _altered(links: Sequence[ChainLink], before: bytes | None) -> list[AuditFinding]:
    """Find the records that differ from those that the next record was linked to.

    Where the link between two is broken, either the first was changed, or the link in the second one. In
    the latter case the record after that does not fit, either.
    """
    broken: list[int] = []
    last = before
    for place, link in enumerate(links):
        if last is not None and link.previous != last.hex():
            broken.append(place)
        adjacent = place + 1 < len(links) and links[place + 1].sequence == link.sequence + 1
        last = link.leaf if adjacent else None
    found: list[AuditFinding] = []
    explained = -1
    for place in broken:
        if place == explained:
            continue
        number = links[place].sequence
        if place + 1 in broken:
            found.append(_one(ALTERED, number, "the next record knew another one"))
            explained = place + 1
        elif place + 1 == len(links):
            found.append(_span(ALTERED, max(number - 1, 0), number, "one of them: they do not fit together"))
        else:
            found.append(_one(ALTERED, max(number - 1, 0), "the next record knew another one"))
    return found


def spans(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return sorted numbers as ranges, both ends included."""
    found: list[tuple[int, int]] = []
    for one in numbers:
        if found and one == found[-1][1] + 1:
            found[-1] = found[-1][0], one
        else:
            found.append((one, one))
    return found


def _one(kind: str, number: int, why: str) -> AuditFinding:
    return AuditFinding(kind, number, number, f"record {number}: {why}")


def _span(kind: str, low: int, high: int, why: str) -> AuditFinding:
    return (
        _one(kind, low, why)
        if low == high
        else AuditFinding(kind, low, high, f"records {low} to {high}: {why}")
    )
