"""Resident memory per cached ManagedNode, beside other ways to keep one."""

from __future__ import annotations

from bench import processes
from bench.report import Goal, Row, Section
from bench.settings import Settings

NAME = "memory"
GOAL = Goal(8.0, "KiB")
_FORMS = {
    "streamed": "our cache, streamed list",
    "paged": "our cache, paged list",
    "dicts": "dicts by json",
}


def run(settings: Settings) -> Section:
    """Measure every form in a process of its own."""
    few, many = settings.pick(5000, 1000), settings.pick(20_000, 2000)
    base = _measure(settings, "bytes", few)
    rows = [Row(f"raw bytes, {few} nodes", base, "KiB", 1.0)]
    for form, what in _FORMS.items():
        value = _measure(settings, form, few)
        goal = None if form == "dicts" else GOAL
        rows.append(Row(f"{what}, {few} nodes", value, "KiB", value / base, goal))
    value = _measure(settings, "streamed", many)
    rows.append(Row(f"our cache, streamed list, {many} nodes", value, "KiB", value / base, GOAL))
    return Section(NAME, "resident memory per cached node, relative to keeping its bytes", rows)


def _measure(settings: Settings, form: str, count: int) -> float:
    args = (str(settings.endpoint.https), form, str(count))
    return float(processes.measure("bench.children.memory", *args).answer["kilobytes"])
