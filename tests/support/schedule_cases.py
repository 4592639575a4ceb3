"""Schedules that are accepted, and those that are refused with what is said then, from files."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "cases" / "schedules"


def accepted() -> list[str]:
    """Return schedules that hosts can read, with the spaces around them."""
    return _lines("accepted.txt")


def refused() -> dict[str, str]:
    """Return schedules that hosts cannot read, each with a part of the refusal."""
    parts = (line.partition(" => ") for line in _lines("refused.txt"))
    return {schedule: said for schedule, _, said in parts}


def _lines(name: str) -> list[str]:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]
