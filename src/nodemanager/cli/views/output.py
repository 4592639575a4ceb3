"""How things look on a terminal: columns, ages, colours. Nothing in here knows Kubernetes."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TextIO

import click

from nodemanager.kube.times import human_duration as human_duration
from nodemanager.kube.wording import shorten

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
MIN_COLUMNS: Final = 80
"""Nothing is made narrower than this."""
FIELD_WIDTH: Final = 16
_NARROWEST: Final = 24
"""A cell with less room than this begins a line of its own."""
_LABEL: Final = re.compile("[A-Z][A-Za-z ]*: +")
_PADDING: Final = 3
_MIN_WIDTH: Final = 6
_COLOURS: Final = {
    ("READY", "True"): "green",
    ("READY", "False"): "red",
    ("READY", "Unknown"): "yellow",
    ("RESULT", "holds"): "green",
    ("RESULT", "fails"): "red",
    ("RESULT", "conflict"): "red",
    ("OUTCOME", "repaired"): "green",
    ("OUTCOME", "observed"): "yellow",
    ("OUTCOME", "failed"): "red",
}


def one_line(text: str, limit: int = 0) -> str:
    """Return a foreign text as one line that cannot steer a terminal, in at most `limit` characters."""
    flat = " ".join(text.split())
    flat = "".join(char if char.isprintable() else "?" for char in flat)
    return shorten(flat, limit) if limit else flat


def printable(line: str) -> str:
    """Return a line of a foreign file with its spaces, and without characters that steer a terminal."""
    return "".join(char if char.isprintable() or char == "\t" else "?" for char in line)


def _is_plain(cell: str) -> bool:
    return cell.isascii() and cell.isprintable()


# Time


def parse_time(timestamp: str | None) -> datetime | None:
    """Return the moment of an RFC 3339 timestamp, or None for anything else."""
    try:
        moment = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def age(timestamp: str | None, now: datetime) -> str:
    """Return how long ago a timestamp was."""
    moment = parse_time(timestamp)
    return UNKNOWN if moment is None else human_duration((now - moment).total_seconds())


def ago(timestamp: str | None, now: datetime) -> str:
    """Return a timestamp with its age, for a line of its own."""
    return f"{timestamp} ({age(timestamp, now)} ago)" if timestamp else NONE


def ahead(timestamp: str, now: datetime) -> str:
    """Return a timestamp with how long it is until then; one that is over says so."""
    moment = parse_time(timestamp)
    if moment is None or moment <= now:
        return f"{timestamp} (is over)"
    return f"{timestamp} (in {human_duration((moment - now).total_seconds())})"


# Colour


@dataclass(frozen=True, slots=True)
class Style:
    """Whether to use colour."""

    colour: bool = False

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str]) -> Style:
        """Return the style for a stream: colour on a terminal, unless NO_COLOR or TERM=dumb say no."""
        wanted = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        return cls(wanted and stream.isatty())

    def paint(self, text: str, colour: str) -> str:
        """Return text in a colour, where there are colours; an empty colour is none."""
        return click.style(text, fg=colour) if self.colour and colour else text

    def cell(self, header: str, text: str) -> str:
        """Return a cell of a table, which may have been padded, coloured by what it says."""
        colour = _COLOURS.get((header, text.rstrip()))
        return click.style(text, fg=colour) if self.colour and colour else text


PLAIN: Final = Style()


# Tables


class TableWriter:
    """Writes rows in columns that never get narrower, so that rows may follow for hours."""

    def __init__(self, headers: Sequence[str], style: Style = PLAIN, out: TextIO | None = None) -> None:
        self._headers = [one_line(header) for header in headers]
        self._style = style
        self._out = out
        self._widths = [0] * len(headers)
        self._begun = False

    def write(self, rows: Sequence[Sequence[str]]) -> None:
        """Write rows, after the headers if these are the first."""
        out = self._out or sys.stdout
        for line in self.lines(rows):
            out.write(line + "\n")
        out.flush()

    def lines(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Return rows as text; cells that others wrote stay in their cells."""
        safe = [[one_line(cell) if not _is_plain(cell) else cell for cell in row] for row in rows]
        shown = safe if self._begun else [self._headers, *safe]
        self._begun = True
        for row in shown:
            needed = [max(_MIN_WIDTH, len(cell) + _PADDING) for cell in row]
            self._widths = [max(pair) for pair in zip(self._widths, needed, strict=True)]
        return [self._line(row, heading=row is self._headers) for row in shown]

    def _line(self, row: Sequence[str], *, heading: bool) -> str:
        last = len(row) - 1
        padded = [cell if at == last else cell.ljust(self._widths[at]) for at, cell in enumerate(row)]
        if heading:
            return "".join(padded).rstrip()
        pairs = zip(self._headers, padded, strict=True)
        return "".join(self._style.cell(header, cell) for header, cell in pairs).rstrip()


# Width


def terminal_width() -> int:
    """Return how many columns there are: those of the terminal, or 80 where there is none."""
    import shutil  # here and below: an agent imports this module, and never needs them

    return shutil.get_terminal_size((MIN_COLUMNS, 0)).columns


def wrapped(text: str, width: int) -> str:
    """Return a report in so many columns: the last cell of a line that is too long goes on below itself."""
    width = max(width, MIN_COLUMNS)
    return "\n".join(part for line in text.splitlines() for part in _wrapped(line, width))


def _wrapped(line: str, width: int) -> list[str]:
    plain = click.unstyle(line)
    if len(plain) <= width:
        return [line]
    start = _last_cell(plain)
    head, rest = line[: len(line) - len(plain) + start], plain[start:]  # the last cell is never coloured
    if width - start < _NARROWEST:  # it begins a line of its own
        indent = " " * (len(plain) - len(plain.lstrip()) + _PADDING)
        return [head.rstrip(), *(indent + part for part in _parts(rest, width - len(indent)))]
    first, *more = _parts(rest, width - start)
    return [head + first, *(" " * start + part for part in more)]


def _last_cell(line: str) -> int:
    """Return where the last cell of a line begins: after its label, or after the last gap."""
    if label := _LABEL.match(line):
        return label.end()
    gap = line.rfind(" " * _PADDING)  # no cell has two spaces in a row
    return gap + _PADDING if line[: max(gap, 0)].strip() else len(line) - len(line.lstrip())


def _parts(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


# Reports


class Report:
    """A text of labelled lines, sections and small tables, built from top to bottom."""

    def __init__(self, label_width: int = FIELD_WIDTH) -> None:
        self._width = label_width
        self._lines: list[str] = []

    def field(self, label: str, *values: str) -> None:
        """Add a labelled value; more than one go below each other."""
        shown = [one_line(value) for value in values] or [NONE]
        self._lines.append(f"{label + ':':<{self._width - 1}} {shown[0]}")
        self._lines += [" " * self._width + value for value in shown[1:]]

    def table(
        self, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], limit: int = 0
    ) -> None:
        """Add a section that is a table, of which at most `limit` rows are shown."""
        if not rows:
            self.field(title)
            return
        shown = [[one_line(cell) or NONE for cell in row] for row in (rows[:limit] if limit else rows)]
        self._lines.append(f"{title}:")
        self._lines += ["  " + line for line in TableWriter(headers).lines(shown)]
        if len(shown) < len(rows):
            self._lines.append(
                f"  ... and {len(rows) - len(shown)} more (all of them: nodemanager get -o yaml)"
            )

    def text(self) -> str:
        """Return the whole report."""
        return "\n".join(self._lines)
