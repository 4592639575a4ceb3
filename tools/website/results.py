"""The results in docs/benchmarks.md, read back as numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_SECONDS: Final = {"ms": 0.001, "s": 1.0}
_COLUMNS: Final = 5
_FLOOR: Final = re.compile(r" \(floor .*\)$")
"""What a result was compared with differs from run to run, so it is no part of the name of a row."""


class Unreadable(Exception):
    """The page does not have a number that is asked for."""


@dataclass(frozen=True, slots=True)
class Result:
    """One row of the table, as text."""

    result: str
    ratio: str
    goal: str

    def seconds(self) -> float:
        """Return the result, a time."""
        value, unit = self._split(self.result)
        if unit not in _SECONDS:
            raise Unreadable(f"cannot read {self.result!r} as a time: no unit of {', '.join(_SECONDS)}")
        return value * _SECONDS[unit]

    def mebibytes(self) -> float:
        """Return the result, an amount of memory."""
        value, unit = self._split(self.result)
        if unit != "MiB":
            raise Unreadable(f"cannot read {self.result!r} as MiB")
        return value

    def times(self) -> float:
        """Return the ratio."""
        return _times(self.ratio)

    def goal_times(self) -> float | None:
        """Return the goal where it is a ratio."""
        word = self.goal.partition(":")[0]
        return _times(word) if word.endswith("x") else None

    @staticmethod
    def _split(text: str) -> tuple[float, str]:
        value, _, unit = text.partition(" ")
        try:
            return float(value), unit
        except ValueError as error:
            raise Unreadable(f"cannot read {text!r} as a number with a unit") from error


class Results:
    """All rows, by benchmark and by what was measured."""

    def __init__(self, page: str) -> None:
        section = page.partition("\n## Results\n")[2]
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines()]
        self._rows = {
            (row[0].strip("`"), _FLOOR.sub("", row[1])): Result(*row[2:])
            for row in rows
            if len(row) == _COLUMNS and row[0].startswith("`")
        }

    def row(self, benchmark: str, what: str) -> Result:
        """Return one row: `row("drift", "file deleted, p50")`."""
        try:
            return self._rows[benchmark, what]
        except KeyError as error:
            raise Unreadable(
                f"cannot draw {benchmark}: docs/benchmarks.md has no result {what!r}, which plots.py names"
            ) from error


def _times(text: str) -> float:
    try:
        return float(text.removesuffix("x"))
    except ValueError as error:
        raise Unreadable(f"cannot read {text!r} as a ratio like 1.5x") from error
