"""How far a run is: bars, counts, and moments in few characters."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from nodemanager.api.maintenance.maintenance_status import HostCounts, WindowState
from nodemanager.cli.views import output

WIDTH: Final = 20
"""Columns of a bar, without what is around it."""
_COLOURS: Final = {"#": "green", "!": "red", ">": "cyan", ".": ""}


def bar(counts: HostCounts, width: int = WIDTH, style: output.Style = output.PLAIN) -> str:
    """Return a bar: `#` is done, `!` failed, `>` in work, `.` not begun with or left out.

    Whatever there is at all gets a column, so that one failure of a thousand hosts is seen.
    """
    parts = {"#": counts.succeeded, "!": counts.failed, ">": counts.running}
    total = max(counts.total, sum(parts.values()), 1)
    columns = {mark: max(1, many * width // total) if many else 0 for mark, many in parts.items()}
    while sum(columns.values()) > width:
        columns[max(columns, key=lambda mark: columns[mark])] -= 1
    if sum(parts.values()) == total:
        columns["#" if parts["#"] else "!"] += width - sum(columns.values())
    columns["."] = width - sum(columns.values())
    return "[" + "".join(style.paint(mark * many, _COLOURS[mark]) for mark, many in columns.items()) + "]"


def hosts(counts: HostCounts | None) -> str:
    """Return how many hosts are done, of how many."""
    return f"{counts.succeeded}/{counts.total}" if counts is not None else "-"


def summary(counts: HostCounts) -> str:
    """Return all counts that are not zero, in words."""
    named = {
        "succeeded": counts.succeeded, "failed": counts.failed, "skipped": counts.skipped,
        "in work": counts.running, "waiting": counts.waiting,
    }  # fmt: skip
    return ", ".join(f"{many} {name}" for name, many in named.items() if many) or "no hosts"


def until(timestamp: str | None, now: datetime) -> str:
    """Return how long it is until a moment: `in 3h`; `now` if it is over, `-` if there is none."""
    moment = output.parse_time(timestamp)
    if moment is None:
        return "-"
    return f"in {output.human_duration((moment - now).total_seconds())}" if moment > now else "now"


def window(state: WindowState | None, now: datetime) -> str:
    """Return whether a window is open, and how long that lasts."""
    if state is None:
        return "-"
    if not state.open:
        opens = until(state.opens_at, now)
        return "shut" if opens == "-" else f"opens {opens}"
    closes = output.parse_time(state.closes_at)
    if closes is None:
        return "open"
    return f"open, {output.human_duration(max(0.0, (closes - now).total_seconds()))} left"


def took(started: str | None, ended: str | None) -> str:
    """Return how long something took; `-` if that is not known."""
    begin, end = output.parse_time(started), output.parse_time(ended)
    return "-" if begin is None or end is None else output.human_duration((end - begin).total_seconds())
