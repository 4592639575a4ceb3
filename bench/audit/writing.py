"""The writer of the audit log: alone, and in an operator that carries out maintenances meanwhile."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from bench import apis, liveness, maintenance, nodes, operator_account, processes
from bench.audit import logs
from bench.liveness import NAMESPACE, Operator
from bench.report import Goal, Row
from bench.settings import Settings
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.client.auth import load
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from nodemanager.controllers.audit.storing import LogStore
from nodemanager.fleet.audit import segments
from nodemanager.host.process import runner

ALONE = "records into the API, by the writer alone, in batches of 2000"
BESIDE = "records by an operator that sees a fleet for the first time, with its other work, a record"
DAYS = 7
"""One maintenance of each host in this time is the load for which growth is told."""


def rows(settings: Settings) -> list[Row]:
    """Measure both on an embedded API of their own."""
    alone = asyncio.run(_alone(settings.pick(100_000, 1000)))
    hosts, groups = settings.pick(3000, 40), settings.pick(30, 2)
    with (
        tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as name,
        apis.ours(Path(name)) as api,
    ):
        account = asyncio.run(_prepare(api.kubeconfig, hosts, groups))
        with liveness.operating(account) as operator:
            beside = asyncio.run(_beside(api.kubeconfig, operator, hosts, groups))
    return [Row(ALONE, alone, "ms", goal=Goal(2.0, "ms"), note=_rate(alone)), *beside]


def _rate(millis: float) -> str:
    return f"{1000 / millis:,.0f} records/s"


async def _alone(count: int) -> float:
    """Return the wall time for a record, in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as name, apis.ours(Path(name)) as api:
        config = load.discover(
            path=str(await operator_account.kubeconfig(api.kubeconfig)), environ={}, run=runner.run
        )
        client = Client(HttpTransport(config))
        try:
            store = LogStore(client, NAMESPACE, segments.EMPTY)
            await store.read(lambda _segment: None)
            random = Random(1)
            began = time.monotonic()
            for begin in range(0, count, logs.BATCH):
                added = [logs.record(random, begin + number) for number in range(min(logs.BATCH, count))]
                await store.append(added, logs.AT, logs.sign)
            return (time.monotonic() - began) * 1000 / store.tail.size
        finally:
            await client.close()


async def _prepare(kubeconfig: Path, count: int, groups: int) -> Path:
    """Have hosts that nobody has recorded yet; return how the operator connects."""
    account = await operator_account.kubeconfig(kubeconfig)
    client = Client(HttpTransport(load.discover(path=str(kubeconfig), environ={}, run=runner.run)))
    try:
        await maintenance.join(client, [nodes.name(number) for number in range(count)], groups)
    finally:
        await client.close()
    return account


async def _beside(kubeconfig: Path, operator: Operator, count: int, groups: int) -> list[Row]:
    """Have an operator record a fleet that it sees for the first time, with all that it does for it then."""
    client = Client(HttpTransport(load.discover(path=str(kubeconfig), environ={}, run=runner.run)))
    try:
        await _until(lambda: operator.cpu() > 0, 300)
        began = time.monotonic()  # what follows includes the first list of everything
        await _until(lambda: operator.value("nodemanager_audit_records") >= count, 900)
        seen, took = _written(operator), time.monotonic() - began
        writes, cpu = operator.writes(), operator.cpu()
        visited = [nodes.name(number) for number in range(0, count, groups)]
        await asyncio.gather(*(liveness.renew(client, host) for host in visited))
        await liveness.until(lambda: operator.alive() >= len(visited) and _is_recorded(operator), 900)
        first = _written(operator)
        with maintenance.agents(kubeconfig):
            await client.create(NODE_MAINTENANCES, maintenance.body(0), NAMESPACE)
            await maintenance.all_done(client, operator, 1)
            await liveness.until(lambda: _is_recorded(operator), 60)
            last = _written(operator)
    finally:
        await client.close()
    each = took * 1000 / seen[0]
    visits = len(visited)
    return [
        Row(BESIDE, each, "ms", goal=Goal(2.0, "ms"), note=_rate(each)),
        Row(
            "CPU time of the operator for a record, with its start and its other work",
            cpu * 1000 / seen[0],
            "ms",
        ),
        Row("its writes meanwhile, those of the log included", writes, ""),
        Row("bytes of a record in the API", last[1] / last[0], "B"),
        Row("records of a maintenance, by host", (last[0] - first[0]) / visits, ""),
        Row(
            f"bytes by host and day, with a maintenance of each every {DAYS} days",
            (last[1] - first[1]) / visits / DAYS,
            "B",
        ),
    ]


async def _until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until something is seen of the operator, and look often."""
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(condition):
        if time.monotonic() > deadline:
            raise processes.ChildFailed("cannot measure the audit log: the operator does not write it")
        await asyncio.sleep(0.1)


def _written(operator: Operator) -> tuple[float, float]:
    return operator.value("nodemanager_audit_records"), operator.value("nodemanager_audit_bytes")


def _is_recorded(operator: Operator) -> bool:
    """Tell whether all that was seen is recorded and signed."""
    records = operator.value("nodemanager_audit_records")
    return (
        records > 0
        and operator.value("nodemanager_audit_pending") == 0
        and operator.value("nodemanager_audit_signed_records") == records
    )
