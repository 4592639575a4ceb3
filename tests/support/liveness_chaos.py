"""Hosts that live through everything but real silence, two operators who watch over them, and their API.

    for act in schedule(seed=7, seconds=1800, lease=60, hosts=("a", "b", "c")):
        act.at, act.kind, act.host, act.seconds

No act keeps a host from renewing its Lease for as long as the Lease lasts, except `silence`. After each, a
host has time for a sign of life before the next is done to it. Operators are killed at any time, but for the
time in which one has to notice somebody.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.common.node_conditions import ALIVE
from nodemanager.client.calls import Selection
from nodemanager.kube import conditions, errors
from support import cli, debian_packages
from support.agent_process import Agent
from support.clients import connected
from support.server_process import NAMESPACE, Server

SILENT_LEASES: Final = 1.5
"""Within so many Leases a silent host has to be marked."""
CALM: Final = 0.45
"""Of a Lease: the time after a spell in which a host renews it, whatever it waited for."""
BUSY_SECONDS: Final = 60.0
"""How much later we may see a mark, on a machine that does much else; virtual time has it to the second."""
LONGEST: Final = 0.9
"""Of a Lease: how long a host is frozen, or the API away, at most."""
WEIGHTS: Final = {"kill": 4, "freeze": 4, "clock": 3, "outage": 2, "operator": 3}
JUMPS: Final = (-7200, -600, -61, 61, 600, 7200)


@dataclass(frozen=True, slots=True, order=True)
class Act:
    """One thing that happens."""

    at: float
    kind: str
    host: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.at:8.1f} {self.kind:8} {self.host or '-':4} {self.seconds:g}"


def schedule(seed: int, seconds: float, lease: float, hosts: Sequence[str]) -> list[Act]:
    """Return everything that will happen, in order; the same for the same arguments."""
    chance = random.Random(seed)
    acts: list[Act] = []
    free = dict.fromkeys(hosts, 0.0)
    at, round_ends = 0.0, _round(chance, lease)
    while True:
        at += chance.uniform(0.05, 0.2) * lease
        if at > min(round_ends, seconds):
            begin = max([at, *free.values()])
            acts.append(Act(begin, "silence", chance.choice(hosts)))
            if begin >= seconds:
                return acts
            at = begin + (SILENT_LEASES + CALM) * lease
            free, round_ends = dict.fromkeys(hosts, at), at + _round(chance, lease)
            continue
        kind = chance.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
        whom = list(hosts) if kind == "outage" else [chance.choice(hosts)]
        if kind == "operator":
            acts.append(Act(at, kind, chance.choice(("0", "1"))))
            continue
        if any(free[one] > at for one in whom):
            continue
        lasts = chance.uniform(0.1, LONGEST) * lease if kind in ("freeze", "outage") else 0.0
        what = float(chance.choice(JUMPS)) if kind == "clock" else lasts
        acts.append(Act(at, kind, "" if kind == "outage" else whom[0], what))
        free.update(dict.fromkeys(whom, at + lasts + CALM * lease))
        at += lasts if kind == "outage" else 0.0


def _round(chance: random.Random, lease: float) -> float:
    """Return for how long only harmless things happen."""
    return chance.uniform(2.0, 5.0) * lease


@dataclass
class Watch:
    """A server, two operators and agents of folders; `do` each act."""

    folder: Path
    lease: int
    server: Server
    agents: dict[str, Agent] = field(default_factory=dict)
    operators: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    expected: Counter[str] = field(default_factory=Counter)
    """How often each host has to have been called silent."""
    done: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    _later: list[tuple[float, int, str]] = field(default_factory=list)
    """When a frozen host is to be thawed, or an agent to be started again."""
    _port: int = 0

    def begin(self, hosts: Sequence[str]) -> None:
        """Start everything, and wait until all hosts are alive."""
        self._port = self.server.port
        done = self.server.cli("crds", "--install")
        assert done.returncode == 0, done.stderr
        for name in ("0", "1"):
            self._start_operator(name)
        for host in hosts:
            root = self.folder / "hosts" / host
            (root / "etc").mkdir(parents=True)
            environ = faked_clock(self.folder / f"{host}.clock", 0)
            argv = (sys.executable, "-m", "support.quick_agent", str(self.lease))
            agent = Agent(root, NAMESPACE, self.server.kubeconfig, host, environ=environ, argv=argv)
            agent.start()
            self.agents[host] = agent
        self.until(lambda: self.marks() == dict.fromkeys(hosts, "True"), 300)

    def _start_operator(self, name: str) -> None:
        argv = [*cli.ARGV, "operator", "--kubeconfig", str(self.server.kubeconfig)]
        argv += ["--metrics-bind-address", "0", "--health-probe-bind-address", "0"]
        with (self.folder / f"operator{name}.log").open("ab") as file:
            self.operators[name] = subprocess.Popen(argv, stdout=file, stderr=file, env=cli.environment())

    # What happens

    def do(self, act: Act) -> None:
        """Let something happen."""
        self.done[act.kind] += 1
        getattr(self, f"_{act.kind}")(act.host, act.seconds)

    def _kill(self, host: str, _seconds: float) -> None:
        self.agents[host].end()
        self._later.append((time.monotonic() + 1.0, 0, host))

    def _freeze(self, host: str, seconds: float) -> None:
        self.agents[host].signal(signal.SIGSTOP)
        self._later.append((time.monotonic() + seconds, signal.SIGCONT, host))

    def _clock(self, host: str, seconds: float) -> None:
        (self.folder / f"{host}.clock").write_text(f"{seconds:+.0f}\n")

    def _outage(self, _host: str, seconds: float) -> None:
        self.server.stop(signal.SIGKILL)
        self.rest(seconds)
        self.server.start(self._port)

    def _operator(self, name: str, _seconds: float) -> None:
        self.operators[name].kill()
        self.operators[name].wait(60)
        self._start_operator(name)

    def _silence(self, host: str, _seconds: float) -> None:
        """Let a host fall silent in earnest: it is marked in time, nobody else is, and it comes back."""
        self.agents[host].end()
        began = time.monotonic()
        self.expected[host] += 1
        self.until(lambda: self.marks().get(host) == "False", SILENT_LEASES * self.lease + BUSY_SECONDS)
        self.slowest = max(self.slowest, time.monotonic() - began)
        self.agents[host].start()
        self.until(lambda: self.marks().get(host) == "True", self.lease + BUSY_SECONDS)

    # Time

    def rest(self, seconds: float) -> None:
        """Let time pass; thaw and start again whoever is due, and operators that gave up."""
        end = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            for one in [one for one in self._later if one[0] <= now]:
                self._later.remove(one)
                _, number, host = one
                self.agents[host].signal(number) if number else self.agents[host].start()
            for name, process in self.operators.items():
                if process.poll() is not None:  # it lost its Lease in an outage, as it says it does
                    self._start_operator(name)
            if now >= end:
                return
            time.sleep(min(0.2, end - now))

    def until(self, holds: object, seconds: float) -> None:
        """Wait for something that has to become true in time."""
        assert callable(holds)
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, f"not within {seconds:g} s: {self.marks()}; {self.alarms()}"
            self.rest(0.25)

    # What is seen

    def marks(self) -> dict[str, str]:
        """Return what the operator says of each host; empty while the API is away."""
        try:
            return asyncio.run(self._marks())
        except errors.KubeError:
            return {}

    async def _marks(self) -> dict[str, str]:
        async with connected(self.server.config()) as client:
            found = (await client.list(MANAGED_NODES, Selection(NAMESPACE))).items
        alive = {one.metadata.name: conditions.get(one.status.conditions, ALIVE) for one in found}
        return {name: said.status if said else "" for name, said in alive.items()}

    def alarms(self) -> Counter[str]:
        """Return how often each host was called silent, by either operator."""
        text = "".join(one.read_text() for one in self.folder.glob("operator*.log"))
        return Counter({host: text.count(f" {host} is silent: ") for host in self.agents})

    def false_alarms(self) -> Counter[str]:
        """Return how often each host was called silent and was not."""
        return self.alarms() - self.expected


def faked_clock(file: Path, seconds: int) -> dict[str, str]:
    """Return the environment of a process whose clock is off by what a file says; by so much, at first."""
    library = debian_packages.faketime()
    file.write_text(f"{seconds:+d}\n")
    return {
        "LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1", "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip


@contextlib.contextmanager
def watched(folder: Path, lease: int, hosts: Sequence[str]) -> Iterator[Watch]:
    """Everything that is needed, gone at the end."""
    server = Server(folder / "server")
    server.folder.mkdir()
    server.start()
    watch = Watch(folder, lease, server)
    try:
        watch.begin(hosts)
        yield watch
    finally:
        for agent in watch.agents.values():
            agent.end()
        for process in (*watch.operators.values(), server.process):
            if process is not None:
                process.kill()
                process.wait(50)
