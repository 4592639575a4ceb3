"""Another client, in a process of its own: `python -m support.prober KUBECONFIG PID` until its input ends.

It reads one object again and again over one connection, and says at the end how often, and how many
seconds the slowest answers took: of a clock, and of the server's processor time. What loads the server in
a test must not slow the measurement down, and what else the machine does must not be the server's fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from nodemanager.client.auth import kubeconfig
from nodemanager.host.process import runner
from nodemanager.kube.objects import Resource, Untyped
from support.clients import connected

PAUSE = 0.02
LEAST = 3
PATIENCE = 30.0
NAMESPACES: Resource[Untyped] = Resource("", "v1", "Namespace", "namespaces", dict, namespaced=False)


def worked(pid: int) -> float:
    """Return how many seconds of processor time a process has had."""
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


async def probe(path: str, pid: int) -> None:
    """Measure until nobody listens any more."""
    config = kubeconfig.load(path=path, environ={}, run=runner.run)
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    count, slowest, busiest = 0, 0.0, 0.0
    async with connected(config) as client:
        while not ended.done() or count < LEAST:
            started, before = time.monotonic(), worked(pid)
            await client.get(NAMESPACES, "default")
            slowest, count = max(slowest, time.monotonic() - started), count + 1
            busiest = max(busiest, worked(pid) - before)
            if count == 1:
                sys.stdout.write("ready\n")
                sys.stdout.flush()
            await asyncio.sleep(PAUSE)
    sys.stdout.write(f"{count} {slowest:.2f} {busiest:.2f}\n")


@contextlib.contextmanager
def responsive(path: Path, pid: int, seconds: float = 1.0) -> Iterator[None]:
    """Assert that the server does not work for that long on something else as long as the block runs.

    By the clock it gets much more time: a machine may have more to do than processors.
    """
    argv = [sys.executable, "-m", "support.prober", str(path), str(pid)]
    with subprocess.Popen(
        argv, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield
            process.stdin.close()
            count, slowest, busiest = process.stdout.readline().split()
            told = f"{count} answers, the slowest after {slowest} s and {busiest} s of work"
            sys.stdout.write(f"another client had {told}\n")
            assert int(count) >= LEAST
            assert float(busiest) < seconds, told
            assert float(slowest) < seconds * PATIENCE, told
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(probe(sys.argv[1], int(sys.argv[2])))
