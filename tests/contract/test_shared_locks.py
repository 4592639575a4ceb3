"""Locks of hosts as Leases that the servers really take."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodemanager.agent.upgrades.locks import LockTimings, SharedLocks
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.host.base import Busy
from nodemanager.kube import core
from support import whole_server
from support.clients import connected

QUICK = LockTimings(wait=0.5)


@pytest.fixture(
    params=["embedded", pytest.param("kube-apiserver", marks=pytest.mark.xdist_group("apiserver"))]
)
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Client]:
    if request.param == "embedded":
        async with whole_server.serving(tmp_path) as (config, _), connected(config) as found:
            yield found
    else:
        kube = request.getfixturevalue("kube")
        async with connected(whole_server.load(kube.kubeconfig)) as found:
            yield found


async def test_turns(client: Client) -> None:
    group = f"web-{uuid.uuid4().hex[:8]}"
    one, two = (SharedLocks(client, "default", name, timings=QUICK) for name in ("one", "two"))
    for locks, name, other in ((one, "one", two), (two, "two", one), (one, "one", two)):
        async with locks.hold(group):
            assert (await client.get(core.LEASES, group, "default")).spec.holder_identity == name
            with pytest.raises(Busy, match=f"{name} holds it"):
                await other.hold(group).__aenter__()
        lease = await client.get(core.LEASES, group, "default")
        assert not lease.spec.holder_identity
    assert lease.spec.lease_transitions == 3


async def test_a_lease_as_the_go_project_leaves_it(client: Client) -> None:
    group = f"web-{uuid.uuid4().hex[:8]}"
    stamp = "2026-01-01T00:00:00.000000Z"
    spec = {"leaseDurationSeconds": 420, "acquireTime": stamp, "renewTime": stamp}
    await client.create(core.LEASES, {"metadata": {"name": group}, "spec": spec}, "default")
    one = SharedLocks(client, "default", "one", timings=QUICK)
    assert await one.claim(group, 1800)
    patch = MergePatch({"metadata": {"annotations": {"looked-at": "by hand"}}})
    await client.patch(core.LEASES, group, "default", patch)
    await one.prolong(group)
    await one.close()
    assert (await client.get(core.LEASES, group, "default")).spec.lease_duration_seconds == 1800
    await SharedLocks(client, "default", "one").release(group)
    assert not (await client.get(core.LEASES, group, "default")).spec.holder_identity
