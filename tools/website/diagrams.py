"""Boxes and arrows: a diagram is a list of both, placed by hand, and drawn the same way everywhere."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tools.website import svg

_STYLE: Final = (
    ".box{fill:var(--paper);stroke:var(--line);stroke-width:1.5}"
    ".main{fill:var(--wash);stroke:var(--accent);stroke-width:1.5}"
    ".frame{fill:var(--frame);stroke:var(--line);stroke-dasharray:5 4}"
    ".name{font-size:15px;font-weight:600;text-anchor:middle}"
    ".note{font-size:12.5px;fill:var(--soft);text-anchor:middle}"
    ".said{font-size:12.5px;fill:var(--soft)}"
    ".arrow{fill:none;stroke:var(--line);stroke-width:1.6;marker-end:url(#tip)}"
    ".both{marker-start:url(#tip)}.loose{stroke-dasharray:4 4}"
    "#tip path{fill:var(--line)}"
)
_TIP: Final = (
    '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z"/></marker></defs>'
)
_LINE: Final = 17.0
_CORNER: Final = 8.0
_DETOUR: Final = 20.0
_OUTWARDS: Final = {"l": (-1.0, 0.0), "r": (1.0, 0.0), "t": (0.0, -1.0), "b": (0.0, 1.0)}

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    """A part, with its name and lines of what it is; `kind` is `box`, `main`, or `frame` around others."""

    x: float
    y: float
    width: float
    height: float
    name: str
    notes: tuple[str, ...] = ()
    kind: str = "box"
    low: bool = False
    """Has its name at the bottom: of a frame that arrows enter from above."""

    def side(self, where: str) -> tuple[Point, Point]:
        """Return a point on the edge, and the way outwards: `t` is the middle of the top, `t.2` a fifth."""
        share = float(where[1:]) if where[1:] else 0.5
        outwards = _OUTWARDS[where[0]]
        x = self.x + self.width * (share if outwards[0] == 0 else max(outwards[0], 0))
        y = self.y + self.height * (share if outwards[1] == 0 else max(outwards[1], 0))
        return (x, y), outwards


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one side of a box to one of another, as `cache:b`; `said` is written beside it at `at`."""

    start: str
    end: str
    said: str = ""
    at: Point = (0, 0)
    anchor: str = "start"
    """Which end of what is said stands at `at`: `start` or `end`."""
    looks: str = ""
    """`both`: with two heads; `loose`: dashed."""
    through: Sequence[Point] | None = None
    """Points that a curve passes on its way down; None: it is no curve, and turns at right angles."""


@dataclass(frozen=True, slots=True)
class Diagram:
    """A picture, and what it says to those who cannot see it."""

    title: str
    size: tuple[float, float]
    boxes: Mapping[str, Box]
    arrows: Sequence[Arrow] = field(default=())

    def draw(self) -> str:
        """Return the SVG."""
        body = [_TIP]
        for box in self.boxes.values():
            body += _box(box)
        for arrow in self.arrows:
            body += self._arrow(arrow)
        return svg.document(self.size, self.title, body, _STYLE)

    def _arrow(self, arrow: Arrow) -> Iterator[str]:
        (start, leaving), (end, arriving) = (self._end(name) for name in (arrow.start, arrow.end))
        looks = f"arrow {arrow.looks}".strip()
        if arrow.through is None:
            way = _rounded(_corners(start, leaving, end, arriving))
        else:
            way = _curved([start, *arrow.through, end])
        yield svg.element("path", class_=looks, d=way)
        if arrow.said:
            yield svg.element(
                "text", arrow.said, class_="said", x=arrow.at[0], y=arrow.at[1], text_anchor=arrow.anchor
            )

    def _end(self, name: str) -> tuple[Point, Point]:
        box, _, side = name.partition(":")
        return self.boxes[box].side(side)


def _box(box: Box) -> Iterator[str]:
    yield svg.element(
        "rect", class_=box.kind, x=box.x, y=box.y, width=box.width, height=box.height, rx=8
    )  # fmt: skip
    middle = box.x + box.width / 2
    if box.kind == "frame":
        first = box.y + (box.height - 12 if box.low else 20)
    else:
        first = box.y + box.height / 2 + 5 - _LINE * len(box.notes) / 2
    yield svg.element("text", box.name, class_="name", x=middle, y=first)
    for place, note in enumerate(box.notes, 1):
        yield svg.element("text", note, class_="note", x=middle, y=first + place * _LINE)


def _corners(start: Point, leaving: Point, end: Point, arriving: Point) -> list[Point]:
    """Return the points of a way that leaves and arrives at a right angle."""
    if leaving == arriving and leaving[0]:
        x = (max if leaving[0] > 0 else min)(start[0], end[0]) + leaving[0] * _DETOUR
        return [start, (x, start[1]), (x, end[1]), end]
    if leaving[0] and arriving[0]:
        x = (start[0] + end[0]) / 2
        return [start, (x, start[1]), (x, end[1]), end]
    if leaving[1] and arriving[1]:
        y = (start[1] + end[1]) / 2
        return [start, (start[0], y), (end[0], y), end]
    return [start, (end[0], start[1]) if leaving[0] else (start[0], end[1]), end]


def _rounded(points: Sequence[Point]) -> str:
    words = [f"M{_pair(points[0])}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        words.append(f"L{_pair(_towards(corner, before))}Q{_pair(corner)} {_pair(_towards(corner, after))}")
    return "".join([*words, f"L{_pair(points[-1])}"])


def _curved(points: Sequence[Point]) -> str:
    """Return a way that leaves every point straight down, and arrives so at the next."""
    words = [f"M{_pair(points[0])}"]
    for before, after in itertools.pairwise(points):
        middle = (before[1] + after[1]) / 2
        bend = f"C{_pair((before[0], middle))} {_pair((after[0], middle))} {_pair(after)}"
        words.append(f"L{_pair(after)}" if before[0] == after[0] else bend)
    return "".join(words)


def _towards(corner: Point, other: Point) -> Point:
    """Return where the rounding of a corner ends on the way to another point."""
    across, down = other[0] - corner[0], other[1] - corner[1]
    length = max(abs(across), abs(down))
    part = min(_CORNER, length / 2) / length if length else 0.0
    return corner[0] + across * part, corner[1] + down * part


def _pair(point: Point) -> str:
    return f"{svg.number(point[0])} {svg.number(point[1])}"
