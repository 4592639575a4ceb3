"""Layouts of boxes in rows, with arrows that point down: nobody places a box by hand.

rows, arrows  ->  an arrow that passes a row has a place there  ->  an order with few crossings
              ->  how far to the right each is  ->  a diagram
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tools.website.diagrams import Arrow, Box, Diagram

Edge = tuple[str, str]
"""From the one above to the one below."""

_WIDE: Final = 104.0
_HIGH: Final = 38.0
_DOWN: Final = 84.0
"""From one row to the next."""
_APART: Final = 14.0
_MARGIN: Final = 6.0
_STEADY: Final = 8.0
"""How much more it counts that a passing arrow goes straight on than that a box is below another."""
_ROUNDS: Final = 60
_ROUNDS_TO_COMPARE: Final = 8


@dataclass(frozen=True, order=True, slots=True)
class _Spot:
    """A place in a row: of a box, or of the arrows to one that pass this row together."""

    row: int
    name: str
    passing: bool = False

    @property
    def width(self) -> float:
        return 0.0 if self.passing else _WIDE


_Rows = list[list[_Spot]]
_Step = tuple[_Spot, _Spot]
"""From one row to the next."""


def diagram(
    title: str, rows: Sequence[Sequence[str]], edges: Sequence[Edge], kinds: Mapping[str, str]
) -> Diagram:
    """Return a picture of boxes in rows; those that `kinds` does not name are of the kind `box`.

    The order in a row is where the search for few crossings begins.
    """
    ways = [_way(rows, edge) for edge in edges]
    steps = sorted({step for way in ways for step in itertools.pairwise(way)})
    spots = [[_Spot(number, name) for name in row] for number, row in enumerate(rows)]
    for spot in sorted({spot for way in ways for spot in way if spot.passing}):
        spots[spot.row].append(spot)
    centres = _placed(_ordered(spots, steps), steps, _ROUNDS)
    left = min(centre - spot.width / 2 for spot, centre in centres.items()) - _MARGIN
    across = {spot: round(centre - left, 1) for spot, centre in centres.items()}
    boxes = {
        spot.name: Box(x - _WIDE / 2, _top(spot), _WIDE, _HIGH, spot.name, (), kinds.get(spot.name, "box"))
        for spot, x in across.items()
        if not spot.passing
    }
    width = max(x + spot.width / 2 for spot, x in across.items()) + _MARGIN
    arrows = [_arrow(way, steps, across) for way in ways]
    return Diagram(title, (width, _DOWN * (len(rows) - 1) + _HIGH + 2 * _MARGIN), boxes, arrows)


def _way(rows: Sequence[Sequence[str]], edge: Edge) -> list[_Spot]:
    """Return where an arrow is in each row; on their way, arrows to the same box are one."""
    (above, below) = (next(row for row, names in enumerate(rows) if name in names) for name in edge)
    passed = (_Spot(row, edge[1], passing=True) for row in range(above + 1, below))
    return [_Spot(above, edge[0]), *passed, _Spot(below, edge[1])]


def _ordered(rows: _Rows, steps: Sequence[_Step]) -> _Rows:
    """Return the rows in an order in which moving no one spot makes it better."""
    pairs = [(one, other) for one, other in itertools.combinations(steps, 2) if one[0].row == other[0].row]
    spots = [spot for row in rows for spot in row]
    best, cost = rows, _cost(rows, steps, _crossing(rows, pairs))
    tried = 0
    for spot in itertools.cycle(spots):
        for moved in _moved(best, spot):
            crossing = _crossing(moved, pairs)
            if len(crossing) <= cost[0] and (other := _cost(moved, steps, crossing)) < cost:
                best, cost, tried = moved, other, 0
        tried += 1
        if tried > len(spots):
            break
    return best


def _moved(rows: _Rows, spot: _Spot) -> Iterator[_Rows]:
    others = [one for one in rows[spot.row] if one != spot]
    for place in range(len(others) + 1):
        row = [*others[:place], spot, *others[place:]]
        yield [*rows[: spot.row], row, *rows[spot.row + 1 :]]


def _crossing(rows: _Rows, pairs: Sequence[tuple[_Step, _Step]]) -> list[tuple[_Step, _Step]]:
    place = {spot: number for row in rows for number, spot in enumerate(row)}
    return [
        (one, other)
        for one, other in pairs
        if (place[one[0]] - place[other[0]]) * (place[one[1]] - place[other[1]]) < 0
    ]


def _cost(rows: _Rows, steps: Sequence[_Step], crossing: Sequence[tuple[_Step, _Step]]) -> tuple[int, float]:
    """Return how many steps cross, then how wide it all is and how far the steps go aside.

    Two that go to the same side where they cross are hard to tell apart, and count twice.
    """
    centres = _placed(rows, steps, _ROUNDS_TO_COMPARE)
    aside = {(one, other): centres[other] - centres[one] for one, other in steps}
    alike = sum(aside[one] * aside[other] > 0 for one, other in crossing)
    width = max(centres.values()) - min(centres.values())
    return len(crossing) + alike, round(width + sum(map(abs, aside.values())), 3)


def _placed(rows: _Rows, steps: Sequence[_Step], rounds: int) -> dict[_Spot, float]:
    """Return the middle of each spot: near those that arrows join it to, and clear of its neighbours."""
    joined: dict[_Spot, list[_Spot]] = {spot: [] for row in rows for spot in row}
    for one, other in steps:
        joined[one].append(other)
        joined[other].append(one)
    centres: dict[_Spot, float] = {}
    for row in rows:
        centres |= _spread(row, dict.fromkeys(row, 0.0))
    for number in range(rounds):
        for row in rows if number % 2 else reversed(rows):
            wanted = {spot: statistics.fmean(centres[one] for one in joined[spot] or row) for spot in row}
            centres |= _spread(row, wanted)
    return centres


def _spread(row: Sequence[_Spot], wanted: Mapping[_Spot, float]) -> dict[_Spot, float]:
    """Return the middles nearest to those that are wanted, by least squares, of spots that do not overlap.

    Taken together are neighbours that would overlap: each such group is where its members want it on average.
    """
    gaps = [(one.width + other.width) / 2 + _APART for one, other in itertools.pairwise(row)]
    offsets = list(itertools.accumulate(gaps, initial=0.0))
    groups: list[tuple[float, float, int]] = []
    for spot, offset in zip(row, offsets, strict=False):
        place, weight, count = wanted[spot] - offset, _STEADY if spot.passing else 1.0, 1
        while groups and groups[-1][0] >= place:
            before, heavy, many = groups.pop()
            place = (place * weight + before * heavy) / (weight + heavy)
            weight, count = weight + heavy, count + many
        groups.append((place, weight, count))
    places = [place for place, _, count in groups for _ in range(count)]
    return {spot: place + offset for spot, place, offset in zip(row, places, offsets, strict=False)}


def _arrow(way: Sequence[_Spot], steps: Sequence[_Step], across: Mapping[_Spot, float]) -> Arrow:
    first, last = way[0], way[-1]
    leaving = sorted((below for above, below in steps if above == first), key=across.__getitem__)
    arriving = sorted((above for above, below in steps if below == last), key=across.__getitem__)
    start, end = _share(leaving, way[1]), _share(arriving, way[-2])
    through = [(across[spot], _top(spot) + down) for spot in way[1:-1] for down in (0, _HIGH)]
    return Arrow(f"{first.name}:b.{start}", f"{last.name}:t.{end}", through=through)


def _share(spots: Sequence[_Spot], spot: _Spot) -> str:
    """Return the part of a side that belongs to one of several, as `Box.side` reads it."""
    return f"{(spots.index(spot) + 1) / (len(spots) + 1):.4f}".removeprefix("0.")


def _top(spot: _Spot) -> float:
    return _MARGIN + spot.row * _DOWN
