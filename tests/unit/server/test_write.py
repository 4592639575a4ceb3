"""Writes that the likeness suite does not reach: races, grace, immutability, a durable store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from nodemanager.client import subresources
from nodemanager.client.calls import DeleteOptions, Selection, WriteOptions
from nodemanager.client.patches import MergePatch, StrategicPatch
from nodemanager.kube import errors
from nodemanager.kube.core import PODS
from nodemanager.kube.objects import Resource, Untyped
from nodemanager.server.hub import AdmissionRequest
from nodemanager.store.sqlite import SqliteStore
from support.embedded import Embedded, serving
from support.scripted_server import until

CONFIG_MAPS: Resource[Untyped] = Resource("", "v1", "ConfigMap", "configmaps", dict)
SECRETS: Resource[Untyped] = Resource("", "v1", "Secret", "secrets", dict)
NODES: Resource[Untyped] = Resource("", "v1", "Node", "nodes", dict, namespaced=False)
NAMESPACES: Resource[Untyped] = Resource("", "v1", "Namespace", "namespaces", dict, namespaced=False)
ROLES: Resource[Untyped] = Resource("rbac.authorization.k8s.io", "v1", "Role", "roles", dict)
POD: Untyped = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}


@pytest.fixture
async def server() -> AsyncIterator[Embedded]:
    async with serving() as running:
        yield running


async def test_patches_of_many_writers_all_arrive(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    try:
        async with serving(store) as server:
            await server.client.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, "default")
            await asyncio.gather(
                *(
                    server.client.patch(CONFIG_MAPS, "c", "default", MergePatch({"data": {f"k{i}": "v"}}))
                    for i in range(4)
                )
            )
            found = await server.client.get(CONFIG_MAPS, "c", "default")
            assert sorted(found["data"]) == ["k0", "k1", "k2", "k3"]
    finally:
        await store.close()


async def test_an_empty_list_in_place_of_none_changes_nothing(server: Embedded) -> None:
    made = await server.client.create(ROLES, {"metadata": {"name": "r"}, "rules": []}, "default")
    tomorrow = server.hub.now() + timedelta(days=1)
    server.hub.now = lambda: tomorrow
    patched = await server.client.patch(ROLES, "r", "default", StrategicPatch({"rules": []}))
    assert patched == made


async def test_only_one_of_many_updates_wins(server: Embedded) -> None:
    made = await server.client.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, "default")
    wanted = [{**made, "data": {"n": str(number)}} for number in range(5)]
    done = await asyncio.gather(
        *(server.client.update(CONFIG_MAPS, one) for one in wanted), return_exceptions=True
    )
    assert sum(isinstance(one, errors.Conflict) for one in done) == 4


async def test_a_dry_patch_changes_nothing(server: Embedded) -> None:
    await server.client.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, "default")
    dry = WriteOptions(dry_run=True)
    patched = await server.client.patch(
        CONFIG_MAPS, "c", "default", MergePatch({"data": {"a": "b"}}), options=dry
    )
    assert patched["data"] == {"a": "b"}
    assert "data" not in await server.client.get(CONFIG_MAPS, "c", "default")


async def test_what_is_immutable_stays(server: Embedded) -> None:
    body = {"metadata": {"name": "c"}, "data": {"a": "b"}, "immutable": True}
    await server.client.create(CONFIG_MAPS, body, "default")
    with pytest.raises(errors.Invalid, match="field is immutable when `immutable` is set"):
        await server.client.patch(CONFIG_MAPS, "c", "default", MergePatch({"data": {"a": "c"}}))
    await server.client.create(SECRETS, {"metadata": {"name": "s"}}, "default")
    with pytest.raises(errors.Invalid, match="type: Invalid value"):
        await server.client.patch(SECRETS, "s", "default", MergePatch({"type": "other"}))
    with pytest.raises(errors.Invalid, match=r"patch: Invalid value: \"\": data\.a"):
        await server.client.patch(SECRETS, "s", "default", MergePatch({"data": {"a": "?"}}))


async def test_a_running_pod_is_given_time_and_others_are_not(server: Embedded) -> None:
    client = server.client
    await client.create(PODS, POD, "default")
    await client.delete(PODS, "p", "default")
    with pytest.raises(errors.NotFound):
        await client.get(PODS, "p", "default")
    await client.create(PODS, {**POD, "spec": {**POD["spec"], "nodeName": "h"}}, "default")
    await client.delete(PODS, "p", "default")
    marked = await client.get(PODS, "p", "default")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    await client.delete(PODS, "p", "default", options=DeleteOptions(grace_period=0))
    with pytest.raises(errors.NotFound):
        await client.get(PODS, "p", "default")


async def test_strategic_patches_merge_lists_by_key(server: Embedded) -> None:
    condition = {"type": "Ready", "status": "True"}
    await server.client.create(NODES, {"metadata": {"name": "n"}})
    for one in (condition, {"type": "Disk", "status": "False"}, {**condition, "status": "Unknown"}):
        patch = StrategicPatch({"status": {"conditions": [one]}})
        await server.client.patch(NODES, "n", "", patch, subresource="status")
    found = await server.client.get(NODES, "n")
    states = {one["type"]: one["status"] for one in found["status"]["conditions"]}
    assert states == {"Ready": "Unknown", "Disk": "False"}


async def test_admission_has_a_word(server: Embedded) -> None:
    seen: list[tuple[str, str, bool]] = []

    class Reviewer:
        async def review(self, change: AdmissionRequest) -> None:
            seen.append((change.verb, change.name, change.dry_run))
            if change.new is not None and "bad" in (change.new.get("data") or {}):
                raise errors.Forbidden("that is bad")

    server.hub.admission = (Reviewer(),)
    await server.client.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, "default")
    with pytest.raises(errors.Forbidden, match="that is bad"):
        await server.client.patch(CONFIG_MAPS, "c", "default", MergePatch({"data": {"bad": "x"}}))
    await server.client.delete_collection(CONFIG_MAPS, Selection("default"))
    assert seen == [("create", "c", False), ("update", "c", False), ("delete", "c", False)]
    assert (await server.client.list(CONFIG_MAPS, Selection("default"))).items == []


async def test_a_namespace_ends_although_a_pod_in_it_was_given_time(server: Embedded) -> None:
    client = server.client
    await client.create(NAMESPACES, {"metadata": {"name": "ending"}})
    await client.create(PODS, {**POD, "spec": {**POD["spec"], "nodeName": "n"}}, "ending")
    await subresources.evict(client, "p", "ending", grace_period=30)
    assert "deletionTimestamp" in (await client.get(PODS, "p", "ending"))["metadata"]
    await client.delete(NAMESPACES, "ending", "")
    await until(lambda: server.store.get("/core/namespaces/ending") is None)
    assert server.store.get("/core/pods/ending/p") is None
