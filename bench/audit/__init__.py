"""The audit log: how fast it is checked and written, and how much of it there is."""

from __future__ import annotations

from bench.audit import verification, writing
from bench.report import Section
from bench.settings import Settings

NAME = "audit"


def run(settings: Settings) -> Section:
    """Measure all."""
    title = "check of an export beside the hashes that it needs; the writer alone, and beside other work"
    return Section(NAME, title, [*verification.rows(settings), *writing.rows(settings)])
