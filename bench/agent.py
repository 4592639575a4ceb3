"""The agent beside the floor: a C program that does the same work and nothing else."""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import agents, apis, floor, peers, processes, work
from bench.report import Goal, Row, Section
from bench.settings import Settings
from bench.work import Work
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import identity
from nodemanager.host.packages import choose
from nodemanager.host.process import environment

NAME = "agent"
NOOP = Goal(5.0, "x")
COLD = Goal(1.5, "x")
RESIDENT = Goal(40.0, "MiB")
START = Goal(600.0, "ms")
FOREIGN = Goal(1.0, "MiB")
_TITLE = "1000 files of 1 KiB, 50 templates{}; the ratio is relative to the floor in C"
_HOST = "bench"


@dataclass(frozen=True, slots=True)
class _Bench:
    """What all measurements of one run share."""

    settings: Settings
    work: Work
    root: Path
    other: Path
    """A root of the floor's own: the same files, and nobody else's caches."""
    floor: floor.Floor | None

    @property
    def files(self) -> int:
        return self.work.files + work.TEMPLATES


def run(settings: Settings) -> Section:
    """Measure passes in turns with the floor, then a whole agent, then whatever else is installed."""
    if os.geteuid() != 0:
        return Section(NAME, _TITLE.format(""), skipped="files that belong to root need root")
    notes = []
    with tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        roots = folder / "root", folder / "floor-root"
        for root in roots:
            work.make_root(root)
        wanted = Work(settings.pick(1000, 100), packages=_manages_packages(roots[0]))
        if not wanted.packages:
            notes.append("packages are left out on both sides: the agent has no adapter for them yet")
        try:
            judge: floor.Floor | None = floor.compile_floor(folder, wanted.packed(), _HOST)
        except floor.NoFloor as error:
            notes.append(str(error))
            judge = None
        bench = _Bench(settings, wanted, *roots, judge)
        api = stack.enter_context(apis.ours(folder / "api"))
        apis.install_crds(api)
        agents.declare(api.kubeconfig, wanted)
        rows = _passes(bench, api.kubeconfig) + _process(bench, api.kubeconfig)
        beside, note = peers.measure(wanted, folder) if not settings.quick else ([], peers.LEFT_OUT)
        notes += [note] if note else []
    title = _TITLE.format(", 20 packages" if wanted.packages else "")
    return Section(NAME, title, rows + beside, "; ".join(notes))


def _manages_packages(root: Path) -> bool:
    tree = Tree(str(root))
    try:
        run = environment.host_runner(tree.root)
        return choose.package_manager(tree, identity.identify(tree), run) is not None
    finally:
        tree.close()


def _passes(bench: _Bench, kubeconfig: Path) -> list[Row]:
    """Measure one process that makes pass after pass; the floor has its turn after each."""
    turns = bench.settings.pick(15, 2)
    with agents.pilot(kubeconfig, bench.root, _HOST) as agent:
        cold = _turns(bench, agent, "durable", bench.settings.pick(7, 2), work.empty, written=bench.files)
        _check(bench)
        agent.go()  # files that were written just now are read once more: their time stamp is too young
        noop = _turns(bench, agent, "check", turns, None, written=0)
        forgetful = _turns(bench, agent, "check", turns, None, written=0, command="forgetful")
        look = _turns(bench, agent, "look", turns, None, written=0)
        drift = _turns(bench, agent, "durable", turns, work.spoil, written=1)
        _check(bench)
    return [
        *_compared("no-op pass, CPU", noop, "cpu", NOOP),
        *_compared("no-op pass that reads every file, CPU", forgetful, "cpu"),
        *_compared("no-op pass, CPU, of a floor that reads no file", look, "cpu")[-1:],
        *_compared("pass over one spoilt file, on disk", drift, "wall"),
        *_compared("cold pass, everything on disk", cold, "wall", COLD),
    ]


Turn = tuple[agents.Took, floor.Cost | None]


