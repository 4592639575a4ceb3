"""A process with one watch open, ours beside the official client's, on the same server."""

from __future__ import annotations

import importlib.util
import statistics
from dataclasses import dataclass

from bench import processes, script
from bench.report import Goal, Row, Section
from bench.settings import Settings

NAME = "process"
GOAL = Goal(30.0, "MiB")
NODES = 20
_TITLE = "kubeconfig, TLS, client certificate and token; list, watch, first event"
_NO_OFFICIAL = "no official client: it is not installed, `make bench` does that"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process needed until its first event."""

    mebibytes: float
    wall: float
    cpu: float


def run(settings: Settings) -> Section:
    """Measure all processes, taking turns."""
    watching = (str(settings.endpoint.https), script.Script(nodes=NODES, events=1).selector())
    programs: dict[str, tuple[str, ...]] = {
        "bare interpreter": ("bench.children.bare",),
        "import asyncio, ssl": ("bench.children.bare", "asyncio", "ssl"),
        "ours": ("bench.children.ours", *watching),
    }
    official = importlib.util.find_spec("kubernetes") is not None
    if official:
        programs["official client"] = ("bench.children.official", *watching)
    measured: dict[str, list[Cost]] = {what: [] for what in programs}
    for turn in range(settings.pick(7, 1) + 1):
        for what, (module, *args) in programs.items():
            cost = _cost(module, *args)
            if turn:  # the first turn has the imports compiled
                measured[what].append(cost)
    return Section(NAME, _TITLE, _rows(measured), "" if official else _NO_OFFICIAL)


def _cost(module: str, *args: str) -> Cost:
    ran = processes.measure(module, *args)
    return Cost(ran.answer["kilobytes"] / 1024, ran.answer["at"] - ran.started, ran.answer["cpu"])


def _rows(measured: dict[str, list[Cost]]) -> list[Row]:
    ours = measured["ours"]
    rows = []
    for what, costs in measured.items():
        size, base = (statistics.median(each.mebibytes for each in some) for some in (costs, ours))
        goal = GOAL if what == "ours" else None
        rows.append(Row(f"resident, {what}", size, "MiB", size / base, goal))
    for label, attribute in (("CPU", "cpu"), ("time", "wall")):
        for what, costs in measured.items():
            times = [getattr(each, attribute) for each in costs]
            ratios = [time / getattr(own, attribute) for time, own in zip(times, ours, strict=True)]
            reached = "to first event" if what in ("ours", "official client") else "to the end"
            value, ratio = statistics.median(times) * 1000, statistics.median(ratios)
            rows.append(Row(f"{label} {reached}, {what}", value, "ms", ratio))
    return rows
