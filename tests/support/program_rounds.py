"""Kills upgrades of the agent: `python -m support.program_rounds FOLDER upgrade|guard KIND cut|kill STEP`.

`upgrade` is killed at every STEP-th point of what happens before the guard is at work, `guard` at those of
the guard itself. With `cut`, the disk is then as it was when something was last synced, and the host boots;
with `kill`, the guard is started again, as init does. What is wrong is printed, a line each; the last line
says how many were killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from support.crash_faults import Faults
from support.crash_rounds import run
from support.program_world import GOOD, OLD, SECONDS, ProgramWorld

MAX_POINTS = 400


class Points(Faults):
    """Points of an upgrade at which it is killed; whatever is synced is on disk."""

    def __init__(self, point: int, world: ProgramWorld) -> None:
        super().__init__(point)
        self._world = world

    def install(self) -> None:
        real_fsync = os.fsync

        def fsync(descriptor: Any) -> None:
            real_fsync(descriptor)
            self.keep()

        os.fsync = fsync  # type: ignore[assignment]
        os.link = self._wrapped("link", os.link)
        super().install()

    def keep(self) -> None:
        """Have everything on disk; nobody is killed in the middle of that."""
        asleep, self.point = self.point, -1
        self._world.keep()
        self.point = asleep

    def boundary(self, name: str, call: Any) -> Any:
        return super().boundary(name, call) if self.point >= 0 else call()


def killed_upgrade(world: ProgramWorld, kind: str, point: int, *, power: bool) -> bool:
    """Kill an upgrade, and have the host go on; return whether it was killed before its end."""

    def upgrade(point: int) -> None:
        points = Points(point, world)
        if point >= 0:
            points.install()
        asyncio.run(_upgraded(world, kind, points.keep))

    ended = run(partial(upgrade, point))
    assert ended in (0, -signal.SIGKILL), ended
    if power:
        world.cut()
    world.guard()
    if world.kind() == OLD and not world.outcome():
        # It never began: nothing is in the way of the next one.
        assert not (world.state / "intent").exists()
        assert run(partial(upgrade, -1)) == 0
        world.guard()
    return ended != 0


async def _upgraded(world: ProgramWorld, kind: str, sync: Callable[[], None] | None = None) -> None:
    upgrader = world.upgrader(sync)
    await upgrader.upgrade(world.order(kind))
    upgrader.records.tree.close()


def killed_guard(world: ProgramWorld, kind: str, point: int, *, power: bool) -> bool:
    """Kill the guard, and have the host go on; return whether it was killed before its end."""
    assert run(lambda: asyncio.run(_upgraded(world, kind))) == 0
    world.keep()
    ended = world.guard(point)
    if power and ended:
        world.cut()
    world.guard()
    return ended != 0


def judge(world: ProgramWorld, kind: str) -> Iterator[str]:
    """Yield what is wrong with how it ended."""
    wanted = (GOOD, GOOD, "proven") if kind == GOOD else (OLD, OLD, "returned")
    found = (world.kind(), world.running(), world.outcome())
    if found != wanted:
        yield f"in place, running, outcome: {found}, not {wanted}"
    if (world.state / "intent").exists() or world.new.exists():
        yield "something is left of it"
    if world.longest() > SECONDS + 1:
        yield f"no agent for {world.longest()} s"
    before = world.running()
    world.guard()
    if world.running() != before:
        yield "a guard with nothing to do did something"


def main() -> None:
    """Kill one after the other, until one lives to its end."""
    folder, what, kind, how, step = sys.argv[1:]
    act = {"upgrade": killed_upgrade, "guard": killed_guard}[what]
    done = missed = 0
    for point in range(0, MAX_POINTS, int(step)):
        world = ProgramWorld(Path(folder))
        world.make()
        killed = act(world, kind, point, power=how == "cut")
        for said in judge(world, kind):
            sys.stdout.write(f"point {point}: {said}\n")
        done += killed
        missed = 0 if killed else missed + 1
        if missed > 1:  # once may be a call that fails, after which there is no point
            break
    sys.stdout.write(f"killed {done}\n")


if __name__ == "__main__":
    main()
