"""What `nodemanager version` costs beyond the interpreter it runs in."""

from __future__ import annotations

import importlib.util
import statistics
import sys

from bench import processes
from bench.report import Goal, Row, Section
from bench.settings import Settings

NAME = "start"
GOAL = Goal(100.0, "ms")
_TITLE = "CPU time of `nodemanager version`, relative to the bare interpreter"


def run(settings: Settings) -> Section:
    """Measure both, taking turns."""
    if importlib.util.find_spec("nodemanager.cli.main") is None:
        return Section(NAME, _TITLE, skipped="there is no nodemanager.cli.main yet")
    bare, version = [], []
    for turn in range(settings.pick(15, 2) + 1):
        alone = processes.run([sys.executable, "-c", "pass"]).cpu
        ours = processes.run([sys.executable, "-m", "nodemanager", "version"]).cpu
        if turn:  # the first turn has the imports compiled
            bare.append(alone * 1000)
            version.append(ours * 1000)
    pairs = list(zip(version, bare, strict=True))
    ratio = statistics.median(cost / base for cost, base in pairs)
    beyond = [cost - base for cost, base in pairs]
    rows = [
        Row("bare interpreter", statistics.median(bare), "ms", 1.0),
        Row("nodemanager version", statistics.median(version), "ms", ratio),
        Row(
            "beyond the interpreter",
            statistics.median(beyond),
            "ms",
            statistics.median(cost / base for cost, base in zip(beyond, bare, strict=True)),
            GOAL,
        ),
    ]
    return Section(NAME, _TITLE, rows)
