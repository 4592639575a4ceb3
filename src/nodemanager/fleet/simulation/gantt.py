"""A simulation as text: which host did what, when, and what it waited for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from nodemanager.fleet.maintenance.claims import State
from nodemanager.fleet.maintenance.reasons import REMEDIES, Reason
from nodemanager.fleet.simulation.axis import Axis, axis
from nodemanager.fleet.simulation.engine import Engine
from nodemanager.fleet.simulation.record import SimRun, SimVisit
from nodemanager.kube.wording import plural

WIDTH: Final = 64
ROWS: Final = 25
"""How many hosts have a line of their own; with more, several share one."""
MARKS: Final = {State.DONE: "=", State.UNDONE: "u", State.HALTED: "!"}
_DENSITY: Final = ".:-=+*#"


def lines(engine: Engine) -> Iterator[str]:
    """Yield the lines of the report."""
    record = engine.record
    for run in record.runs:
        yield from _run(run)
    for one in engine.maintenances:
        if one.run is not None:
            how = "Stopped: too many hosts failed" if one.stopped else "has not ended"
            yield f"{one.name}: run {one.run.id} {how}"
            yield f"  began {_time(one.run.started_at)}, until {_time(engine.now)}"
        elif all(run.maintenance != one.name for run in record.runs):
            yield f"{one.name}: nothing was due"
    yield ""
    yield f"Most hosts unavailable at once: {record.peak} of {len(engine.hosts)}"
    if record.skipped:
        yield "Slots skipped: " + ", ".join(f"{reason} {n}" for reason, n in sorted(record.skipped.items()))
    yield from _failed(record.spans)
    yield from _waited(record.waited)
    if record.spans:
        yield ""
        yield from _chart(record.spans)


def _run(run: SimRun) -> Iterator[str]:
    yield f"{run.maintenance}: run {run.id} {run.outcome}"
    yield f"  began {_time(run.started)}, ended {_time(run.ended)}, makespan {span(run.ended - run.started)}"
    counts = ", ".join(f"{count} {stage}" for stage, count in sorted(run.counts.items()))
    yield f"  hosts: {counts or 'none'}"


def _failed(spans: Sequence[SimVisit]) -> Iterator[str]:
    bad: dict[Reason, int] = {}
    for one in spans:
        if one.state is not State.DONE and one.reason is not None:
            bad[one.reason] = bad.get(one.reason, 0) + 1
    if bad:
        yield "Visits that did not end well: " + ", ".join(
            f"{reason} {n}" for reason, n in sorted(bad.items())
        )


def _waited(waited: dict[Reason, timedelta]) -> Iterator[str]:
    if not waited:
        return
    yield ""
    yield "Hosts waited for, in hours of all hosts together:"
    longest = sorted(waited.items(), key=lambda one: (-one[1], one[0]))
    for reason, time in longest:
        yield f"  {reason:<18} {time / timedelta(hours=1):>12,.1f}  {REMEDIES[reason]}"


def _chart(spans: Sequence[SimVisit]) -> Iterator[str]:
    scale = axis(spans, WIDTH)
    order = list(dict.fromkeys(one.host for one in sorted(spans, key=lambda one: (one.start, one.host))))
    per_row = -(-len(order) // ROWS)
    left_out = "; quiet times are left out" if len(scale.periods) > 1 else ""
    yield f"{plural(len(order), 'host')} from {_time(min(one.start for one in spans))}{left_out}"
    place = {host: number // per_row for number, host in enumerate(order)}
    rows: dict[int, list[SimVisit]] = {}
    for one in spans:
        rows.setdefault(place[one.host], []).append(one)
    for number, found in sorted(rows.items()):
        first = order[number * per_row]
        label = first if per_row == 1 else f"{first} +{min(per_row, len(order) - number * per_row) - 1}"
        yield f"{label[-22:]:>22} |{_single(found, scale) if per_row == 1 else _dense(found, scale)}|"
    yield f"{'':>22} |{_ticks(scale)}|"
    if per_row == 1:
        yield "= done   u undone   ! halted"
    else:
        yield f"one line is {per_row} hosts: {_DENSITY[0]} few in work ... {_DENSITY[-1]} many; ! one halted"
    for number, period in enumerate(scale.periods, 1):
        if number > 10:
            yield f"  and {len(scale.periods) - 10} more times"
            break
        column = int(scale.at(period.start)) + 1
        yield f"  from column {column:>2}: {_time(period.start)} to {_time(period.end)}"


def _cells(one: SimVisit, scale: Axis) -> range:
    first = min(int(scale.at(one.start)), scale.width - 1)
    return range(first, max(first + 1, min(int(scale.at(one.end)), scale.width)))


def _single(found: Sequence[SimVisit], scale: Axis) -> str:
    row = [" "] * scale.width
    for one in sorted(found, key=lambda one: one.start):
        for cell in _cells(one, scale):
            row[cell] = MARKS[one.state]
    return "".join(row)


def _dense(found: Sequence[SimVisit], scale: Axis) -> str:
    counts = [0] * scale.width
    halted = [False] * scale.width
    for one in found:
        cells = _cells(one, scale)
        for cell in cells:
            counts[cell] += 1
        halted[cells[-1]] |= one.state is State.HALTED
    most = max(counts)
    return "".join(
        "!" if bad else _DENSITY[(count * len(_DENSITY) - 1) // most] if count else " "
        for count, bad in zip(counts, halted, strict=True)
    )


def _ticks(scale: Axis) -> str:
    row = ["-"] * scale.width
    for period in scale.periods:
        row[min(int(scale.at(period.start)), scale.width - 1)] = "+"
    return "".join(row)


def span(time: timedelta) -> str:
    """Return a time in two units, such as 7d3h."""
    minutes = int(time.total_seconds()) // 60
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    if days:
        return f"{days}d{hours}h"
    return f"{hours}h{minutes}m" if hours else f"{minutes}m"


def _time(moment: datetime) -> str:
    return f"{moment:%a %Y-%m-%d %H:%M}Z"
