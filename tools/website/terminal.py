"""A recorded terminal as SVG: lines light up once, as they came; all of them are there without that, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tools.website import cast, record, svg

PICTURE: Final = "docs/pictures/demo.svg"
_CELL: Final = 8.4
_LINE: Final = 19.0
_EDGE: Final = 18.0
_BAR: Final = 36.0
_LEAST, _MOST = 0.5, 1.6
"""Seconds between two pieces: what is quicker cannot be followed, what is slower is waiting."""
_COLOUR: Final = re.compile(r"\x1b\[([0-9;]*)m")
_LOOKS: Final = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "36": "c"}
_STYLE: Final = (
    f"text{{font:14px {svg.MONO};fill:#d7e3e8;white-space:pre}}"
    ".win{fill:#0e1a20;stroke:#31464f}.dot{fill:#31464f}.head{fill:#8ca3ad;font-size:12.5px;text-anchor:middle}"
    ".p{fill:#2dd4bf}.t{fill:#fff;font-weight:600}.g{fill:#5fd38d}.r{fill:#ff7b72}.y{fill:#f2c94c}.c{fill:#56c8d8}"
    ".d{fill:#8ca3ad}.b{font-weight:700}"
    "@keyframes show{from{opacity:.3}}g{animation:show .25s backwards}"
    "@media (prefers-reduced-motion:reduce){g{animation:none}}@media print{g{animation:none}}"
)


def files() -> dict[str, str]:
    """Return the picture, by its path below the root of the repository."""
    recorded = (record.ROOT / record.CAST).read_text(encoding="utf-8")
    return {PICTURE: draw(cast.load(recorded))}


def draw(recorded: cast.Cast) -> str:
    """Return the SVG of a recording."""
    width = recorded.columns * _CELL + 2 * _EDGE
    rows = recorded.text().count("\n")
    height = _BAR + rows * _LINE + _EDGE
    body = [
        svg.element("rect", class_="win", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=10),
        *(svg.element("circle", class_="dot", cx=x, cy=20, r=6) for x in (22, 42, 62)),
        svg.element("text", recorded.title, class_="head", x=width / 2, y=24),
        *_played(recorded),
    ]
    plain = _COLOUR.sub("", recorded.text())
    return svg.document((width, height), f"A recorded terminal.\n{plain}", body, _STYLE)


def _played(recorded: cast.Cast) -> Iterator[str]:
    y = _BAR + _LINE
    shown_at = before = 0.0
    for second, piece in recorded.pieces:
        shown_at += min(max(second - before, _LEAST), _MOST)
        before = second
        yield f'<g style="animation-delay:{svg.number(shown_at)}s">'
        for line in piece.splitlines():
            yield from _line(line, y)
            y += _LINE
        yield "</g>"


def _line(line: str, y: float) -> Iterator[str]:
    """Yield the runs of one colour, each as wide as its columns, whatever font there is."""
    column = 0
    for looks, text in _runs(line):
        if text.strip():
            leading = len(text) - len(text.lstrip())
            shown = text.strip()
            yield svg.element(
                "text", shown, class_=looks, x=_EDGE + (column + leading) * _CELL, y=y,
                textLength=len(shown) * _CELL, lengthAdjust="spacingAndGlyphs",
            )  # fmt: skip
        column += len(text)


def _runs(line: str) -> Iterator[tuple[str, str]]:
    if line.startswith("$ "):
        yield "p", "$ "
        yield "t", line[2:]
        return
    looks = "o"
    for place, part in enumerate(_COLOUR.split(line)):
        if place % 2:
            looks = " ".join(_LOOKS[code] for code in part.split(";") if code in _LOOKS) or "o"
        elif part:
            yield looks, part
