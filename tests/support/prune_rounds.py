"""Kills passes of a host whose set is deleted: `python -m support.prune_rounds FOLDER MODE FIRST STEP`.

MODE `applying` kills the pass that brings a set about, at every STEP-th boundary from FIRST on; the set is
deleted then, and the next pass takes back what is there. `pruning` kills the pass that takes it back. The
name of an error has the call at the boundary of the first pass fail with it. In the end the host is as it was
before the set. What is not is printed, one line each. With STEP 0 nobody is killed: it says how resources
were at each boundary.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from nodemanager.agent.declared import known_sets
from nodemanager.agent.passes.converge import Converger
from nodemanager.agent.passes.host_records import HostRecords
from nodemanager.agent.passes.pruning import Pruner
from nodemanager.api.common.configset import ConfigSet
from nodemanager.host.apply import Tools
from nodemanager.host.files.bucket import Bucket
from nodemanager.host.files.tree import Tree
from nodemanager.host.observe import Observer
from nodemanager.host.process import environment
from nodemanager.host.process.runs import Runs
from nodemanager.host.state.journal import Journal
from nodemanager.host.state.ownership_ledger import OwnershipLedger
from nodemanager.host.state.vault import Vault
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan import merge
from nodemanager.plan.set_doubts import Prune, SetsTold, SetTold
from support import crash_host, prune_host
from support.crash_faults import Faults
from support.crash_rounds import run
from support.fake_tools import MemoryLocks
from support.root_tree import literal_contents


async def converge(folder: Path, sets: list[ConfigSet], faults: Faults | None) -> int:
    """Do a pass as a process of its own would, and take back what these sets do not declare."""
    tree = Tree("/")
    tools, program, state = crash_host.DiskTools(folder), environment.host_runner(), f"{folder}/state"
    ledger = OwnershipLedger(Vault("/", state))
    try:
        journal = Journal(tree, state)
        runs = Runs(tree, journal, program, f"{state}/runs")
        hands = Tools(tools, tools, runs, journal, MemoryLocks())
        bucket = Bucket(tree, f"{state}/filebucket", pinned=lambda: ledger.backups)
        converger = Converger(
            Observer(tree, tools, tools, program), hands, HostRecords(bucket, ledger=ledger)
        )
        desired, pruner = merge.merge(sets), Pruner(converger, ledger, grace=0)
        told = known_sets.told(sets, sets, ObjectMeta(uid="node"))
        if not sets:  # it was another set that is gone, and others are there
            told = SetsTold({"other": SetTold(Prune.NOTHING)})
        if faults is not None:
            faults.install()
        pruner.begin((), told)
        await converger.run(desired, literal_contents(desired))
        await pruner.run(desired, told)
        return faults.passed if faults is not None else 0
    finally:
        tree.close()
        ledger.close()


def one_pass(folder: Path, sets: list[ConfigSet], faults: Faults | None = None) -> None:
    """Converge, and say in a file how many boundaries that had."""
    passed = asyncio.run(converge(folder, sets, faults))
    (folder / "passed").write_text(str(passed))


def _copy(one: Path, other: Path) -> None:
    """Copy a folder with the owners of everything, which shutil leaves out."""
    subprocess.run(["cp", "-a", str(one), str(other)], check=True)


class Host:
    """One host, and how it is without any set."""

    def __init__(self, base: Path) -> None:
        self.base, self.folder = base, base / "host"
        self.folder.mkdir(parents=True)
        prune_host.prepare(self.folder)
        self.sets = [prune_host.declared(self.folder)]
        self.before, self.was = self.entries(), self.states()
        _copy(self.folder, base / "fresh")
        assert run(lambda: one_pass(self.folder, self.sets)) == 0
        self.ours = self.states()
        _copy(self.folder, base / "applied")

    def reset(self, to: str) -> None:
        """Begin anew, at the same paths."""
        shutil.rmtree(self.folder)
        _copy(self.base / to, self.folder)

    def passed(self) -> int:
        return int((self.folder / "passed").read_text())

    def states(self) -> prune_host.States:
        return prune_host.states(self.folder, self.sets[0])

    def entries(self) -> dict[str, tuple[object, ...]]:
        etc = self.folder / "etc"
        found = {str(path.relative_to(etc)): crash_host.entry(path) for path in etc.rglob("*")}
        return {
            name: one[:3] if (etc / name).is_dir() else one
            for name, one in found.items()
            if name not in prune_host.STAYS
        }

    def wrong(self) -> Iterator[str]:
        """Yield everything that is not as before the set."""
        found = self.entries()
        for name in sorted({*found, *self.before} - set(prune_host.STAYS)):
            if found.get(name) != self.before.get(name):
                yield f"{name} is {found.get(name)}, not {self.before.get(name)}"
        for path in self.folder.rglob(".nodemanager-*"):
            yield f"{path} was left behind"
        for name, how in self.states().items():
            if how != self.was[name] and (name, how) != (prune_host.GIVEN_UP, False):
                yield f"{name} is {how}, not {self.was[name]}"
        record = OwnershipLedger(Vault("/", f"{self.folder}/state"))
        for one, entry in record.owned.items():
            yield f"still recorded: {one} {entry}"
        record.close()


def watched(base: Path, mode: str) -> None:
    """Print how resources were at each boundary of an undisturbed pass."""
    host = Host(base)
    to, sets = ("applied", list[ConfigSet]()) if mode == "pruning" else ("fresh", host.sets)
    host.reset(to)

    def work() -> None:
        seen = prune_host.Sightings(host.folder, host.sets[0], host.was, host.ours)
        one_pass(host.folder, sets, Faults(-1, watch=seen.look))
        seen.write(host.folder / "seen")

    assert run(work) == 0
    os.write(1, (host.folder / "seen").read_bytes() + b"\n")


def main(base: Path, mode: str, first: int, step: int) -> int:
    """Go through the points; return how many passes were disturbed."""
    host = Host(base)
    to, sets = ("applied", list[ConfigSet]()) if mode == "pruning" else ("fresh", host.sets)
    error = 0 if mode in ("applying", "pruning") else getattr(errno, mode)
    host.reset(to)
    assert run(lambda: one_pass(host.folder, sets, Faults(-1, error))) == 0
    points = range(first, host.passed() if error else 2 * host.passed(), step)
    for point in points:
        host.reset(to)
        dice = random.Random(point)
        run(lambda at=point: one_pass(host.folder, sets, Faults(at, error)))  # type: ignore[misc]
        if dice.random() < 0.3:  # the next one does not fare better
            again = Faults(dice.randrange(200))
            run(lambda: one_pass(host.folder, [], again))  # noqa: B023
        wrong = [] if run(lambda: one_pass(host.folder, [])) == 0 else ["the undisturbed pass failed"]
        for line in (*wrong, *host.wrong()):
            os.write(1, f"{mode} {point}: {line}\n".encode())
    return len(points)


if __name__ == "__main__":
    if sys.argv[4] == "0":
        watched(Path(sys.argv[1]), sys.argv[2])
        sys.exit()
    done = main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:5]))
    os.write(1, f"{done} passes disturbed\n".encode())
