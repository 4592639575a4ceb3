"""Results and how a person reads them: one table, goals beside results, a verdict at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

_HEADINGS = ("what", "measured", "ratio", "goal", "")


@dataclass(frozen=True, slots=True)
class Goal:
    """An upper limit: of the ratio when the unit is `x`, otherwise of what was measured."""

    limit: float
    unit: str

    def __str__(self) -> str:
        return f"<= {_number(self.limit)}{'' if self.unit == 'x' else ' '}{self.unit}"


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement, and how it relates to the first row of its section."""

    what: str
    value: float
    unit: str
    ratio: float | None = None
    goal: Goal | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if self.goal is not None and self.goal.unit == "x" and self.ratio is None:
            raise ValueError(f"cannot judge {self.what!r}: its goal is a ratio, and it has none")

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        if self.goal is None:
            return None
        judged = self.ratio if self.goal.unit == "x" else self.value
        return judged is not None and judged <= self.goal.limit

    def cells(self) -> tuple[str, ...]:
        """Return the row as the table shows it."""
        verdict = {None: "", True: "met", False: "MISSED"}[self.met]
        return (
            self.what,
            f"{_number(self.value)} {self.unit}",
            "" if self.ratio is None else f"{_number(self.ratio)}x",
            "" if self.goal is None else str(self.goal),
            "; ".join(part for part in (verdict, self.note) if part),
        )


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark."""

    name: str
    title: str
    rows: list[Row] = field(default_factory=list)
    skipped: str = ""
    """Why there is nothing to see, if so."""


def table(sections: Sequence[Section]) -> str:
    """Return all results as text."""
    rows = [row.cells() for section in sections for row in section.rows]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    lines = [_line(_HEADINGS, widths)]
    for section in sections:
        lines += ["", f"{section.name}: {section.title}"]
        lines += [_line(row.cells(), widths) for row in section.rows]
        if section.skipped:
            lines.append(f"  skipped: {section.skipped}")
    return "\n".join(lines)


def verdict(sections: Sequence[Section]) -> str:
    """Return the last line: every goal, and whether it was met."""
    judged = [
        f"{section.name} ({row.what}) {'met' if row.met else 'MISSED'}"
        for section in sections
        for row in section.rows
        if row.goal is not None
    ]
    missed = any(row.met is False for section in sections for row in section.rows)
    return f"goals {'MISSED' if missed else 'met'}: {'; '.join(judged) or 'none was measured'}"


def all_met(sections: Sequence[Section]) -> bool:
    """Tell whether no goal was missed."""
    return all(row.met is not False for section in sections for row in section.rows)


def as_json(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """Return the sections as plain JSON, with `met` in each row that has a goal."""
    return [
        {**asdict(section), "rows": [{**asdict(row), "met": row.met} for row in section.rows]}
        for section in sections
    ]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    what, measured, ratio, goal, note = cells
    return (
        f"  {what:<{widths[0]}}  {measured:>{widths[1]}}  {ratio:>{widths[2]}}  {goal:<{widths[3]}}  {note}"
    ).rstrip()


def _number(value: float) -> str:
    if value == int(value) and value < 1e6:
        return str(int(value))
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
