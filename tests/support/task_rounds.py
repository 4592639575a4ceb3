"""Kills agents in the middle of tasks: `python -m support.task_rounds FOLDER SEED COUNT [power]`.

Every agent is a process of its own, forked from this one, and killed at a point chosen by the seed: before or
after a call that changes something, or a program. With `power` everything else ends with it, and the disk
is as it was when something was last synced. What is wrong is printed, a line each; the last line says how
many were killed.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nodemanager.agent.tasks.ledger import Entry
from nodemanager.api.common.declarations import File
from nodemanager.api.maintenance.nodetask import NodeTaskSpec
from nodemanager.api.maintenance.task_steps import (
    ExecutionAction,
    PackagesAction,
    PreviewAction,
    ProbeAction,
    RebootAction,
    ServiceAction,
    TaskAction,
    TaskStep,
)
from nodemanager.native import libc
from nodemanager.plan.tasks.record import StepPhase, StepRecord, TaskPhase, TaskRecord
from support.crash_faults import Faults
from support.crash_rounds import run
from support.task_host import AFTER, BEFORE, NEW, OLD, PATH, TaskHost

POINTS = 450
"""About as many as a task of these steps has."""
KILLS = 5
"""How often the agents of one task are killed at most."""


def steps(host: TaskHost, chance: random.Random) -> list[TaskStep]:
    """Return a task of all kinds of steps, in any order."""

    def script(name: str) -> ExecutionAction:
        return ExecutionAction(script=f"echo {name} >> {host.world}/log")

    undo = TaskAction(execution=script("back"))
    found = [
        TaskStep(name="first", execution=script("first")),
        TaskStep(name="second", execution=script("second"), undo=undo, retries=1),
        TaskStep(name="file", file=File(path=PATH, ensure="file", content=AFTER)),
        TaskStep(name="packages", packages=PackagesAction(upgrade="all")),
        TaskStep(name="restart", service=ServiceAction(name="web", do="restart"), on_failure="continue"),
        TaskStep(name="start", service=ServiceAction(name="web", do="start")),
        TaskStep(name="reboot", reboot=RebootAction(when="always")),
        TaskStep(name="probe", probe=ProbeAction(argv=["/bin/true"])),
        TaskStep(name="plan", preview=PreviewAction(config_sets=True)),
    ]
    chance.shuffle(found)
    if chance.random() < 0.5:
        found.append(TaskStep(name="bad", execution=ExecutionAction(argv=["/bin/false"]), on_failure="undo"))
    return found


class Points(Faults):
    """Points at which an agent is killed; what remembers the disk has none."""

    paused = False

    def boundary(self, name: str, call: Callable[[], Any]) -> Any:
        return call() if self.paused else super().boundary(name, call)


class Round:
    """One task, and the agents that are killed in the middle of it."""

    def __init__(self, folder: Path, chance: random.Random, *, power: bool) -> None:
        self.host, self.disk, self.power, self.chance = TaskHost(folder), folder / "disk", power, chance
        self.host.make()
        todo = steps(self.host, chance)
        spec = NodeTaskSpec(node_name="web1", steps=todo, deadline="2026-11-17T00:00:00Z", fencing_token=7)
        self.entry = Entry("t", spec, TaskRecord("uid", 7, TaskPhase.RUNNING, (StepRecord(),) * len(todo)))
        self.killed = 0

    def live(self) -> list[str]:
        """Kill one agent after the other, let the last one finish, and return what is wrong."""
        for left in range(KILLS, -1, -1):
            point = self.chance.randrange(POINTS) if left else -1
            ended = self._agent(point)
            while ended == -signal.SIGKILL and point < 0:
                ended = self._agent(point)  # the task itself reboots
            if ended == 0:
                break
            if ended != -signal.SIGKILL:
                return [f"an agent ended with {ended}"]
            self.killed += 1
        return list(judge(self.host, self.entry, power=self.power))

    def _agent(self, point: int) -> int:
        boot = self.host.boot_id()
        ended = run(lambda: self._live(point))
        rebooted = self.host.boot_id() != boot
        if self.power and ended == -signal.SIGKILL and not rebooted:
            self._cut()
        return ended

    def _live(self, point: int) -> None:
        points = Points(point)
        if self.power:
            self._keep_disk(points)
        if point >= 0:
            points.install()
        asyncio.run(self.host.process(self.entry))

    def _keep_disk(self, points: Points) -> None:
        """Remember what the disk was whenever something is synced."""
        real_fsync, real_syncfs = os.fsync, libc.syncfs

        def kept(real: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def synced(descriptor: Any) -> Any:
                made = real(descriptor)
                points.paused = True
                while not self._snapshot():
                    pass  # a program has changed something meanwhile
                points.paused = False
                return made

            return synced

        os.fsync, libc.syncfs = kept(real_fsync), kept(real_syncfs)  # type: ignore[assignment]

    def _snapshot(self) -> bool:
        new = self.disk.with_name("disk.new")
        shutil.rmtree(new, ignore_errors=True)
        try:
            shutil.copytree(self.host.root, new, symlinks=True, copy_function=os.link)
        except OSError:
            return False
        shutil.rmtree(self.disk, ignore_errors=True)
        new.rename(self.disk)
        return True

    def _cut(self) -> None:
        """Take the power away: nobody goes on, and what was not synced is gone."""
        end_all(self.host.root)
        if self.disk.exists():
            shutil.rmtree(self.host.root)
            shutil.copytree(self.disk, self.host.root, symlinks=True)
        self.host.next_boot()


def end_all(root: Path) -> None:
    """Kill the programs that were left alone."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(root).encode() in (process / "cmdline").read_bytes() and int(process.name) != os.getpid():
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue


