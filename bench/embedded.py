"""The embedded API beside kube-apiserver with etcd, both durable, in one run and taking turns."""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from bench import apis, processes
from bench.apis import Api
from bench.report import Goal, Row, Section
from bench.settings import Settings

NAME = "embedded"
WATCHERS = 500
SETTLE = 5.0
"""Seconds after the last write until memory is measured: Go gives memory back in its own time."""
RESIDENT = Goal(0.33, "x")
LATENCY = Goal(2.0, "x")
START = Goal(1500.0, "ms")
_TITLE = "the embedded API; the ratio is relative to kube-apiserver with etcd on the same machine"
_ALONE = "no kube-apiserver with etcd beside it: KUBEBUILDER_ASSETS names no folder with both"
_OPERATIONS = {"get": "get", "list": "list of 1000", "create": "create", "apply": "apply of a status"}

Starter = Callable[[Path], AbstractContextManager[Api]]


def run(settings: Settings) -> Section:
    """Measure everything that there is to compare, and without a judge our side alone."""
    judged = bool(os.environ.get("KUBEBUILDER_ASSETS"))
    starters: list[Starter] = [apis.ours, apis.theirs] if judged else [apis.ours]
    with tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as name:
        folder = Path(name)
        rows = _starts(settings, starters, folder)
        with contextlib.ExitStack() as stack:
            running = [stack.enter_context(start(folder / start.__name__)) for start in starters]
            for api in running:
                apis.install_crds(api)
            rows += _requests(settings, running)
            rows += _fan_out(settings, running)
        rows += _memory(settings, starters, folder)
    return Section(NAME, _TITLE, rows, "" if judged else _ALONE)


def _starts(settings: Settings, starters: Sequence[Starter], folder: Path) -> list[Row]:
    """Measure from nothing at all to `/readyz`: keys, certificates and files are made on the way."""
    turns: list[list[float]] = []
    for turn in range(settings.pick(4, 1)):
        times = []
        for start in starters if turn < 2 else starters[:1]:  # theirs takes long, and varies little
            with start(folder / f"start-{turn}-{start.__name__}") as api:
                times.append(api.seconds * 1000)
        turns.append(times)
    return [row("cold start to /readyz", turns, "ms", START)]


def _requests(settings: Settings, running: Sequence[Api]) -> list[Row]:
    amounts = (settings.pick(5, 1), settings.pick(200, 20), settings.pick(640, 32))
    kubeconfigs = [str(api.kubeconfig) for api in running]
    found = processes.measure("bench.children.requests", *map(str, amounts), *kubeconfigs).answer
    rows = []
    for key, rounds in found.items():
        operation, connections = key.split(", ")
        what = _OPERATIONS[operation]
        if connections == "1":
            goal = LATENCY if operation in ("get", "create") else None
            rows.append(row(f"{what}, p50", _quantiles(rounds, 50), "ms", goal))
            rows.append(row(f"{what}, p99", _quantiles(rounds, 99), "ms"))
        else:
            what = f"{what}, {connections} connections"
            rows.append(row(f"{what}, p50", _quantiles(rounds, 50), "ms"))
            rows.append(row(what, [[side["rate"] for side in sides] for sides in rounds], "/s"))
    return rows


def _fan_out(settings: Settings, running: Sequence[Api]) -> list[Row]:
    amounts = (settings.pick(WATCHERS, 20), settings.pick(20, 2), settings.pick(40, 4))
    kubeconfigs = [str(api.kubeconfig) for api in running]
    sides = processes.measure("bench.children.fanout", *map(str, amounts), *kubeconfigs).answer["sides"]
    what = f"{amounts[0]} watchers"
    return [
        row(f"{what}, write to event, p50", _quantiles([sides], 50), "ms"),
        row(f"{what}, write to event, p99", _quantiles([sides], 99), "ms"),
        row(f"{what}, events of a burst", [[side["rate"] for side in sides]], "/s"),
        Row(f"{what}, events missed", max(side["missed"] for side in sides), "", goal=Goal(0, "")),
    ]


def _memory(settings: Settings, starters: Sequence[Starter], folder: Path) -> list[Row]:
    """Measure fresh servers, one at a time, and how long ours takes to come back with all of it."""
    count = settings.pick(10_000, 200)
    sizes = []
    for start in starters:
        place = folder / f"memory-{start.__name__}"
        with start(place) as api:
            apis.install_crds(api)
            processes.measure("bench.children.populate", str(count), str(api.kubeconfig))
            time.sleep(settings.pick(int(SETTLE), 0))
            sizes.append(api.mebibytes())
    with apis.ours(folder / "memory-ours") as again:
        restart = again.seconds * 1000
    return [
        row(f"resident, {count} nodes", [sizes], "MiB", RESIDENT),
        Row(f"start to /readyz, {count} nodes", restart, "ms", goal=START),
    ]


def _quantiles(rounds: Sequence[Sequence[dict[str, Any]]], percent: int) -> list[list[float]]:
    """Return, per round and server, that quantile of the latencies in milliseconds."""
    return [
        [statistics.quantiles(side["latencies"], n=100)[percent - 1] * 1000 for side in sides]
        for sides in rounds
    ]


def row(what: str, rounds: Sequence[Sequence[float]], unit: str, goal: Goal | None = None) -> Row:
    """Return our median, and the median of the ratios of those rounds in which both were measured."""
    ours = statistics.median(sides[0] for sides in rounds)
    pairs = [sides for sides in rounds if len(sides) > 1]
    if not pairs:
        return Row(what, ours, unit, goal=None if goal is not None and goal.unit == "x" else goal)
    ratio = statistics.median(sides[0] / sides[1] for sides in pairs)
    other = statistics.median(sides[1] for sides in pairs)
    return Row(what, ours, unit, ratio, goal, f"theirs {other:.4g} {unit}")
