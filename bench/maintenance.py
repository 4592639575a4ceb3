"""The operator carrying out the maintenances of a fleet, whose agents only claim and report: what it costs.

The API, the operator and the agents are a process each. Hosts have a Lease that lasts longer than the run:
what heartbeats cost is in `liveness`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import apis, liveness, nodes, processes
from bench.liveness import AT_ONCE, NAMESPACE, Operator
from bench.report import Goal, Row, Section
from bench.settings import Settings
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.api.rights import operator_rights
from nodemanager.client.auth import load
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.subresources import request_token
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly
from nodemanager.host.process import runner
from nodemanager.kube import core, errors
from nodemanager.kube.objects import Resource

NAME = "maintenance"
LEASE_SECONDS = 7200
NAMESPACES: Resource[Any] = Resource("", "v1", "Namespace", "namespaces", dict, namespaced=False)
GROUP = "bench/group"
WAIT_SECONDS = 1500
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
    count, maintenances = settings.pick(10_000, 300), settings.pick(50, 5)
    with (
        tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as name,
        apis.ours(Path(name)) as api,
        liveness.operating(asyncio.run(_account(api.kubeconfig))) as operator,
    ):
        rows = asyncio.run(_measure(api.kubeconfig, operator, count, maintenances))
    title = f"{maintenances} maintenances of {count} hosts, whose agents only claim and report"
    return Section(NAME, title, [*rows, *PEERS])


async def _account(kubeconfig: Path) -> Path:
    """Return a kubeconfig of the operator's own account: nobody else may make tasks."""
    config = load.discover(path=str(kubeconfig), environ={}, run=runner.run)
    client = Client(HttpTransport(config))
    kinds: dict[str, Resource[Any]] = {
        "Namespace": NAMESPACES, "ServiceAccount": core.SERVICE_ACCOUNTS, "Role": core.ROLES,
        "RoleBinding": core.ROLE_BINDINGS,
    }  # fmt: skip
    try:
        for one in assembly.manifests(NAMESPACE):
            with contextlib.suppress(errors.AlreadyExists):
                await client.create(kinds[one["kind"]].untyped(), one, one["metadata"].get("namespace", ""))
        issued = await request_token(client, operator_rights.NAME, NAMESPACE, seconds=LEASE_SECONDS)
    finally:
        await client.close()
    authority = base64.b64encode(config.ca or b"").decode()
    written = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "operator",
        "contexts": [
            {"name": "operator", "context": {"cluster": "bench", "user": "operator", "namespace": NAMESPACE}}
        ],
        "clusters": [
            {"name": "bench", "cluster": {"server": config.server, "certificate-authority-data": authority}}
        ],
        "users": [{"name": "operator", "user": {"token": issued.token}}],
    }
    path = kubeconfig.parent / "operator.kubeconfig"
    path.write_text(json.dumps(written))
    path.chmod(0o600)
    return path


async def _measure(kubeconfig: Path, operator: Operator, count: int, maintenances: int) -> list[Row]:
    client = Client(HttpTransport(load.discover(path=str(kubeconfig), environ={}, run=runner.run)))
    hosts = [nodes.name(number) for number in range(count)]
    try:
        await liveness.until(lambda: operator.cpu() > 0, 60)
        bare = apis.resident(operator.pid) / 1024
        await _join(client, hosts, maintenances)
        await liveness.until(lambda: operator.alive() == count, 300)
        before, worked, began = operator.writes(), operator.cpu(), time.monotonic()
        argv = [sys.executable, "-m", "bench.children.task_agents", str(kubeconfig), NAMESPACE]
        with subprocess.Popen(  # noqa: ASYNC220 - nobody waits for it here
            argv, cwd=processes.ROOT, env=processes.environment(), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as agents:  # fmt: skip
            try:
                for number in range(maintenances):
                    await client.create(NODE_MAINTENANCES, _maintenance(number), NAMESPACE)
                seen = await _all_done(client, operator, maintenances)
                told, _ = await asyncio.to_thread(agents.communicate, b"", 60)
            finally:
                agents.kill()
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


async def _join(client: Client, hosts: Sequence[str], groups: int) -> None:
    """Make the ManagedNode and the Lease of every host, some at a time."""
    left = iter(enumerate(hosts))

    async def work() -> None:
        for number, host in left:
            body = {"metadata": {"name": host, "labels": {GROUP: f"g{number % groups}"}}}
            await client.create(MANAGED_NODES, body, NAMESPACE)
            await liveness.first_sign(client, host, LEASE_SECONDS)
            await liveness.renew(client, host)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def _maintenance(number: int) -> dict[str, object]:
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


async def _all_done(client: Client, operator: Operator, maintenances: int) -> Seen:
    """Wait until all maintenances have ended well; return what the operator took meanwhile."""
    seen, deadline = Seen(), time.monotonic() + WAIT_SECONDS
    while True:
        seen.memory = max(seen.memory, apis.resident(operator.pid) / 1024)
        found = (await client.list(NODE_MAINTENANCES, Selection(NAMESPACE))).items
        phases = [one.status.phase for one in found]
        if phases.count("Succeeded") == maintenances:
            return seen
        if time.monotonic() > deadline or {"Failed", "Stopped"} & set(phases):
            raise processes.ChildFailed(f"cannot measure maintenances: they are {sorted(set(phases))}")
        await asyncio.sleep(1.0)
