"""`nodemanager health` before both servers: a plain fleet, an edge site, and codes for monitoring."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.edge.edgecluster import EDGE_CLUSTERS
from nodemanager.api.rights import operator_rights
from nodemanager.client.patches import MergePatch
from nodemanager.kube import times
from nodemanager.kube.core import LEASES
from support import accounts, cli, kubeconfigs, operator_process
from support.agent_process import Api
from support.either import Place
from support.scripted_server import until

pytestmark = [pytest.mark.usefixtures("place"), pytest.mark.timeout(120)]


async def health(place: Place, *more: str) -> cli.Ran:
    where = ("--kubeconfig", str(place.kubeconfig), "-n", place.namespace)
    return await asyncio.to_thread(cli.run, "health", *where, *more)


def named(ran: cli.Ran) -> list[list[str]]:
    """Return state, name and word of what is named."""
    rows = [line.split()[:3] for line in ran.stdout.splitlines()]
    return [row for row in rows if len(row) == 3 and "/" in row[1]]


async def report(api: Api, name: str, **conditions: str) -> None:
    """Have a host say how it is."""
    said = [
        {"type": kind, "status": text.split()[0], "reason": text.split()[-1], "message": "",
         "lastTransitionTime": times.rfc3339(datetime.now(UTC))}
        for kind, text in conditions.items()
    ]  # fmt: skip
    body = MergePatch({"status": {"conditions": said}})
    await api.client.patch(MANAGED_NODES, name, api.namespace, body, subresource="status")


async def lead(api: Api) -> None:
    """Have an operator lead at this moment."""
    spec = {"holderIdentity": "x", "renewTime": times.rfc3339_micro(datetime.now(UTC))}
    body = {"metadata": {"name": operator_rights.NAME}, "spec": spec}
    await api.client.create(LEASES, body, api.namespace)


async def test_a_plain_fleet(place: Place, api: Api) -> None:
    empty = await health(place)
    assert (empty.code, empty.stderr) == (0, "")
    assert "there is nothing yet" in empty.stdout
    for name in ("web1", "web2"):
        await api.client.create(MANAGED_NODES, {"metadata": {"name": name}}, place.namespace)
    assert (await health(place)).code == 3
    for name in ("web1", "web2"):
        await report(api, name, Ready="True Applied", Alive="True LeaseRenewed")
    assert (await health(place)).code == 3, "no operator leads, so that they may have gone since"
    await lead(api)
    well = await health(place)
    assert (well.code, well.stdout.splitlines()[0]) == (0, f"{place.namespace}: WELL")
    assert "web1" not in well.stdout
    await report(api, "web2", Ready="True Applied", Alive="False LeaseExpired")
    silent = await health(place)
    assert (silent.code, silent.stdout.splitlines()[0]) == (3, f"{place.namespace}: UNKNOWN")
    assert ["unknown", "managednode/web2", "Silent"] in named(silent)
    await report(api, "web1", Ready="False ApplyFailed", Alive="True LeaseRenewed")
    unwell = await health(place, "-o", "json")
    found = json.loads(unwell.stdout)
    assert (unwell.code, found["state"]) == (2, "unwell")
    assert {one["name"]: one["state"] for one in found["objects"]} == {"web1": "unwell", "web2": "unknown"}


async def test_an_edge_site_and_one_that_nobody_looks_at(place: Place, api: Api) -> None:
    cluster = {"metadata": {"name": "store"}, "spec": {"profile": "pair"}}
    await api.client.create(EDGE_CLUSTERS, cluster, place.namespace)
    unlooked = await health(place)
    assert unlooked.code == 3
    assert "nobody looked yet: does an operator run with --edge?" in " ".join(unlooked.stdout.split())

    async def looked(phase: str, at: str) -> cli.Ran:
        node = {
            "name": "edge-a",
            "heartbeat": "Fresh",
            "source": "bridge",
            "changedAt": at,
            "role": "primary",
        }
        status: dict[str, Any] = {"phase": phase, "reason": "Some", "observedAt": at, "nodes": [node],
                                  "source": "bridge"}  # fmt: skip
        body = MergePatch({"status": status})
        await api.client.patch(EDGE_CLUSTERS, "store", place.namespace, body, subresource="status")
        return await health(place)

    now = times.rfc3339(datetime.now(UTC))
    well = await looked("MultiNode", now)
    assert well.code == 0, well.stdout
    assert [line.split()[:3] for line in well.stdout.splitlines() if line.startswith("edge-a")] == [
        ["edge-a", "primary", "Fresh"]
    ]
    assert (await looked("Degraded", now)).code == 2
    stale = await looked("MultiNode", "2026-01-02T03:04:05Z")
    assert stale.code == 3
    said = " ".join(stale.stdout.split())
    assert "nobody looked since 2026-01-02T03:04:05Z; it was MultiNode then" in said
    assert "Fresh" not in stale.stdout  # what is old is not shown as if it were so


async def test_an_operator_without_election_shows_that_it_is_there(
    place: Place, api: Api, tmp_path: Path
) -> None:
    await api.client.create(MANAGED_NODES, {"metadata": {"name": "web1"}}, place.namespace)
    await report(api, "web1", Ready="True Applied", Alive="True LeaseRenewed")

    async def told() -> list[list[str]]:
        return [row for row in named(await health(place)) if row[1].startswith("operator/")]

    assert await told() == [["unknown", "operator/nodemanager-operator", "Absent"]]
    async with operator_process.operator(place, api, tmp_path):
        await until(lambda: bool(place.shown("leases")["items"]))
        assert await told() == []
    [lease] = place.shown("leases")["items"]
    assert lease["spec"]["holderIdentity"] == "", "it is given back"


async def test_what_may_not_be_read_is_unknown(place: Place, tmp_path: Path) -> None:
    rules = [accounts.rule("common.nodemanager", ["managednodes"], "list")]
    place.kubectl("apply", "-f", "-", stdin=accounts.account("looker", place.namespace, rules))
    token = place.kubectl("create", "token", "looker").strip()
    config = yaml.safe_load(place.kubeconfig.read_text())
    for one in config["users"]:
        one["user"] = {"token": token}
    own = kubeconfigs.write(tmp_path / "looker", config)
    where = ("--kubeconfig", own, "-n", place.namespace)
    ran = await asyncio.to_thread(cli.run, "health", *where)
    assert ran.code == 3, (ran.stdout, ran.stderr)
    assert ["unknown", "edgecluster/*", "Unread"] in named(ran)
    assert not [row for row in named(ran) if "managednode" in row[1]]


async def test_watching_tells_what_changes(place: Place, api: Api) -> None:
    await api.client.create(MANAGED_NODES, {"metadata": {"name": "web1"}}, place.namespace)
    await lead(api)
    argv = [*cli.ARGV, "health", "--kubeconfig", str(place.kubeconfig), "-n", place.namespace, "--watch",
            "--every", "1s", "-o", "yaml"]  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, env=cli.environment()
    )
    assert process.stdout is not None
    try:
        while b"state: unknown" not in await process.stdout.readline():
            pass
        await report(api, "web1", Ready="True Applied", Alive="True LeaseRenewed")
        while b"state: well" not in await process.stdout.readline():
            pass
    finally:
        process.terminate()
        await process.wait()
