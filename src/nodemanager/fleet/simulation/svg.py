"""A simulation as a picture: a line for every host, a bar for every visit."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from nodemanager.fleet.maintenance.claims import State
from nodemanager.fleet.simulation.axis import axis
from nodemanager.fleet.simulation.engine import Engine

WIDTH: Final = 900
LEFT: Final = 160
TOP: Final = 40
COLOURS: Final = {State.DONE: "#2a7f62", State.UNDONE: "#c98a1b", State.HALTED: "#b3261e"}
MOST_NAMES: Final = 200
"""With more hosts than that, the lines are too close for names."""


def picture(engine: Engine) -> str:
    """Return the timeline as SVG."""
    return "\n".join(_elements(engine)) + "\n"


def _elements(engine: Engine) -> Iterator[str]:
    spans = sorted(engine.record.spans, key=lambda one: (one.start, one.host))
    order = {host: place for place, host in enumerate(dict.fromkeys(one.host for one in spans))}
    scale = axis(spans, WIDTH)
    step = 12 if len(order) <= MOST_NAMES else 3
    height = TOP + step * len(order) + 30
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}"'
        ' font-family="sans-serif" font-size="10" role="img">'
    )
    yield f"<title>{escape(_title(engine))}</title>"
    yield '<rect width="100%" height="100%" fill="#ffffff"/>'
    for period in scale.periods:
        place = LEFT + scale.at(period.start)
        yield f'<line x1="{place:.1f}" y1="{TOP - 6}" x2="{place:.1f}" y2="{height - 24}" stroke="#bbbbbb"/>'
        yield f'<text x="{place + 2:.1f}" y="{TOP - 10}">{period.start:%a %m-%d %H:%M}Z</text>'
    if step > 3:
        for host, place in order.items():
            y = TOP + place * step + 9
            yield f'<text x="{LEFT - 6}" y="{y}" text-anchor="end">{escape(host[-24:])}</text>'
    for one in spans:
        start, end = scale.at(one.start), scale.at(one.end)
        y = TOP + order[one.host] * step
        said = f"{one.host}: {one.state} for {one.maintenance}" + (f" ({one.reason})" if one.reason else "")
        yield (
            f'<rect x="{LEFT + start:.1f}" y="{y + 1}" width="{max(end - start, 1):.1f}" height="{step - 2}"'
            f' fill="{COLOURS[one.state]}"><title>{escape(said)}</title></rect>'
        )
    place = LEFT
    for state, colour in COLOURS.items():
        yield f'<rect x="{place}" y="{height - 16}" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{place + 14}" y="{height - 7}">{state}</text>'
        place += 80
    yield "</svg>"


def _title(engine: Engine) -> str:
    names = ", ".join(one.name for one in engine.maintenances)
    return f"{names} on {len(engine.hosts)} hosts: {len(engine.record.spans)} visits"
