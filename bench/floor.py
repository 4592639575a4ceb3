"""The floor: the same work by a C program that does nothing else, compiled where it is measured."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from bench import processes

SOURCE = Path(__file__).with_name("floor.c")


class NoFloor(RuntimeError):
    """There is nothing to compile the floor with."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run took, in milliseconds."""

    wall: float
    cpu: float
    work_wall: float
    """Without the start of the process, and without reading what is to be done."""
    work_cpu: float


@dataclass(frozen=True, slots=True)
class Floor:
    """A compiled floor, and the work it is given."""

    program: Path
    work: Path
    name: str
    """The host's name, as templates ask for it."""

    def run(self, mode: str, root: Path, *, written: int) -> Cost:
        """Do the work and return what it took; `written` files must have been in need of it."""
        began = time.perf_counter()
        child = subprocess.Popen(
            [self.program, mode, self.work, root, self.name],
            stdout=subprocess.PIPE, text=True, env=processes.environment(),
        )  # fmt: skip
        with child:
            assert child.stdout is not None  # it was asked for just above
            answer = json.loads(child.stdout.read() or "{}")
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        wall = (time.perf_counter() - began) * 1000
        if child.returncode or answer["written"] != written:
            raise processes.ChildFailed(f"cannot measure the floor: it said {answer}, not {written} written")
        return Cost(wall, (usage.ru_utime + usage.ru_stime) * 1000, answer["wall"], answer["cpu"])


def compile_floor(folder: Path, packed: bytes, name: str) -> Floor:
    """Compile it with the C compiler and the SHA-256 that are there."""
    program, work = folder / "floor", folder / "work"
    work.write_bytes(packed)
    return Floor(compiled(SOURCE, program, "-lcrypto"), work, name)


def compiled(source: Path, program: Path, *libraries: str) -> Path:
    """Compile a program with the C compiler that is there."""
    compiler = shutil.which(os.environ.get("CC", "gcc")) or shutil.which("cc")
    if compiler is None:
        raise NoFloor("no floor beside it: there is no C compiler; on Debian install gcc and libssl-dev")
    argv = [compiler, "-O2", "-Wall", "-o", str(program), str(source), *libraries]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing"])[0]
        raise NoFloor(f"no floor beside it: it does not compile, is libssl-dev installed? {said}")
    return program
