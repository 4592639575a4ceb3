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
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.runtime.cache import Cache
from support import apiserver
from support.candidate import CONFIG_MAPS, SHARED
from support.clients import as_admin, connected
from support.scripted_server import until

FAILOVERS = 50
LEASE_SECONDS = 2
RETRY_SECONDS = 0.3
PATIENCE = 60
PACE = ("pace", SHARED[1])
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

    def token(self) -> int:
        """Return the token that it leads with, or 0 while it does not lead."""
        told = [(fact, rest) for _, fact, rest in self.said if fact in ("leads", "ends")]
        return int(told[-1][1]) if told and told[-1][0] == "leads" else 0

    def took_over(self, token: int) -> float | None:
        """Return when it first led with a token beyond another's, if it did."""
        return next((at for at, fact, rest in self.said if fact == "leads" and int(rest) > token), None)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Pace:
    """How slow the machine is: the reads and writes of a takeover, timed by somebody without a stake."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._due = time.monotonic()
        self._late: list[tuple[float, float]] = []

    async def run(self) -> None:
        while True:
            self._due = time.monotonic() + RETRY_SECONDS
            await asyncio.sleep(RETRY_SECONDS)
            await self._client.get(CONFIG_MAPS, *SHARED)
            await self._client.patch(CONFIG_MAPS, *PACE, MergePatch({"data": {"due": str(self._due)}}))
            self._late.append((time.monotonic(), time.monotonic() - self._due))

    def slowest_since(self, moment: float) -> float:
        """Return how long it took at most, the one that is under way included."""
        return max(time.monotonic() - self._due, *(late for at, late in self._late if at >= moment), 0.0)


async def fail_over(candidates: list[Candidate], pace: Pace, times: int) -> list[tuple[float, float]]:
    """Stop whoever leads, wait for the other, let the first go on.

    Returns how long each hand-over took, and how slow the machine was meanwhile. Who lost the lease before
    it is stopped, as happens on a busy machine, was not stopped as a leader: that is not counted.
    """
    handovers: list[tuple[float, float]] = []
    while len(handovers) < times:
        await until(lambda: any(one.token() for one in candidates), PATIENCE)
        leader = max(candidates, key=Candidate.token)
        other = candidates[1 - candidates.index(leader)]
        await asyncio.sleep(0.2 + 0.05 * (len(handovers) % 7))  # meet it at different points of its cycle
        token, stopped = leader.token(), time.monotonic()
        if not token:
            continue
        leader.stop()
        began = await took_over(other, token)
        if began > stopped:
            handovers.append((began - stopped, pace.slowest_since(stopped)))
        leader.go_on()
    return handovers


async def took_over(candidate: Candidate, token: int) -> float:
    await until(lambda: candidate.took_over(token) is not None, PATIENCE)
    began = candidate.took_over(token)
    assert began is not None
    return began


@pytest.mark.timeout(600)
async def test_fifty_failovers_never_two_leaders(kube: apiserver.ApiServer) -> None:
    kube.kubectl("create", "configmap", SHARED[0], "--from-literal=token=0")
    kube.kubectl("create", "configmap", PACE[0])
    tokens: list[int] = []
    async with connected(as_admin(kube)) as admin, asyncio.TaskGroup() as tasks:
        cache = Cache(admin, CONFIG_MAPS, Selection(SHARED[1], fields=f"metadata.name={SHARED[0]}"))
        cache.subscribe(lambda change: tokens.append(int(change.new.data["token"]) if change.new else -1))
        pace = Pace(admin)
        beside = [tasks.create_task(cache.run()), tasks.create_task(pace.run())]
        await cache.synced()
        candidates = [Candidate(kube, "one"), Candidate(kube, "two")]
        try:
            handovers = await fail_over(candidates, pace, FAILOVERS)
        finally:
            for candidate in candidates:
                candidate.kill()
        last = int((await admin.get(CONFIG_MAPS, *SHARED)).data["token"])
        await until(lambda: tokens[-1] == last, PATIENCE)
        for task in beside:
            task.cancel()
    # The order is the server's own: one watch saw every single write.
    assert tokens == sorted(tokens), "a deposed leader wrote after its successor"
    assert len(set(tokens)) > FAILOVERS
    # The last renewal is seen by one poll, its end by another: a busy machine may be late for both.
    slow = [(took, late) for took, late in handovers if took > LEASE_SECONDS + 2 + 2 * late]
    assert not slow
    seconds = sorted(took for took, _ in handovers)
    sys.stderr.write(
        f"{FAILOVERS} failovers, {len(tokens)} fenced writes, hand-over "
        f"median {seconds[FAILOVERS // 2]:.2f} s, max {seconds[-1]:.2f} s\n"
    )
