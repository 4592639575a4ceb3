"""The progress of a run: in place on a terminal, line by line elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final, Protocol, TextIO

from nodemanager.api.maintenance.maintenance_status import HostCounts
from nodemanager.cli.maintenance.following import FollowedHost, Progressed
from nodemanager.cli.views import output
from nodemanager.cli.views.maintenance import progress
from nodemanager.kube.wording import plural

ROWS: Final = 12
"""Hosts that a terminal shows at once."""
_OVER: Final = ("Succeeded",)
BAD: Final = ("Failed", "Undone", "Halted", "Expired", "Refused")


class Show(Protocol):
    """Shows how far a run is, again and again."""

    def show(self, now: Progressed) -> None:
        """Show the newest."""

    def end(self) -> None:
        """Leave what was shown last."""


def of(stream: TextIO | None = None) -> Show:
    """Return what suits a stream: a terminal is drawn on, anything else gets lines."""
    out = stream or sys.stdout
    if out.isatty() and os.environ.get("TERM") != "dumb":
        return InPlace(out, output.Style.of(out, os.environ))
    return ProgressLines(out)


class ProgressLines:
    """One line for each change of each host."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._known: Mapping[str, FollowedHost] = {}
        self._phase = ""

    def show(self, now: Progressed) -> None:
        """Write what is new."""
        status = now.maintenance.status
        if status.phase != self._phase:
            self._phase = status.phase
            self._write(f"{now.maintenance.metadata.name}: {status.phase}{_window(now)}")
        for host, state in now.hosts.items():
            if self._known.get(host) != state:
                self._write(f"{host}: {state.state}" + (f": {state.message}" if state.message else ""))
        self._known = now.hosts

    def end(self) -> None:
        """There is nothing to leave."""

    def _write(self, line: str) -> None:
        self._out.write(output.one_line(line) + "\n")
        self._out.flush()


class InPlace:
    """A bar, and below it the hosts that something happens to."""

    def __init__(self, out: TextIO, style: output.Style) -> None:
        self._out = out
        self._style = style
        self._drawn = 0

    def show(self, now: Progressed) -> None:
        """Draw it over what was there."""
        lines = self._lines(now)
        up = f"\x1b[{self._drawn}A\r\x1b[J" if self._drawn else ""
        self._out.write(up + "".join(f"{line}\n" for line in lines))
        self._out.flush()
        self._drawn = len(lines)

    def end(self) -> None:
        """Leave what was drawn last."""
        self._drawn = 0

    def _lines(self, now: Progressed) -> list[str]:
        counts = now.maintenance.status.hosts or HostCounts()
        width = output.terminal_width() - 1
        bar = progress.bar(counts, style=self._style)
        plain = f" {progress.hosts(counts)} {now.maintenance.status.phase or 'Pending'}{_window(now)}"
        head = bar + output.one_line(plain, max(20, width - progress.WIDTH - 2))
        shown = [host for host, state in now.hosts.items() if state.state not in _OVER]
        shown.sort(key=lambda host: now.hosts[host].state not in BAD)
        column = max((len(output.one_line(host)) for host in shown[:ROWS]), default=0)
        rows = [
            self._row(f"{output.one_line(host):<{column}}", now.hosts[host], width) for host in shown[:ROWS]
        ]
        more = len(shown) - len(rows)
        return [head, *rows, *([f"  ... and {plural(more, 'host')} more"] if more else [])]

    def _row(self, host: str, state: FollowedHost, width: int) -> str:
        head = f"  {host}  {output.one_line(state.state)}"[:width]
        room = width - len(head) - 2
        message = output.one_line(state.message, room) if room > 20 else ""
        return self._style.paint(f"{head}  {message}".rstrip(), "red" if state.state in BAD else "")


def _window(now: Progressed) -> str:
    """Return when something happens, where nothing does because of the window."""
    window = now.maintenance.status.window
    waits = now.maintenance.status.phase == "WaitingForWindow" and window is not None
    return (
        f", window opens at {window.opens_at or 'no time in sight'}" if waits and window is not None else ""
    )
