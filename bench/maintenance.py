"""The operator carrying out the maintenances of a fleet, whose agents only claim and report: what it costs.

The API, the operator and the agents are a process each. Hosts that wait give a sign of life now and then:
what heartbeats cost is in `liveness`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import apis, liveness, nodes, operator_account, processes
from bench.liveness import AT_ONCE, NAMESPACE, Operator
from bench.report import Goal, Row, Section
from bench.settings import Settings
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT, NODE_MAINTENANCES
from nodemanager.client.auth import load
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.host.process import runner

NAME = "maintenance"
LEASE_SECONDS = 7200
GROUP = "bench/group"
WAIT_SECONDS = 3600
"""A guard against hanging: 10,000 visits take 11 minutes, or half an hour on a busy machine."""
PEERS = (
    Row("nodewright, documented memory limit at 1,000 nodes and 5 packages", 1638.0, "MiB"),
    Row("NVSentinel janitor, 99,000 simulated nodes", 1134.0, "MiB"),
    Row("Mellanox MMO, 141 nodes", 156.0, "MiB"),
)
"""What others have published of theirs; of the work that it took, or how long decisions take, nobody has."""


@dataclass
class Seen:
    """What the operator was seen to take."""

    memory: float = 0.0
    """MiB, at most."""


def run(settings: Settings) -> Section:
    """Have all hosts visited once."""
    count, maintenances = settings.pick(10_000, 60), settings.pick(50, 3)
    with (
        tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as name,
        apis.ours(Path(name)) as api,
        liveness.operating(asyncio.run(operator_account.kubeconfig(api.kubeconfig))) as operator,
    ):
        rows = asyncio.run(_measure(api.kubeconfig, operator, count, maintenances))
    title = f"{maintenances} maintenances of {count} hosts, whose agents only claim and report"
    return Section(NAME, title, [*rows, *PEERS])


async def _measure(kubeconfig: Path, operator: Operator, count: int, maintenances: int) -> list[Row]:
    client = Client(HttpTransport(load.discover(path=str(kubeconfig), environ={}, run=runner.run)))
    hosts = [nodes.name(number) for number in range(count)]
    try:
        await liveness.until(lambda: operator.cpu() > 0, 60)
        bare = apis.resident(operator.pid) / 1024
        await join(client, hosts, maintenances)
        await liveness.until(lambda: operator.alive() == count, 300)
        before, worked, began = operator.writes(), operator.cpu(), time.monotonic()
        with agents(kubeconfig) as process:
            for number in range(maintenances):
                await client.create(NODE_MAINTENANCES, body(number), NAMESPACE)
            seen = await all_done(client, operator, maintenances)
            told, _ = await asyncio.to_thread(process.communicate, b"", 60)
        took, worked = time.monotonic() - began, operator.cpu() - worked
        written, reports = operator.writes() - before, json.loads(told)["reports"]
    finally:
        await client.close()
    return [
        Row("resident, at most", seen.memory, "MiB", goal=Goal(300.0, "MiB")),
        Row("memory for each host", (seen.memory - bare) * 1024 / count, "KiB"),
        Row("99 of 100 decisions took at most", operator.quantile(0.99) * 1000, "ms", goal=Goal(200.0, "ms")),
        Row("writes for the visit of a host, Events included", (written + reports) / count, "",
            goal=Goal(12.0, "")),
        Row("of these by the operator", written / count, ""),
        Row("until all hosts were done", took, "s"),
        Row("CPU time of the operator for each host", worked * 1000 / count, "ms"),
        Row("share of a core meanwhile", 100 * worked / took, "%"),
    ]  # fmt: skip


@contextlib.contextmanager
def agents(kubeconfig: Path, child: str = "task_agents", *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run agents of all hosts, which only claim and report, until the end of the block."""
    argv = [sys.executable, "-m", f"bench.children.{child}", str(kubeconfig), NAMESPACE, *more]
    with subprocess.Popen(
        argv, cwd=processes.ROOT, env=processes.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def join(client: Client, hosts: Sequence[str], groups: int) -> None:
    """Make the ManagedNode and the Lease of every host, some at a time."""
    left = iter(enumerate(hosts))

    async def work() -> None:
        for number, host in left:
            body = {"metadata": {"name": host, "labels": {GROUP: f"g{number % groups}"}}}
            await client.create(MANAGED_NODES, body, NAMESPACE)
            await liveness.first_sign(client, host, LEASE_SECONDS)
            await liveness.renew(client, host)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def body(number: int) -> dict[str, object]:
    """Return the maintenance of a group of hosts."""
    step = {"name": "touch", "execution": {"argv": ["touch", "/var/tmp/was-here"], "timeout": "1m"}}
    return {
        "metadata": {"name": f"m{number}"},
        "spec": {
            "window": {"always": True},
            "series": {"selector": {"matchLabels": {GROUP: f"g{number}"}}},
            "budget": {"maxUnavailable": "10%"},
            "operations": [{"name": "note", "type": "one-shot", "steps": [step]}],
        },
    }


async def all_done(client: Client, operator: Operator, maintenances: int) -> Seen:
    """Wait until all maintenances have ended well; return what the operator took meanwhile."""
    seen, deadline = Seen(), time.monotonic() + WAIT_SECONDS
    while True:
        seen.memory = max(seen.memory, apis.resident(operator.pid) / 1024)
        found = (await client.list(NODE_MAINTENANCES, Selection(NAMESPACE))).items
        phases = [one.status.phase for one in found]
        if phases.count("Succeeded") == maintenances:
            return seen
        if time.monotonic() > deadline or {"Failed", "Stopped"} & set(phases):
            bad = next(iter(await failures(client)), "nobody has failed")
            raise processes.ChildFailed(
                f"cannot measure maintenances: they are {sorted(set(phases))} after"
                f" {WAIT_SECONDS - deadline + time.monotonic():.0f} s; {bad}"
            )
        await asyncio.sleep(1.0)


async def failures(client: Client) -> list[str]:
    """Return the hosts whose visits did not end well, and why."""
    hosts = (await client.list(MANAGED_NODES, Selection(NAMESPACE))).items
    found = [
        (one.metadata.name, claims.decode(one.metadata.annotations.get(ANNOTATION_VISIT))) for one in hosts
    ]
    return [
        f"{name}: {claim.state} since {claim.since}, {claim.reason} {claim.missing}"
        for name, claim in found
        if isinstance(claim, Claim) and claim.state.is_end and claim.state is not State.DONE
    ]
