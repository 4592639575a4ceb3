"""`nodemanager health` where something is away: codes, a watch over an outage, and how wide it is."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.edge.edgecluster import EdgeCluster, EdgeClusterStatus, EdgeNode, PartHealth
from nodemanager.cli.views import output
from nodemanager.cli.views.health import screen
from nodemanager.fleet import health
from nodemanager.fleet.health import ObjectHealth
from nodemanager.kube import times
from nodemanager.kube.objects import ObjectMeta
from support import cli
from support.scripted_server import Exchange, serve

pytestmark = pytest.mark.timeout(120)
READY = {"type": "Ready", "status": "True", "reason": "Applied"}
ALIVE = {"type": "Alive", "status": "True", "reason": "LeaseRenewed"}
HOST = {"metadata": {"name": "web1"}, "status": {"conditions": [READY, ALIVE]}}


class Cluster:
    """Answers what `health` asks for: one host that says that all is well."""

    def __init__(self) -> None:
        self.hosts: list[dict[str, Any]] = [HOST]
        self.renewed: datetime | None = datetime.now(UTC)
        self.namespace = True
        self.refused: tuple[int, str] | None = None

    async def answer(self, exchange: Exchange) -> None:
        """Answer one request."""
        path = exchange.target.partition("?")[0]
        name = path.rpartition("/")[2]
        if self.refused:
            await exchange.refuse(*self.refused)
        elif name == "nodemanager-operator" and self.renewed:
            spec = {"holderIdentity": "x", "renewTime": times.rfc3339_micro(self.renewed)}
            await exchange.json({"metadata": {"name": name}, "spec": spec})
        elif name in ("managednodes", "configsets", "nodemaintenances", "edgeclusters"):
            items = self.hosts if name == "managednodes" else []
            await exchange.json({"metadata": {"resourceVersion": "1"}, "items": items})
        elif name == "here" and self.namespace:
            await exchange.json({"metadata": {"name": "here"}})
        else:
            await exchange.refuse(404, "NotFound")


async def ask(cluster: Cluster, folder: Path) -> cli.Ran:
    async with serve(cluster.answer) as server:
        return await cli.run_against(server, folder, "health", "-n", "here")


async def test_codes(tmp_path: Path) -> None:
    cluster = Cluster()
    assert (await ask(cluster, tmp_path)).code == 0
    cluster.renewed = None
    nobody = await ask(cluster, tmp_path)
    assert nobody.code == 3, "it may be dead since years"
    said = " ".join(nobody.stdout.split())
    assert "operator/nodemanager-operator" in said
    assert "nobody judges who is alive: no operator leads" in said
    assert "managednode/web1" in said
    cluster.renewed = datetime.now(UTC) - timedelta(hours=3)
    gone = await ask(cluster, tmp_path)
    assert gone.code == 3, "nobody would notice that the host is silent"
    assert "operator/nodemanager-operator" in gone.stdout
    assert "nobody tells which hosts are silent" in " ".join(gone.stdout.split())
    cluster.hosts = []
    empty = await ask(cluster, tmp_path)
    assert (empty.code, "there is nothing yet" in empty.stdout) == (0, True)
    cluster.namespace = False
    missing = await ask(cluster, tmp_path)
    assert (missing.code, "there is no namespace here" in missing.stdout) == (3, True)


@pytest.mark.parametrize("refused", [(500, "InternalError"), (401, "Unauthorized"), (429, "TooManyRequests")])
async def test_an_api_that_cannot_be_asked(tmp_path: Path, refused: tuple[int, str]) -> None:
    cluster = Cluster()
    cluster.refused = refused
    ran = await ask(cluster, tmp_path)
    assert (ran.code, ran.stdout) == (1, ""), ran
    assert ran.stderr.startswith("error: cannot"), ran.stderr


async def test_a_watch_says_that_the_api_is_away_and_that_it_is_back(tmp_path: Path) -> None:
    cluster = Cluster()
    async with serve(cluster.answer) as server:
        where = ("-n", "here", "--kubeconfig", cli.kubeconfig(server.url, tmp_path))
        argv = [*cli.ARGV, "health", *where, "--watch", "--every", "1s", "-o", "json"]
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=asyncio.subprocess.PIPE, env=cli.environment()
        )
        assert process.stdout is not None

        async def next_one() -> dict[str, Any]:
            text = ""
            while True:
                assert process.stdout is not None
                text += (await process.stdout.readline()).decode()
                try:
                    found: dict[str, Any] = json.loads(text)
                except ValueError:
                    continue
                return found

        try:
            assert (await next_one())["state"] == "well"
            cluster.refused = 503, "ServiceUnavailable"
            away = await next_one()
            assert (away["state"], [one["kind"] for one in away["objects"]]) == ("unknown", ["API"])
            assert "looking again" in away["objects"][0]["message"]
            cluster.refused = None
            assert (await next_one())["state"] == "well"
        finally:
            process.terminate()
            await process.wait()


@pytest.mark.parametrize("seed", range(20))
def test_no_line_is_wider_than_the_terminal(seed: int) -> None:
    chance = random.Random(seed)
    now = datetime(2026, 3, 1, tzinfo=UTC)

    def words(most: int) -> str:
        return " ".join("x" * chance.randint(1, 15) for _ in range(chance.randint(1, most)))

    objects = [
        ObjectHealth(kind, "n" * chance.randint(1, 253), chance.choice(health.ORDER),
                     "W" * chance.randint(0, 40), words(60), times.rfc3339(now))
        for kind in (*screen.KINDS, "Operator", "API")
        for _ in range(chance.randint(0, 20))
    ]  # fmt: skip
    part = PartHealth(state="Unhealthy", said=words(20))
    nodes = [EdgeNode(name="edge-a", heartbeat="Stale", message=words(30), agent_version=words(9))]
    looked = EdgeClusterStatus(
        phase="Degraded",
        observed_at=times.rfc3339(now),
        nodes=nodes,
        storage=part,
        network=part,
        source="bridge",
    )
    site = EdgeCluster(metadata=ObjectMeta(name="store-4711"), status=looked)
    for width in (80, 100, 140):
        shown = screen.render(
            health.FleetHealth("unwell", objects), [site], "here", now, output.Style(colour=True), width
        )
        long = [line for line in shown.splitlines() if len(line) > width + len("\x1b[31m\x1b[0m")]
        assert not long, long
