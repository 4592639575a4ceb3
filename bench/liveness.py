"""The operator watching over the Leases of a fleet, a part of which falls silent: memory, work and writes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bench import apis, nodes, operator_account, processes
from bench.report import Goal, Row, Section
from bench.settings import Settings
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.common.node_conditions import ALIVE
from nodemanager.client.auth import load
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from nodemanager.kube import conditions, times
from nodemanager.kube.core import LEASES
from nodemanager.runtime import unelected_lease

NAME = "liveness"
NAMESPACE = operator_account.NAMESPACE
AT_ONCE = 32
SILENT = 0.05
JOIN_SECONDS = 600
REST_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """Who is watched over."""

    client: Client
    hosts: Sequence[str]
    duration: int
    """Seconds that a Lease lasts; here it is renewed half as often as by an agent, to spare the server."""
    lease: int
    """The same of hosts that stay alive."""
    renewed: dict[str, datetime] = field(default_factory=dict)
    """When each host gave its last sign of life."""

    @property
    def lost(self) -> Sequence[str]:
        """Who falls silent."""
        return self.hosts[: round(len(self.hosts) * SILENT)]

    @property
    def living(self) -> Sequence[str]:
        """Who does not."""
        return self.hosts[len(self.lost) :]


@dataclass(frozen=True, slots=True)
class Operator:
    """The process that is measured."""

    pid: int
    metrics: str

    def value(self, pattern: str) -> float:
        """Return the sum of the series whose line begins with a pattern; 0 as long as nobody listens."""
        return sum(float(one) for one in re.findall(rf"^{pattern}.* (\S+)$", self._text(), re.MULTILINE))

    def quantile(self, share: float) -> float:
        """Return how long so many of its decisions about maintenances took at most, in seconds."""
        name = "nodemanager_maintenance_decision_seconds_bucket"
        counts = re.findall(rf'^{name}{{le="(\S+)"}} (\S+)$', self._text(), re.MULTILINE)
        total = float(counts[-1][1])
        return next(float(bound) for bound, count in counts if float(count) >= share * total)

    def _text(self) -> str:
        try:
            with urllib.request.urlopen(self.metrics, timeout=30) as answer:
                text: str = answer.read().decode()
        except ConnectionError:
            return ""
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            return ""
        return text

    def alive(self) -> float:
        """Return how many hosts it calls alive."""
        return self.value(r'nodemanager_hosts\{state="alive"\}')

    def silent(self) -> float:
        """Return how many hosts it calls silent."""
        return self.value(r'nodemanager_hosts\{state="silent"\}')

    def writes(self) -> float:
        """Return how often it changed something in the API."""
        return self.value(r'rest_client_requests_total\{code="2..",method="(?:PATCH|POST|PUT)"')

    def written(self) -> float:
        """Return how many bytes that took, in bodies of requests."""
        return self.value(r'rest_client_request_size_bytes_sum\{verb="(?:PATCH|POST|PUT)"')

    def unrecorded(self) -> float:
        """Return how many changes are not in the audit log yet, or 1 while it cannot be written."""
        return self.value("nodemanager_audit_pending") + self.value("nodemanager_audit_failing")

    def cpu(self) -> float:
        """Return the seconds that it has worked."""
        return self.value("process_cpu_seconds_total")


@dataclass(slots=True)
class Quiet:
    """For how long an operator has written nothing but its Lease, which it renews all the time."""

    operator: Operator
    _writes: float = math.inf
    _since: float = 0.0

    def seconds(self) -> float:
        """Look, and return for how long it has been so."""
        now, writes = time.monotonic(), self.operator.writes()
        renewals = 1 + (now - self._since) / unelected_lease.TIMINGS.retry_period
        if not 0 <= writes - self._writes <= renewals:
            self._writes, self._since = writes, now
        return now - self._since


def run(settings: Settings) -> Section:
    """Let a part of a fleet fall silent, and see what that costs."""
    count, duration = settings.pick(10_000, 200), settings.pick(60, 10)
    lease = settings.pick(settings.lease, duration)
    with (
        tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as name,
        apis.ours(Path(name)) as api,
        operating(asyncio.run(operator_account.kubeconfig(api.kubeconfig))) as operator,
    ):
        rows = asyncio.run(_measure(api.kubeconfig, operator, count, duration, lease))
    return Section(NAME, f"the operator and {count} hosts, of which {SILENT:.0%} fall silent", rows)


@contextlib.contextmanager
def operating(kubeconfig: Path) -> Iterator[Operator]:
    """Run the operator."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [sys.executable, "-m", "nodemanager", "operator", "--kubeconfig", str(kubeconfig)]
    argv += ["--no-leader-elect", "--metrics-bind-address", f"127.0.0.1:{port}", "--log-level", "error"]
    argv += ["--health-probe-bind-address", "0"]
    with subprocess.Popen(argv, cwd=processes.ROOT, env=processes.environment()) as process:
        try:
            yield Operator(process.pid, f"http://127.0.0.1:{port}/metrics")
        finally:
            process.terminate()
            process.wait(timeout=apis.STOP_TIMEOUT)


