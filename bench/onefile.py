"""The static program of a release beside bin/manager and, where it is installed, CFEngine."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.release import revision

from bench import agents, apis, binaries, peers, processes, work
from bench.binary import took
from bench.report import Goal, Row, Section
from bench.settings import Settings
from bench.work import Work
from nodemanager import __version__

NAME = "onefile"
STATIC = "static program"
SIZE = Goal(25.0, "MiB")
START = Goal(300.0, "ms")
RESIDENT = Goal(36.0, "MiB")
ONCE = Goal(250.0, "ms")
FOREIGN = Goal(1.0, "MiB")
_TITLE = "the static program; the ratio is relative to bin/manager"
_HOST = "bench"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a program was measured to cost, one value per turn; times in milliseconds."""

    version: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    start_cpu: list[float] = field(default_factory=list)
    resident: list[float] = field(default_factory=list)
    growth: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    noop: list[float] = field(default_factory=list)
    noop_cpu: list[float] = field(default_factory=list)


_SHOWN: Sequence[tuple[str, str, str, Goal | None]] = (
    ("version", "--version, time", "ms", None),
    ("start", "start of the agent to its first no-op pass, time", "ms", START),
    ("start_cpu", "start of the agent to its first no-op pass, CPU", "ms", None),
    ("resident", "resident at rest, with 1,000 files", "MiB", RESIDENT),
    ("cold", "apply, cold, time", "ms", None),
    ("noop", "apply, no-op, time", "ms", ONCE),
    ("noop_cpu", "apply, no-op, CPU", "ms", None),
)


def program() -> Path | None:
    """Return the static program for this machine, if it is of these sources."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "")
    path = processes.ROOT / f"dist/nodemanager-{__version__}-linux-{machine}"
    made = revision.of_program(path) if path.is_file() else None
    return path if made is not None and made.sources == revision.digest(processes.ROOT) else None


def run(settings: Settings) -> Section:
    """Measure both, taking turns, then CFEngine."""
    static = program()
    if static is None or not binaries.MANAGER.exists():
        return Section(
            NAME, _TITLE, skipped="no static program of these sources, or no bin/manager: make release build"
        )
    if os.geteuid() != 0:
        return Section(NAME, _TITLE, skipped="files that belong to root need root")
    both = {STATIC: static, "bin/manager": binaries.MANAGER}
    costs = {name: Cost() for name in both}
    with tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        env = {**processes.environment(), "NODEMANAGER_CACHE": str(folder / "cache")}
        wanted = Work(settings.pick(1000, 20))
        _once(settings, folder, both, costs, wanted, env)
        api = stack.enter_context(apis.ours(folder / "api"))
        apis.install_crds(api)
        _agents(settings, folder, both, costs, wanted, api.kubeconfig, env)
        beside, note = peers.measure(wanted, folder) if not settings.quick else ([], peers.LEFT_OUT)
    return Section(NAME, _TITLE, _rows(both, costs) + beside, note)


def _once(
    settings: Settings, folder: Path, both: Mapping[str, Path], costs: Mapping[str, Cost], wanted: Work,
    env: Mapping[str, str],
) -> None:  # fmt: skip
    """Measure `--version`, and `apply` on a host that has nothing of it, and on one that has all of it."""
    manifests = folder / "manifests"
    manifests.mkdir()
    for one in wanted.config_sets():
        manifests.joinpath(f"{one['metadata']['name']}.yaml").write_text(json.dumps(one), encoding="ascii")
    roots = {name: folder / f"root{number}" for number, name in enumerate(both)}
    for root in roots.values():
        work.make_root(root)
    for turn in range(settings.pick(7, 1) + 1):
        for name, path in both.items():
            apply = [str(path), "apply", "-f", str(manifests), "--root", str(roots[name])]
            apply += ["--hostname", _HOST]
            version, _ = took([str(path), "--version"], env)
            work.empty(roots[name])
            os.sync()
            cold, _ = took(apply, env)
            wrong = work.missing(roots[name], wanted, agents.facts(roots[name], _HOST))
            if wrong:
                raise processes.ChildFailed(
                    f"cannot measure {name}: {len(wrong)} files are wrong: {wrong[0]}"
                )
            noop, cpu = took(apply, env)
            if turn or settings.quick:  # the first turn has the files read into memory
                costs[name].version.append(version)
                costs[name].cold.append(cold)
                costs[name].noop.append(noop)
                costs[name].noop_cpu.append(cpu)


def _agents(
    settings: Settings, folder: Path, both: Mapping[str, Path], costs: Mapping[str, Cost], wanted: Work,
    kubeconfig: Path, env: Mapping[str, str],
) -> None:  # fmt: skip
    """Measure starts of the agent on a host that is as it should be, and with sets for others."""
    root = folder / "root"
    work.make_root(root)
    agents.declare(kubeconfig, wanted)
    sets = len(wanted.config_sets())
    with agents.running(kubeconfig, root, _HOST, sets):
        pass  # makes everything
    for turn in range(settings.pick(5, 1) + 1):
        for name, path in both.items():
            with agents.running(kubeconfig, root, _HOST, sets, [str(path)], env) as agent:
                if agent.changes:
                    raise processes.ChildFailed(f"cannot measure: {agent.changes} paths changed")
                if turn or settings.quick:
                    costs[name].start.append(agent.seconds * 1000)
                    costs[name].start_cpu.append(agent.cpu * 1000)
                    costs[name].resident.append(agent.at_rest())
    agents.declare_foreign(kubeconfig, settings.pick(500, 50))
    for _ in range(settings.pick(3, 1)):
        for name, path in both.items():
            with agents.running(kubeconfig, root, _HOST, sets, [str(path)], env) as among:
                costs[name].growth.append(among.at_rest() - statistics.median(costs[name].resident))


def _rows(both: Mapping[str, Path], costs: Mapping[str, Cost]) -> list[Row]:
    sizes = {name: path.stat().st_size / 1024 / 1024 for name, path in both.items()}
    base = costs["bin/manager"]
    rows = [
        Row(f"size, {name}", size, "MiB", size / sizes["bin/manager"], SIZE if name == STATIC else None)
        for name, size in sizes.items()
    ]
    for attribute, what, unit, goal in _SHOWN:
        for name in both:
            values, others = getattr(costs[name], attribute), getattr(base, attribute)
            ratio = statistics.median(one / other for one, other in zip(values, others, strict=True))
            judged = goal if name == STATIC else None
            rows.append(Row(f"{what}, {name}", statistics.median(values), unit, ratio, judged))
    for name, cost in costs.items():
        grown, judged = statistics.median(cost.growth), FOREIGN if name == STATIC else None
        rows.append(
            Row(f"growth with ConfigSets of 26 KB for other hosts, {name}", grown, "MiB", goal=judged)
        )
    return rows