def judge(host: TaskHost, entry: Entry, *, power: bool) -> list[str]:
    """Return what is wrong with how a task ended."""
    record, effects = host.record().record, host.effects()
    wrong = [] if record.phase.is_end else [f"it never ended: {record.phase}"]
    for step, known in zip(entry.spec.steps, record.steps, strict=True):
        wrong += [f"{step.name}: {said}" for said in _judge(step, known, effects, power=power)]
    undone = {step.name for step, one in zip(entry.spec.steps, record.steps, strict=True)
              if one.phase is StepPhase.UNDONE}  # fmt: skip
    done = {step.name for step, one in zip(entry.spec.steps, record.steps, strict=True)
            if one.phase is StepPhase.SUCCEEDED}  # fmt: skip
    for name, state in (("file", (host.file(), BEFORE, AFTER)), ("packages", (host.packages(), OLD, NEW))):
        now, before, after = state
        if (name in done and now != after) or (name in undone and now != before):
            wrong.append(f"{name} is {now!r}")
    return [f"{said}; effects {effects}; {record}" for said in wrong]


def _judge(step: TaskStep, known: StepRecord, effects: list[str], *, power: bool) -> list[str]:
    wrong = []
    if step.name in ("first", "second"):
        times = effects.count(step.name)
        good = known.phase in (StepPhase.SUCCEEDED, StepPhase.UNDONE)
        if times > known.attempts or (good and not times):
            wrong.append(f"it was done {times} times in {known.attempts} tries")
        if not power and known.phase is StepPhase.FAILED:
            wrong.append(f"it was lost: {known.message}")
    if step.name == "second" and effects.count("back") > 1:
        wrong.append("it was taken back twice")
    if step.name == "restart" and effects.count("restart web") > known.attempts:
        wrong.append("it was restarted twice")
    rebooted = effects.count("reboot") == 1 or (power and "reboot" not in effects)  # that was one, too
    if step.name == "reboot" and known.phase is StepPhase.SUCCEEDED and not rebooted:
        wrong.append("it did not reboot once")
    return wrong


def main() -> None:
    folder, seed, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance, killed, number = random.Random(seed), 0, 0
    while killed < count:
        number += 1
        one = Round(folder / str(number), chance, power="power" in sys.argv[4:])
        for said in one.live():
            sys.stdout.write(f"round {number} of seed {seed}: {said}\n")
        killed += one.killed
        shutil.rmtree(folder / str(number))
    sys.stdout.write(f"killed {killed} agents of {number} tasks\n")


if __name__ == "__main__":
    main()
