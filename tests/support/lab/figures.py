"""What a run of the lab measured, below the folder that NODEMANAGER_LAB_FIGURES names, for docs/lab.md."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "NODEMANAGER_LAB_FIGURES"


def note(what: str, line: str) -> None:
    """Add a line, if somebody wants to know."""
    keep(f"{what}.txt", line + "\n", append=True)


def keep(name: str, text: str, *, append: bool = False) -> None:
    """Keep a text, such as the words of a kernel, if somebody wants to know."""
    if folder := os.environ.get(VARIABLE):
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text() if append and path.exists() else ""
        path.write_text(before + text)