async def _measure(kubeconfig: Path, operator: Operator, count: int, duration: int, lease: int) -> list[Row]:
    client = Client(HttpTransport(load.discover(path=str(kubeconfig), environ={}, run=runner.run)))
    fleet = Fleet(client, [nodes.name(number) for number in range(count)], duration, lease)
    latest = 1.5 * duration
    try:
        await until(lambda: operator.cpu() > 0, JOIN_SECONDS)
        await _join(fleet)
        async with _renewing(fleet, fleet.lost, duration), _renewing(fleet, fleet.living, lease):
            await until(lambda: operator.alive() == count, JOIN_SECONDS)
            await until(lambda: operator.unrecorded() == 0, JOIN_SECONDS)
            await _at_rest(operator)
        memory = apis.resident(operator.pid) / 1024
        async with _renewing(fleet, fleet.living, lease):
            began, worked = time.monotonic(), operator.cpu()
            before, sent = operator.writes(), operator.written()
            await until(lambda: operator.silent() >= len(fleet.lost), latest + 30)
            took, worked = time.monotonic() - began, operator.cpu() - worked
            written, sent = operator.writes() - before, operator.written() - sent
            marked = operator.silent()
            waited = await _marked_after(fleet)
        after = apis.resident(operator.pid) / 1024
    finally:
        await client.close()
    return [
        Row(f"resident, {count} hosts alive", memory, "MiB", goal=Goal(100.0, "MiB")),
        Row("resident, after some fell silent", after, "MiB", goal=Goal(100.0, "MiB")),
        Row("until the last silent host was marked", took, "s", goal=Goal(latest, "s")),
        Row("marked after its last sign of life, the first", waited[0], "s"),
        Row("marked after its last sign of life, the median", waited[len(waited) // 2], "s"),
        Row("marked after its last sign of life, the last", waited[-1], "s", goal=Goal(latest + 1.0, "s")),
        Row("writes for each of them, Events included", written / marked, "", goal=Goal(2.0, "")),
        Row("bytes written for each of them, Events included", sent / marked, "B"),
        Row("hosts that live and were marked", marked - len(fleet.lost), "", goal=Goal(0.0, "")),
        Row("share of a core meanwhile", 100 * worked / took, "%"),
    ]


async def _at_rest(operator: Operator) -> None:
    """Wait until nothing is written for a while: what is written of hosts that came is not counted below."""
    quiet = Quiet(operator)
    await until(lambda: quiet.seconds() >= REST_SECONDS, JOIN_SECONDS)


async def _marked_after(fleet: Fleet) -> list[float]:
    """Return how many seconds after its last sign of life each silent host was marked; sorted."""
    found = (await fleet.client.list(MANAGED_NODES, Selection(NAMESPACE))).items
    marks = {one.metadata.name: conditions.get(one.status.conditions, ALIVE) for one in found}
    told = {
        name: moment
        for name, mark in marks.items()
        if mark is not None and mark.status == conditions.FALSE
        and (moment := times.parse(mark.last_transition_time)) is not None
    }  # fmt: skip
    return sorted((moment - fleet.renewed[name]).total_seconds() for name, moment in told.items())


async def _join(fleet: Fleet) -> None:
    """Make the ManagedNode and the Lease of every host, some at a time."""
    left = iter(
        [*((one, fleet.lease) for one in fleet.living), *((one, fleet.duration) for one in fleet.lost)]
    )

    async def work() -> None:
        for host, duration in left:
            await fleet.client.create(MANAGED_NODES, {"metadata": {"name": host}}, NAMESPACE)
            await first_sign(fleet.client, host, duration)
            await renew(fleet.client, host)  # a Lease that never changed proves nothing
            fleet.renewed[host] = datetime.now(UTC)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


async def first_sign(client: Client, host: str, duration: int) -> None:
    """Make the Lease of a host."""
    spec = {"holderIdentity": host, "leaseDurationSeconds": duration, "renewTime": _stamp()}
    lease = {"metadata": {"name": f"nodemanager-{host}"}, "spec": spec}
    await client.create(LEASES, lease, NAMESPACE)


async def renew(client: Client, host: str) -> None:
    """Renew the Lease of a host."""
    renewal = MergePatch({"spec": {"renewTime": _stamp()}})
    await client.patch(LEASES, f"nodemanager-{host}", NAMESPACE, renewal)


@contextlib.asynccontextmanager
async def _renewing(fleet: Fleet, hosts: Sequence[str], duration: int) -> AsyncIterator[None]:
    """Renew the Leases of hosts one after the other, evenly, until the end of the block."""
    turn, over = itertools.cycle(hosts), asyncio.Event()
    pace = duration * 2 / 3 * AT_ONCE / len(hosts)

    async def work() -> None:
        while not over.is_set():
            host, began = next(turn), time.monotonic()
            await renew(fleet.client, host)
            fleet.renewed[host] = datetime.now(UTC)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, pace - (time.monotonic() - began))):
                    await over.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
        try:
            yield
        finally:
            over.set()  # and not cancelled: a sign of life that is on its way counts


async def until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until something is seen of the operator."""
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(condition):
        if time.monotonic() > deadline:
            raise processes.ChildFailed(f"cannot measure the operator: it is not there after {seconds:g} s")
        await asyncio.sleep(0.5)


def _stamp() -> str:
    return times.rfc3339_micro(datetime.now(UTC))
