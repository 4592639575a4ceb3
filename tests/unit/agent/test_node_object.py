"""Our own ManagedNode: what we wrote is known before the watch tells us; old backups go within a pass."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.agent.passes.housekeeping import INTERVAL, Housekeeper
from nodemanager.agent.report.node_object import NodeObject
from nodemanager.api.common.managednode import MANAGED_NODES, Interface, ManagedNode, ManagedNodeStatus
from nodemanager.client.auth.config import ClientConfig
from nodemanager.host.files.bucket import Bucket, BucketLimits
from nodemanager.host.files.durable import Unsynced
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory.identity import Identity
from nodemanager.kube import errors
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime.cache import Cache
from support.clients import connected
from support.scripted_server import Exchange, serve

WHO = Identity("web1", "debian", (), "linux", "x86_64", "6.1")


class Api:
    """One ManagedNode, and a cache that learns of changes only when told to."""

    def __init__(self) -> None:
        self.version = 1
        self.status: dict[str, Any] = {}
        self.foreign = False
        self.writes = 0

    def body(self) -> dict[str, Any]:
        meta = {"name": "web1", "namespace": "n", "uid": "u", "labels": WHO.labels()}
        return {"metadata": {**meta, "resourceVersion": str(self.version)}, "status": self.status}

    async def answer(self, exchange: Exchange) -> None:
        if exchange.method == "PATCH":
            patch = json.loads(exchange.body)
            if patch["metadata"]["resourceVersion"] != str(self.version):
                await exchange.refuse(409, "Conflict")
                return
            self.version += 1
            self.writes += 1
            merged = {**self.status, **patch["status"]}
            self.status = {key: value for key, value in merged.items() if value is not None}
        await exchange.json(self.body())


@pytest.fixture(name="pair")
async def _pair() -> AsyncIterator[tuple[Api, NodeObject, Cache[ManagedNode]]]:
    api = Api()
    async with serve(api.answer) as server, connected(ClientConfig(server.url)) as client:
        cache = Cache(client, MANAGED_NODES)
        yield api, NodeObject(client, cache, "n", WHO), cache


def tell(cache: Cache[ManagedNode], api: Api) -> None:
    """Let the watch catch up."""
    cache._put(ObjectKey("n", "web1"), msgspec.convert(api.body(), ManagedNode))


async def test_a_status_is_not_compared_with_what_the_watch_has_not_heard_of(
    pair: tuple[Api, NodeObject, Cache[ManagedNode]],
) -> None:
    """Good, bad, good within the delay of the watch: the last one must be written, too."""
    api, node, cache = pair
    tell(cache, api)
    for release in ("bad", ""):
        await node.write_status(await node.ensure(), ManagedNodeStatus(release=release))
    assert (api.status.get("release"), api.writes) == (None, 2)
    await node.write_status(await node.ensure(), ManagedNodeStatus())
    assert api.writes == 2
    tell(cache, api)
    assert (await node.ensure()).metadata.resource_version == "3"


async def test_what_others_wrote_meanwhile_is_found_out(
    pair: tuple[Api, NodeObject, Cache[ManagedNode]],
) -> None:
    api, node, cache = pair
    tell(cache, api)
    await node.write_status(await node.ensure(), ManagedNodeStatus(release="1"))
    api.version += 1  # somebody else
    with pytest.raises(errors.Conflict):
        await node.write_status(await node.ensure(), ManagedNodeStatus(release="2"))
    tell(cache, api)
    await node.write_status(await node.ensure(), ManagedNodeStatus(release="2"))
    assert api.status["release"] == "2"


async def test_a_conflict_is_over_although_the_watch_is_not_back_yet(
    pair: tuple[Api, NodeObject, Cache[ManagedNode]],
) -> None:
    """A server that was restored is read at once; trying again against an old snapshot would go on and on."""
    api, node, cache = pair
    api.version = 7
    tell(cache, api)
    api.version = 3  # an older state was put back, and the watch is still waiting to connect
    with pytest.raises(errors.Conflict):
        await node.write_status(await node.ensure(), ManagedNodeStatus(release="2"))
    await node.write_status(await node.ensure(), ManagedNodeStatus(release="2"))
    await node.write_status(await node.ensure(), ManagedNodeStatus(release="3"))
    assert (api.status["release"], api.writes) == ("3", 2)
    tell(cache, api)
    assert (await node.ensure()).metadata.resource_version == "5"


async def test_old_backups_go_at_the_start_and_every_hour(tmp_path: Path) -> None:
    wall, ticks = [1_000_000.0], [0.0]
    tree = Tree(str(tmp_path))
    bucket = Bucket(tree, limits=BucketLimits(age=100.0), clock=lambda: wall[0])
    keeper = Housekeeper(bucket, lambda: ticks[0])

    def keep(name: str) -> str:
        (tmp_path / name).write_text(name)
        unsynced = Unsynced()
        kept = bucket.keep(tree.place(f"/{name}"), unsynced)
        unsynced.close()
        assert kept is not None
        return kept.digest

    first = keep("old")
    assert keeper.due_in() == 0.0
    started = await keeper.collect_if_due()
    assert started is not None
    assert (started.removed, started.kept) == (0, {first})
    assert await keeper.collect_if_due() is None
    wall[0] += 200.0
    second = keep("new")
    ticks[0] += INTERVAL
    later = await keeper.collect_if_due()
    assert later is not None
    assert (later.removed, later.kept) == (1, {second})
    assert keeper.due_in() == INTERVAL
    tree.close()


async def test_a_damaged_bucket_costs_nothing_but_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tree = Tree(str(tmp_path))
    bucket = Bucket(tree)
    (tmp_path / "x").write_text("x")
    unsynced = Unsynced()
    bucket.keep(tree.place("/x"), unsynced)
    unsynced.close()
    for path in (tmp_path / "var/lib/nodemanager/filebucket").rglob("*.meta"):
        path.write_text("{damaged")
    found = await Housekeeper(bucket, lambda: 0.0).collect_if_due()
    assert found is not None
    assert found.kept == set()
    assert "which is damaged" in caplog.text
    tree.close()


def test_backups_that_are_kept_for_ever_need_no_housekeeping(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path))
    assert Housekeeper(Bucket(tree, limits=BucketLimits(age=0.0)), lambda: 0.0).due_in() is None
    tree.close()


async def test_what_is_sent_steers_nothing(pair: tuple[Api, NodeObject, Cache[ManagedNode]]) -> None:
    """File names and kernels may be called anything; and bytes that are no Unicode must not end us."""
    api, node, _ = pair
    bad = "a\x1b[2J\x85PostUp = x\u2028\u202e\udc80"
    said = Condition(type="Ready", message=f"cannot read {bad}\nas said")
    addresses = {bad: Interface(ipv4=["10.0.0.1"])}
    wanted = ManagedNodeStatus(release=bad, interfaces=addresses, conditions=[said])
    await node.write_status(ManagedNode(metadata=ObjectMeta(resource_version="1")), wanted)
    assert api.status["release"] == "a?[2J?PostUp = x???"
    assert list(api.status["interfaces"]) == ["a?[2J?PostUp?=?x???"]
    assert api.status["conditions"][0]["message"] == "cannot read a?[2J?PostUp = x???\nas said"