def _turns(
    bench: _Bench, agent: agents.Pilot, mode: str, count: int, before: Callable[[Path], None] | None,
    *, written: int, command: str = "pass",
) -> list[Turn]:  # fmt: skip
    """Let both do the same in turns; the first turn warms up and is thrown away."""
    found: list[Turn] = []
    for _ in range(count + 1):
        if before is not None:
            for root in (bench.root, bench.other):
                before(root)
            os.sync()  # neither pays for the disorder
        took = agent.go(command)
        cost = None
        if bench.floor is not None:
            if not found and mode != "durable":
                bench.floor.run("check", bench.other, written=0)
            cost = bench.floor.run(mode, bench.other, written=written)
        found.append((took, cost))
    return found[1:]


def _compared(what: str, turns: Sequence[Turn], clock: str, goal: Goal | None = None) -> list[Row]:
    """Return the floor's rows, and ours relative to the floor's process and to its work alone."""
    ours = [getattr(took, clock) for took, _ in turns]
    value = statistics.median(ours)
    costs = [cost for _, cost in turns if cost is not None]
    if not costs:
        return [Row(what, value, "ms")]
    rows = []
    for beside, attribute in (("floor's process", clock), ("floor's work alone", f"work_{clock}")):
        theirs = [getattr(cost, attribute) for cost in costs]
        ratio = statistics.median(own / other for own, other in zip(ours, theirs, strict=True))
        judged = goal if attribute.startswith("work") else None
        rows.append(Row(f"{what}, to {beside}", value, "ms", ratio, judged,
                        f"floor {statistics.median(theirs):.3g} ms"))  # fmt: skip
    return rows


def _check(bench: _Bench) -> None:
    facts = agents.facts(bench.root, _HOST)
    wrong = work.missing(bench.root, bench.work, facts)
    if bench.floor is not None:
        wrong += work.missing(bench.other, bench.work, facts)
    if wrong:
        raise processes.ChildFailed(f"cannot measure: {len(wrong)} files are wrong: {wrong[0]}")


def _process(bench: _Bench, kubeconfig: Path) -> list[Row]:
    """Measure `nodemanager agent` as a service runs it: after a cold converge, then its starts."""
    work.empty(bench.root)
    with agents.running(kubeconfig, bench.root, _HOST, len(bench.work.config_sets())) as first:
        busy = first.mebibytes(settle=bench.settings.pick(5, 1))
        after = first.at_rest()
        changed = first.changes
    if changed != bench.files + work.FOLDERS + 1:
        raise processes.ChildFailed(f"cannot measure: the first pass changed {changed} paths")
    starts, cpu, sizes = [], [], []
    for turn in range(bench.settings.pick(7, 1) + 1):
        with agents.running(kubeconfig, bench.root, _HOST, len(bench.work.config_sets())) as again:
            if again.changes:
                raise processes.ChildFailed(f"cannot measure: {again.changes} paths changed")
            if turn:  # the first one has the files read into memory
                starts.append(again.seconds * 1000)
                cpu.append(again.cpu * 1000)
                sizes.append(again.at_rest())
    count = bench.settings.pick(500, 50)
    agents.declare_foreign(kubeconfig, count)
    with agents.running(kubeconfig, bench.root, _HOST, len(bench.work.config_sets())) as among:
        grown = among.at_rest() - statistics.median(sizes)
    return [
        Row("resident after the cold pass", after, "MiB", goal=RESIDENT),
        Row("the same, with the process that renders, before it ends", busy, "MiB"),
        Row("resident after a no-op pass", statistics.median(sizes), "MiB", goal=RESIDENT),
        Row(f"growth with {count} ConfigSets of 26 KB for other hosts", grown, "MiB", goal=FOREIGN),
        Row("start to the end of the first no-op pass", statistics.median(starts), "ms", goal=START),
        Row("start to the end of the first no-op pass, CPU", statistics.median(cpu), "ms"),
    ]
