"""Leader election between real processes on a real kube-apiserver, stopped and continued by signals.

Each leader writes its fencing token into a shared object as fast as it can. In the order in which
the server stored them, the tokens must never go back: nobody writes after a successor did.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nodemanager.client.calls import Selection
from nodemanager.runtime.cache import Cache
from support import apiserver
from support.candidate import CONFIG_MAPS, SHARED
from support.clients import as_admin, connected
from support.scripted_server import until

FAILOVERS = 50
LEASE_SECONDS = 2
TESTS = Path(__file__).parents[1]


class Candidate:
    """A candidate process and everything it said."""

    def __init__(self, api: apiserver.ApiServer, name: str) -> None:
        argv = [sys.executable, "-m", "support.candidate", str(api.kubeconfig), name, str(LEASE_SECONDS)]
        environ = {**os.environ, "PYTHONPATH": str(TESTS)}
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environ)
        self.said: list[tuple[float, str, str]] = []
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            moment, fact, rest = line.rstrip("\n").split(" ", 2)
            self.said.append((float(moment), fact, rest))

    def led_since(self, moment: float) -> float | None:
        """Return when it last began to lead, if that was after `moment`."""
        found = [at for at, fact, _ in self.said if fact == "leads" and at >= moment]
        return found[-1] if found else None

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()


async def wait_for_leader(candidate: Candidate, since: float, seconds: float) -> float:
    await until(lambda: candidate.led_since(since) is not None, seconds)
    began = candidate.led_since(since)
    assert began is not None
    return began


async def fail_over(candidates: list[Candidate], times: int) -> list[float]:
    """Stop whoever leads, wait for the other, let the first go on; return how long each hand-over took."""
    await until(lambda: any(c.led_since(0) for c in candidates), 20)
    leader = next(c for c in candidates if c.led_since(0))
    handovers = []
    for turn in range(times):
        other = candidates[1 - candidates.index(leader)]
        await asyncio.sleep(0.2 + 0.05 * (turn % 7))  # meet the leader at different points of its cycle
        stopped = time.monotonic()
        leader.stop()
        handovers.append(await wait_for_leader(other, stopped, LEASE_SECONDS + 10) - stopped)
        leader.go_on()
        leader = other
    return handovers


@pytest.mark.timeout(400)
async def test_fifty_failovers_never_two_leaders(kube: apiserver.ApiServer) -> None:
    kube.kubectl("create", "configmap", SHARED[0], "--from-literal=token=0")
    tokens: list[int] = []
    async with connected(as_admin(kube)) as admin:
        cache = Cache(admin, CONFIG_MAPS, Selection(SHARED[1], fields=f"metadata.name={SHARED[0]}"))
        cache.subscribe(lambda change: tokens.append(int(change.new.data["token"]) if change.new else -1))
        watching = asyncio.create_task(cache.run())
        await cache.synced()
        candidates = [Candidate(kube, "one"), Candidate(kube, "two")]
        try:
            handovers = await fail_over(candidates, FAILOVERS)
        finally:
            for candidate in candidates:
                candidate.kill()
        last = int((await admin.get(CONFIG_MAPS, *SHARED)).data["token"])
        await until(lambda: tokens[-1] == last)
        watching.cancel()
        await asyncio.wait({watching})
    # The order is the server's own: one watch saw every single write.
    assert tokens == sorted(tokens), "a deposed leader wrote after its successor"
    assert len(set(tokens)) > FAILOVERS
    assert max(handovers) <= LEASE_SECONDS + 2
    sys.stderr.write(
        f"{FAILOVERS} failovers, {len(tokens)} fenced writes, hand-over "
        f"median {sorted(handovers)[FAILOVERS // 2]:.2f} s, max {max(handovers):.2f} s\n"
    )
