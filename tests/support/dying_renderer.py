"""The process that renders, with templates in it that do what no template may: as the real one, they kill it.

python -c BOOT ...     its words are those in DEEDS
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from nodemanager.host.process import runner
from nodemanager.plan.templates import jobs
from nodemanager.rendering import child
from nodemanager.rendering.process import ChildProcess


def _spin() -> None:
    while True:
        pass


def _eat() -> None:
    eaten = []
    while True:
        eaten.append(bytearray(1 << 20))


DEEDS = {
    "CRASH": lambda: ctypes.string_at(0),
    "SPIN": _spin,
    "HANG": signal.pause,
    "EAT": _eat,
    "LEAVE": lambda: os._exit(3),
    "KILLED": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "NONSENSE": lambda: os.write(0, b"\0\0\0\3abc"),
    "DEEP": lambda: os.write(0, (100_000).to_bytes(4, "big") + b"\x91" * 100_000),
    "HUGE": lambda: os.write(0, b"\xff\xff\xff\xff" + b"x" * 1000),
    "OPEN": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "FORK": os.fork,
}
BOOT = "import sys; sys.path[:] = sys.argv[4:]; from support.dying_renderer import main; main()"


def main() -> None:
    """Be the child, with other deeds for some templates."""
    rendered = jobs._answer

    def answer(job: jobs.Job) -> jobs.TemplateAnswer:
        for word, deed in DEEDS.items():
            if word in job.text:
                try:
                    deed()
                except OSError as error:
                    return jobs.TemplateAnswer(why=f"{word}: {error.strerror}")
                except MemoryError:
                    return jobs.TemplateAnswer(why=jobs.NO_MEMORY, exhausted=True)
        return rendered(job)

    jobs._answer = answer
    child.main()


def start(argv: Sequence[str], channel: int) -> ChildProcess:
    """Start it in place of the real one."""
    tests = str(Path(__file__).parents[1])
    return runner.companion([sys.executable, "-ISc", BOOT, *argv[3:], tests], channel)
