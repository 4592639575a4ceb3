"""Another client, in a process of its own: `python -m support.prober KUBECONFIG` until its input ends.

It reads one object again and again over one connection, and says at the end how often, and how many
seconds the slowest answer took. What loads the server in a test must not slow the measurement down.
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

from nodemanager.api.objects import Resource, Untyped
from nodemanager.client import kubeconfig
from nodemanager.host import runner
from support.clients import connected

PAUSE = 0.02
LEAST = 3
NAMESPACES: Resource[Untyped] = Resource("", "v1", "Namespace", "namespaces", dict, namespaced=False)


async def probe(path: str) -> None:
    """Measure until nobody listens any more."""
    config = kubeconfig.load(path=path, environ={}, run=runner.run)
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    count, slowest = 0, 0.0
    async with connected(config) as client:
        while not ended.done() or count < LEAST:
            started = time.monotonic()
            await client.get(NAMESPACES, "default")
            slowest, count = max(slowest, time.monotonic() - started), count + 1
            if count == 1:
                sys.stdout.write("ready\n")
                sys.stdout.flush()
            await asyncio.sleep(PAUSE)
    sys.stdout.write(f"{count} {slowest}\n")


@contextlib.contextmanager
def responsive(path: Path, seconds: float = 1.0) -> Iterator[None]:
    """Assert that somebody else is answered within that time as long as the block runs.

    On a machine with more to do than processors, everybody gets that much more time.
    """
    argv = [sys.executable, "-m", "support.prober", str(path)]
    with subprocess.Popen(
        argv, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield
            process.stdin.close()
            count, slowest = process.stdout.readline().split()
            assert int(count) >= LEAST
            seconds *= max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
            assert float(slowest) < seconds, f"another client waited {float(slowest):.2f} s for an answer"
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(probe(sys.argv[1]))
