"""Agents that are measured: one that makes passes on command, and one as a service runs it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench import apis, processes
from bench.work import Work
from nodemanager.agent import self_care
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.cli.settings import connect
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import identity

NAMESPACE = "nodemanager"
START_TIMEOUT = 600.0
"""A guard against hanging: on a busy machine a start may take minutes."""
MODULE = (sys.executable, "-m", "nodemanager")
_APPLIED = re.compile(r'^nodemanager_configset_apply_total\{.*result="success"\} ([1-9])', re.MULTILINE)
_FILES = re.compile(r"^nodemanager_file_changes_total\{.*\} (\d+)", re.MULTILINE)

_MOMENT = 1.0
"""Seconds after which an agent is asked that does not say so, or said so too early."""
_REST_SECONDS = 60.0
"""How long a process that renders may take to end; it does after 15 s without work."""


@dataclass(frozen=True, slots=True)
class Took:
    """What one pass took, in milliseconds."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Pilot:
    """An agent that makes a pass when it is told to."""

    orders: IO[str]
    answers: IO[str]

    def go(self, command: str = "pass") -> Took:
        """Have it make a pass."""
        self.orders.write(f"{command}\n")
        self.orders.flush()
        line = self.answers.readline()
        if not line:
            raise processes.ChildFailed("cannot measure the agent: it has ended, see above")
        answer = json.loads(line)
        if answer["error"]:
            raise processes.ChildFailed(f"cannot measure the agent: its host is not ready: {answer['error']}")
        return Took(answer["wall"], answer["cpu"])


@contextlib.contextmanager
def pilot(kubeconfig: Path, root: Path, hostname: str) -> Iterator[Pilot]:
    """Run an agent that waits for orders."""
    argv = [sys.executable, "-m", "bench.children.passes", str(kubeconfig), str(root), hostname]
    with subprocess.Popen(
        argv, cwd=processes.ROOT, env=processes.environment(), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Pilot(process.stdin, process.stdout)
        finally:
            process.kill()


@dataclass(frozen=True, slots=True)
class Running:
    """`nodemanager agent`, its first pass done."""

    pid: int
    seconds: float
    """From the start of the process to the end of that pass."""
    cpu: float
    """Seconds of CPU time until then; the rest is waiting, also for a processor that others use."""
    changes: int
    """How many paths the first pass changed."""

    def mebibytes(self, settle: float) -> float:
        """Return what it and its children hold in memory after some quiet seconds."""
        time.sleep(settle)
        return sum(map(apis.resident, _family(self.pid))) / 1024

    def at_rest(self) -> float:
        """Return the same once it has given back what only its start needed, with no child that renders."""
        deadline = time.monotonic() + _REST_SECONDS
        while len(_family(self.pid)) > 1 and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.mebibytes(settle=self_care.SETTLE_SECONDS + 1)

    def idle(self, seconds: float) -> float:
        """Return which share of a core it and its children take in some quiet seconds."""
        before, began = sum(map(_cpu, _family(self.pid))), time.monotonic()
        time.sleep(seconds)
        return (sum(map(_cpu, _family(self.pid))) - before) / (time.monotonic() - began)


@contextlib.contextmanager
def running(
    kubeconfig: Path, root: Path, hostname: str, sets: int, command: Sequence[str] = MODULE,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Running]:  # fmt: skip
    """Run an agent until all its ConfigSets hold and it says that it is ready."""
    metrics, probes = _free_port(), _free_port()
    notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notices.bind(f"\0nodemanager-bench-{metrics}")
    env = {**(environment or processes.environment()), "NOTIFY_SOCKET": f"@nodemanager-bench-{metrics}"}
    argv = [*command, "agent", "--kubeconfig", str(kubeconfig), "--root", str(root)]
    argv += ["--hostname", hostname, "--log-level", "warn", "--metrics-bind-address", f"127.0.0.1:{metrics}"]
    argv += ["--health-probe-bind-address", f"127.0.0.1:{probes}"]
    began = time.monotonic()
    with notices, subprocess.Popen(argv, cwd=processes.ROOT, env=env) as process:
        try:
            while True:
                _hear(notices)
                if process.poll() is not None or time.monotonic() - began > START_TIMEOUT:
                    raise processes.ChildFailed("cannot measure the agent: it does not converge, see above")
                seconds, cpu = time.monotonic() - began, sum(map(_cpu, _family(process.pid)))
                said = _get(metrics, "/metrics")
                if len(_APPLIED.findall(said)) >= sets and " 200 " in _get(probes, "/readyz"):
                    break
            changes = sum(map(int, _FILES.findall(said)))
            yield Running(process.pid, seconds, cpu, changes)
        finally:
            process.terminate()
            process.wait(timeout=apis.STOP_TIMEOUT)


def declare(kubeconfig: Path, work: Work) -> None:
    """Create the ConfigSets of the work."""
    asyncio.run(_create(kubeconfig, work.config_sets()))


def declare_foreign(kubeconfig: Path, count: int) -> None:
    """Create so many ConfigSets of 26 KB that are meant for other hosts."""
    files = [{"path": f"/srv/foreign/{number}", "content": "x" * 950} for number in range(26)]
    names = (f"foreign-{number}" for number in range(count))
    sets = [
        {"metadata": {"name": one, "labels": {"role": "other"}}, "spec": {"files": files}} for one in names
    ]
    asyncio.run(_create(kubeconfig, sets))


async def _create(kubeconfig: Path, sets: Sequence[Mapping[str, Any]]) -> None:
    async with connect.connect(connect.Settings(kubeconfig=str(kubeconfig))) as client:
        for one in sets:
            await client.create(CONFIG_SETS, one, NAMESPACE)


def facts(root: Path, hostname: str) -> dict[str, str]:
    """Return what templates are to find out about the host."""
    tree = Tree(str(root))
    try:
        who = identity.identify(tree, hostname)
    finally:
        tree.close()
    return {"name": hostname, "system": who.system, "arch": who.arch, "os": who.os_id}


def _family(pid: int) -> list[int]:
    """Return a process and its children: some programs are two, one of which only waits for the other."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [pid, *map(int, children)]


def _cpu(pid: int) -> float:
    """Return the seconds of CPU time of all threads that a process has; it keeps those that look at files."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(one.read_text(encoding="ascii").split()[0]) for one in threads) / 1e9


def _hear(notices: socket.socket) -> None:
    """Wait until an agent says that it is ready, as it does to systemd after its first pass, or for a moment.

    To ask it all the time how far it is would be much of what it does then.
    """
    deadline = time.monotonic() + _MOMENT
    while (left := deadline - time.monotonic()) > 0:
        notices.settimeout(left)
        with contextlib.suppress(TimeoutError):
            if b"READY=1" in notices.recv(65536).split(b"\n"):
                return


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _get(port: int, path: str) -> str:
    """Ask with as little as possible: who is asked is being measured."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n".encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    except OSError:
        return ""
