"""Horizontal bars with a name at their left and a number at their right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tools.website import svg

_WIDTH: Final = 520.0
_LEFT: Final = 192.0
_RIGHT: Final = 462.0
_TOP: Final = 58.0
_ROW: Final = 27.0
_THICK: Final = 13.0
_ROOM: Final = 56.0
"""What a number needs between its bar and a goal; with less, it is written behind the goal."""
_STYLE: Final = (
    ".head{font-size:15px;font-weight:600}.sub,.tick{font-size:12px;fill:var(--soft)}"
    ".tick{text-anchor:middle}.grid{stroke:var(--grid)}.axis{stroke:var(--line)}.label{text-anchor:end}"
    ".bar{fill:var(--line)}.ours{fill:var(--accent)}.goal{stroke:var(--warm);stroke-width:2.5}"
)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar, to `end` from `begin` or from the axis."""

    label: str
    end: float
    text: str
    begin: float | None = None
    ours: bool = False
    goal: float | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """Bars over one axis, whose first and last tick are its ends."""

    title: str
    caption: str
    bars: tuple[Bar, ...]
    ticks: Mapping[float, str]
    log: bool = False

    def draw(self) -> str:
        """Return the SVG."""
        bottom = _TOP + _ROW * len(self.bars)
        body = [
            svg.element("text", self.title, class_="head", x=8, y=20),
            svg.element("text", self.caption, class_="sub", x=8, y=39),
            *self._axis(bottom),
        ]
        for place, bar in enumerate(self.bars):
            body += self._bar(bar, _TOP + _ROW * place + (_ROW - _THICK) / 2)
        said = "; ".join(f"{bar.label}: {bar.text}" for bar in self.bars)
        return svg.document((_WIDTH, bottom + 26), f"{self.title}. {said}", body, _STYLE)

    def _axis(self, bottom: float) -> Iterator[str]:
        start = self._origin()
        for value, text in self.ticks.items():
            x = self._x(value)
            looks = "axis" if value == start else "grid"
            yield svg.element("line", class_=looks, x1=x, y1=_TOP, x2=x, y2=bottom)
            yield svg.element("text", text, class_="tick", x=x, y=bottom + 17)

    def _bar(self, bar: Bar, y: float) -> Iterator[str]:
        ends = sorted((self._x(self._origin() if bar.begin is None else bar.begin), self._x(bar.end)))
        looks = "bar ours" if bar.ours else "bar"
        yield svg.element("text", bar.label, class_="label", x=_LEFT - 10, y=y + 11)
        width = max(ends[1] - ends[0], 3)
        yield svg.element("rect", class_=looks, x=ends[0], y=y, width=width, height=_THICK, rx=3)
        if bar.goal is not None:
            x = self._x(bar.goal)
            yield svg.element("line", class_="goal", x1=x, y1=y - 4, x2=x, y2=y + _THICK + 4)
            if 0 < x - ends[1] < _ROOM:
                ends[1] = x
        yield svg.element("text", bar.text, x=ends[1] + 7, y=y + 11)

    def _origin(self) -> float:
        """Return where bars begin: at the same on both sides where there is a middle, else at the left."""
        begins = {bar.begin for bar in self.bars}
        common = begins.pop() if len(begins) == 1 else None
        return next(iter(self.ticks)) if common is None else common

    def _x(self, value: float) -> float:
        low, high, here = (math.log10(each) if self.log else each for each in (*self._ends(), value))
        return _LEFT + (_RIGHT - _LEFT) * (here - low) / (high - low)

    def _ends(self) -> tuple[float, float]:
        return min(self.ticks), max(self.ticks)
