"""bin/manager beside what it could have been: size, start-up, memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import agents, apis, binaries, processes, work
from bench.agent import RESIDENT, START
from bench.binaries import Bench, Candidate
from bench.report import Goal, Row, Section
from bench.settings import Settings
from bench.work import Work

NAME = "binary"
_TITLE = "one file, in several forms; the ratio is relative to python -m nodemanager"
_HOST = "bench"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one form was measured to cost, one value per turn; times in milliseconds."""

    first: list[float] = field(default_factory=list)
    version: list[float] = field(default_factory=list)
    version_cpu: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    start_cpu: list[float] = field(default_factory=list)
    resident: list[float] = field(default_factory=list)


_SHOWN: Sequence[tuple[str, str, str, Goal | None]] = (
    ("first", "first --version, time", "ms", None),
    ("version", "--version, time", "ms", None),
    ("version_cpu", "--version, CPU", "ms", None),
    ("start", "start of the agent to its first no-op pass, time", "ms", START),
    ("start_cpu", "start of the agent to its first no-op pass, CPU", "ms", None),
    ("resident", "resident after it", "MiB", RESIDENT),
)


def run(settings: Settings) -> Section:
    """Measure all forms, taking turns."""
    if not binaries.MANAGER.exists():
        return Section(NAME, _TITLE, skipped="there is no bin/manager; make build")
    if os.geteuid() != 0:
        return Section(NAME, _TITLE, skipped="files that belong to root need root")
    with tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        bench = Bench(folder, binaries.unpacked(folder), binaries.system_python())
        absent = [tool for _, tool in binaries.FORMS if tool and shutil.which(tool) is None]
        made = [make(bench) for make, tool in binaries.FORMS if tool not in absent]
        costs = {one.name: Cost() for one in made}
        bare = _versions(settings, bench, made, costs)
        api = stack.enter_context(apis.ours(folder / "api"))
        apis.install_crds(api)
        _agents(settings, bench, made, costs, api.kubeconfig)
        rows = _rows(made, costs, bare)
    note = f"with {bench.python}"
    return Section(NAME, f"{_TITLE}; {note}", rows, f"not installed: {', '.join(absent)}" if absent else "")


def _versions(
    settings: Settings, bench: Bench, made: Sequence[Candidate], costs: Mapping[str, Cost]
) -> list[float]:
    """Measure `--version`, at the first start and later; return what the bare interpreter takes."""
    bare = []
    for turn in range(settings.pick(11, 1)):
        bare.append(took([bench.python, "-IS", "-c", "pass"], bench.environment())[0])
        for one in made:
            argv, env = [*one.argv, "--version"], {**bench.environment(), **one.environment}
            if turn < settings.pick(3, 1):
                for cache in one.caches:
                    shutil.rmtree(cache, ignore_errors=True)
                costs[one.name].first.append(took(argv, env)[0])
            wall, cpu = took(argv, env)
            costs[one.name].version.append(wall)
            costs[one.name].version_cpu.append(cpu)
    return bare


def took(argv: list[str], env: Mapping[str, str]) -> tuple[float, float]:
    """Return what running a program took, in milliseconds on the wall and of CPU."""
    ran = processes.run(argv, env)
    return (time.monotonic() - ran.started) * 1000, ran.cpu * 1000


def _agents(
    settings: Settings, bench: Bench, made: Sequence[Candidate], costs: Mapping[str, Cost], kubeconfig: Path
) -> None:
    """Measure starts of the agent on a host that is as it should be."""
    root = bench.folder / "root"
    work.make_root(root)
    wanted = Work(settings.pick(1000, 20))
    agents.declare(kubeconfig, wanted)
    sets = len(wanted.config_sets())
    with agents.running(kubeconfig, root, _HOST, sets):
        pass  # makes everything
    for turn in range(settings.pick(5, 1) + 1):
        for one in made:
            env = {**bench.environment(), **one.environment}
            with agents.running(kubeconfig, root, _HOST, sets, one.argv, env) as agent:
                if agent.changes:
                    raise processes.ChildFailed(f"cannot measure: {agent.changes} paths changed")
                if turn or settings.quick:  # the first turn has the files read into memory
                    costs[one.name].start.append(agent.seconds * 1000)
                    costs[one.name].start_cpu.append(agent.cpu * 1000)
                    costs[one.name].resident.append(agent.mebibytes(settle=1))


def _rows(made: Sequence[Candidate], costs: Mapping[str, Cost], bare: Sequence[float]) -> list[Row]:
    rows = [
        Row(f"size, {one.name}", one.file.stat().st_size / 1024 / 1024, "MiB") for one in made if one.file
    ]
    base = costs[made[0].name]
    rows.append(Row("--version, time, bare interpreter", statistics.median(bare), "ms",
                    _ratio(bare, base.version)))  # fmt: skip
    for attribute, what, unit, goal in _SHOWN:
        for one in made:
            values = getattr(costs[one.name], attribute)
            judged = goal if one.file == binaries.MANAGER else None
            ratio = _ratio(values, getattr(base, attribute))
            rows.append(Row(f"{what}, {one.name}", statistics.median(values), unit, ratio, judged))
    return rows


def _ratio(values: Sequence[float], base: Sequence[float]) -> float:
    return statistics.median(value / other for value, other in zip(values, base, strict=True))
