"""The garbage collector over HTTP: who goes, who stays, and in which order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from nodemanager.client.calls import DeleteOptions, Selection
from nodemanager.client.patches import JsonPatch, MergePatch
from nodemanager.kube import errors
from nodemanager.kube.core import CRDS
from nodemanager.kube.objects import Resource, Untyped
from nodemanager.server.hub import AdmissionRequest
from support.embedded import Embedded, serving
from support.memory_store import MemoryStore
from support.owned import CONFIG_MAPS, HOLD, NAMESPACES, blocking, collected, config_map, reference

EVENTS: Resource[Untyped] = Resource("", "v1", "Event", "events", dict)
NODES: Resource[Untyped] = Resource("", "v1", "Node", "nodes", dict, namespaced=False)
THINGS: Resource[Untyped] = Resource("owned.test", "v1", "Thing", "things", dict)
VERSION = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
THING_CRD: Untyped = {
    "metadata": {"name": "things.owned.test"},
    "spec": {
        "group": "owned.test",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [VERSION],
    },
}


class World:
    """A server, and short words for what tests do with it."""

    def __init__(self, server: Embedded) -> None:
        self.server = server
        self.client = server.client

    async def make(self, name: str, *owners: Untyped, namespace: str = "default", **meta: Any) -> Untyped:
        return await self.client.create(CONFIG_MAPS, config_map(name, *owners, **meta), namespace)

    async def delete(self, name: str, policy: str = "", resource: Resource[Untyped] = CONFIG_MAPS) -> None:
        where = "default" if resource.namespaced else ""
        await self.client.delete(resource, name, where, options=DeleteOptions(propagation=policy))

    async def release(self, name: str) -> None:
        patch = MergePatch({"metadata": {"finalizers": None}})
        await self.client.patch(CONFIG_MAPS, name, "default", patch)

    async def left(
        self, namespace: str = "default", resource: Resource[Untyped] = CONFIG_MAPS
    ) -> dict[str, list[str]]:
        """Return what is left when nothing is left to do: names, each with the names of its owners."""
        await collected(self.server.hub)
        found = await self.client.list(resource, Selection(namespace))
        metas = [item["metadata"] for item in found.items]
        return {meta["name"]: [one["name"] for one in meta.get("ownerReferences", [])] for meta in metas}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with serving() as server:
        yield World(server)


@pytest.mark.parametrize("policy", ["", "Background", "Foreground"])
async def test_what_has_no_owner_left_goes(world: World, policy: str) -> None:
    a, other = await world.make("a"), await world.make("other")
    b = await world.make("b", blocking(a))
    await world.make("c", blocking(b))
    await world.make("shared", reference(a), reference(other))
    await world.delete("a", policy)
    assert await world.left() == {"other": [], "shared": ["other"]}
    await world.delete("other", policy)
    assert await world.left() == {}


async def test_orphans_stay_and_keep_what_they_own(world: World) -> None:
    a, other = await world.make("a"), await world.make("other")
    b = await world.make("b", reference(a), reference(other))
    await world.make("c", reference(b))
    await world.make("d", reference(a))
    await world.delete("a", "Orphan")
    assert await world.left() == {"other": [], "b": ["other"], "c": ["b"], "d": []}


async def test_a_foreground_owner_stays_until_the_last_that_blocks_it(world: World) -> None:
    a = await world.make("a")
    await world.make("held", blocking(a), finalizers=[HOLD])
    await world.make("loose", reference(a), finalizers=[HOLD])
    await world.delete("a", "Foreground")
    assert await world.left() == {"a": [], "held": ["a"], "loose": ["a"]}
    meta = (await world.client.get(CONFIG_MAPS, "held", "default"))["metadata"]
    assert meta["deletionTimestamp"]
    await world.release("held")
    assert await world.left() == {"loose": ["a"]}


async def test_dependents_of_dependents_go_first_in_the_foreground(world: World) -> None:
    a = await world.make("a")
    b = await world.make("b", blocking(a))
    await world.make("c", blocking(b), finalizers=[HOLD])
    await world.delete("a", "Foreground")
    assert await world.left() == {"a": [], "b": ["a"], "c": ["b"]}
    await world.release("c")
    assert await world.left() == {}


async def test_an_owner_that_stops_waiting_for_a_dependent_goes(world: World) -> None:
    a = await world.make("a")
    await world.make("held", blocking(a), finalizers=[HOLD])
    await world.delete("a", "Foreground")
    await collected(world.server.hub)
    patch = MergePatch({"metadata": {"ownerReferences": [reference(a, blockOwnerDeletion=False)]}})
    await world.client.patch(CONFIG_MAPS, "held", "default", patch)
    assert await world.left() == {"held": ["a"]}


@pytest.mark.parametrize("finalizer", ["orphan", "foregroundDeletion"])
async def test_a_collected_object_keeps_the_policy_written_on_it(world: World, finalizer: str) -> None:
    a = await world.make("a")
    b = await world.make("b", reference(a), finalizers=[finalizer])
    await world.make("c", blocking(b))
    await world.delete("a")
    assert await world.left() == ({"c": []} if finalizer == "orphan" else {})


async def test_the_uid_counts_and_not_the_name(world: World) -> None:
    a = await world.make("a")
    await world.make("b", {**reference(a), "uid": "another"})
    await world.make("c", {**reference(a), "name": "wrong"})
    await world.make("d", {**reference(a), "uid": "another"}, reference(a))
    assert await world.left() == {"a": [], "d": ["a"]}
    await world.make("e", reference(a), finalizers=[HOLD])
    await world.delete("a")
    await collected(world.server.hub)
    await world.make("a")
    await world.release("e")
    assert await world.left() == {"a": []}


async def test_an_owner_in_another_namespace_is_absent_and_said_so(world: World) -> None:
    await world.client.create(NAMESPACES, {"metadata": {"name": "far"}})
    far = await world.make("a", namespace="far")
    b = await world.make("b", reference(far))
    assert await world.left() == {}
    assert await world.left("far") == {"a": []}
    events = (await world.client.list(EVENTS, Selection("default"))).items
    uid = far["metadata"]["uid"]
    assert [(one["reason"], one["type"]) for one in events] == [("OwnerRefInvalidNamespace", "Warning")]
    named = f"[v1/ConfigMap, namespace: default, name: a, uid: {uid}]"
    assert events[0]["message"] == f'ownerRef {named} does not exist in namespace "default"'
    about = {"kind": "ConfigMap", "apiVersion": "v1", "namespace": "default", "name": "b"}
    assert events[0]["involvedObject"] == {**about, "uid": b["metadata"]["uid"]}


async def test_owners_outside_of_namespaces_own_what_is_inside(world: World) -> None:
    node = await world.client.create(NODES, {"metadata": {"name": "n"}})
    await world.make("a", blocking(node))
    await world.make("b", {**blocking(node), "uid": "another"})
    assert await world.left() == {"a": ["n"]}
    await world.delete("n", "Foreground", NODES)
    assert await world.left() == {}
    assert await world.left("", NODES) == {}


async def test_an_owner_inside_of_a_namespace_owns_nothing_outside(world: World) -> None:
    a, node = await world.make("a"), await world.client.create(NODES, {"metadata": {"name": "gone"}})
    await world.client.create(NODES, {"metadata": {"name": "n", "ownerReferences": [reference(a)]}})
    both = [reference(node), reference(a)]
    await world.client.create(NODES, {"metadata": {"name": "m", "ownerReferences": both}})
    await world.delete("a")
    await world.delete("gone", resource=NODES)
    assert await world.left("", NODES) == {"n": ["a"], "m": ["gone", "a"]}


async def test_an_owner_of_an_unknown_kind_never_leads_to_a_deletion(world: World) -> None:
    a = await world.make("a")
    thing = {"apiVersion": "owned.test/v1", "kind": "Thing", "name": "t", "uid": "x"}
    await world.make("b", thing)
    await world.make("c", reference(a), thing)
    await world.make("d", {**reference(a), "apiVersion": "v9"})
    await world.make("e", {**reference(a), "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1"})
    await world.delete("a")
    assert await world.left() == {"b": ["t"], "c": ["a", "t"], "d": ["a"], "e": ["a"]}
    await world.client.create(CRDS, THING_CRD)  # now it can be told that there is no such thing
    assert await world.left() == {"d": ["a"], "e": ["a"]}


async def test_custom_kinds_own_and_are_owned(world: World) -> None:
    await world.client.create(CRDS, THING_CRD)
    thing = await world.client.create(THINGS, {"metadata": {"name": "t"}}, "default")
    a = await world.make("a", blocking(thing))
    meta = {"name": "u", "ownerReferences": [blocking(a)], "finalizers": [HOLD]}
    await world.client.create(THINGS, {"metadata": meta}, "default")
    await world.delete("t", "Foreground", THINGS)
    assert await world.left() == {"a": ["t"]}
    assert await world.left(resource=THINGS) == {"t": [], "u": ["a"]}
    patch = MergePatch({"metadata": {"finalizers": None}})
    await world.client.patch(THINGS, "u", "default", patch)
    assert await world.left() == {}
    assert await world.left(resource=THINGS) == {}


async def test_what_custom_objects_owned_goes_with_their_definition(world: World) -> None:
    await world.client.create(CRDS, THING_CRD)
    for number in range(20):
        thing = await world.client.create(THINGS, {"metadata": {"name": f"t{number}"}}, "default")
        await world.make(f"a{number}", reference(thing))
    await world.client.delete(CRDS, "things.owned.test")
    await collected(world.server.hub)
    assert await world.left() == {}


async def test_a_collection_is_deleted_with_its_policy(world: World) -> None:
    for name in ("a", "b"):
        owner = await world.make(name, labels={"delete": "me"})
        await world.make(f"of-{name}", reference(owner))
    options = DeleteOptions(propagation="Orphan")
    await world.client.delete_collection(
        CONFIG_MAPS, Selection("default", labels="delete=me"), options=options
    )
    assert await world.left() == {"of-a": [], "of-b": []}


@pytest.mark.parametrize("length", [1, 2, 5])
async def test_a_circle_in_the_foreground_ends(world: World, length: int) -> None:
    made = [await world.make(f"o{number}") for number in range(length)]
    for number, owner in enumerate(made):
        patch = MergePatch({"metadata": {"ownerReferences": [blocking(owner)]}})
        await world.client.patch(CONFIG_MAPS, f"o{(number + 1) % length}", "default", patch)
    for number in range(length):
        try:
            await world.delete(f"o{number}", "Foreground")
        except errors.NotFound:
            continue
    assert await world.left() == {}


async def test_namespaces_that_may_not_go_stay(world: World) -> None:
    a = await world.client.create(NODES, {"metadata": {"name": "a"}})
    patch = MergePatch({"metadata": {"ownerReferences": [reference(a)]}})
    for name in ("default", "kube-node-lease"):
        await world.client.patch(NAMESPACES, name, "", patch)
    await world.delete("a", resource=NODES)
    await world.server.hub.collected(world.server.hub.store.revision)
    left = await world.left("", NAMESPACES)
    assert "default" in left
    assert "kube-node-lease" not in left


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
async def test_a_namespace_ends_whatever_the_policy(world: World, policy: str) -> None:
    made = await world.client.create(NAMESPACES, {"metadata": {"name": "far"}})
    await world.make("a", blocking(made), namespace="far")
    await world.delete("far", policy, NAMESPACES)
    assert "far" not in await world.left("", NAMESPACES)


async def test_what_cannot_be_deleted_now_is_deleted_later(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    refusals = [errors.Forbidden("not yet"), errors.Conflict("somebody was faster")]

    class Reviewer:
        async def review(self, change: AdmissionRequest) -> None:
            if change.name == "b" and change.verb == "delete" and refusals:
                raise refusals.pop()

    a = await world.make("a")
    await world.make("b", reference(a))
    await world.make("c", reference(a))
    world.server.hub.admission = (Reviewer(),)
    await world.delete("a")
    assert await world.left() == {}
    warnings = [record.getMessage() for record in caplog.records if "cannot collect" in record.getMessage()]
    assert warnings == ["cannot collect /core/configmaps/default/b: Forbidden: not yet"]


async def test_a_dependent_that_vanishes_while_it_is_let_go_holds_nobody(world: World) -> None:
    class Thief:
        async def review(self, change: AdmissionRequest) -> None:
            if change.name == "b" and change.verb == "update":
                record = world.server.store.get("/core/configmaps/default/b")
                assert record is not None
                await world.server.store.delete(record.key, record.revision)

    a = await world.make("a")
    await world.make("b", reference(a))
    await world.make("c", reference(a))
    world.server.hub.admission = (Thief(),)
    await world.delete("a", "Orphan")
    assert await world.left() == {"c": []}


async def test_an_owner_named_rightly_and_wrongly_is_kept(world: World) -> None:
    a = await world.make("a")
    await world.make("b", {**reference(a), "name": "wrong"}, reference(a))
    assert await world.left() == {"a": [], "b": ["wrong", "a"]}
    await world.delete("a")
    assert await world.left() == {}


async def test_an_owner_that_cannot_be_read_is_not_taken_for_absent(world: World) -> None:
    a = await world.make("a")
    key = "/core/configmaps/default/a"
    record = world.server.store.get(key)
    assert record is not None
    damaged = record.value.replace(b'"creationTimestamp"', b'"finalizers":7,"creationTimestamp"')
    await world.server.store.update(key, damaged, record.revision)
    await world.make("b", reference(a))
    await collected(world.server.hub)
    assert world.server.store.get("/core/configmaps/default/b") is not None


async def test_orphans_of_a_kind_that_is_not_served_now_are_waited_for(world: World) -> None:
    made = await world.client.create(CRDS, THING_CRD)
    a = await world.make("a")
    meta = {"name": "t", "ownerReferences": [reference(a)]}
    await world.client.create(THINGS, {"metadata": meta}, "default")

    async def serve(*, served: bool) -> None:
        patch = JsonPatch([{"op": "replace", "path": "/spec/versions/0/served", "value": served}])
        await world.client.patch(CRDS, made["metadata"]["name"], "", patch)

    await serve(served=False)
    await world.delete("a", "Orphan")
    assert await world.left() == {"a": []}
    await serve(served=True)
    assert await world.left() == {}
    assert await world.left(resource=THINGS) == {"t": []}


async def test_the_old_spelling_of_a_cascade_is_accepted(world: World) -> None:
    await world.make("a", finalizers=[HOLD])
    path = f"{world.server.server}{CONFIG_MAPS.path('default', 'a')}"
    async with aiohttp.ClientSession() as session:
        for query, code in (("orphanDependents=false", 202), ("", 200)):
            async with session.delete(f"{path}?{query}") as answer:
                assert answer.status == code


async def test_a_reference_given_twice_is_warned_about(world: World) -> None:
    owner = {"apiVersion": "nobody.test/v1", "kind": "K", "name": "n", "uid": "u1"}
    path = f"{world.server.server}{CONFIG_MAPS.path('default')}"
    async with aiohttp.ClientSession() as session:
        async with session.post(path, json=config_map("a", owner, owner)) as answer:
            assert answer.headers["Warning"] == (
                '299 - ".metadata.ownerReferences contains duplicate entries; API server dedups owner '
                "references in 1.20+, and may reject such requests as early as 1.24; please fix your "
                'requests; duplicate UID(s) observed: u1"'
            )
        more = {"metadata": {"ownerReferences": [owner, owner, {**owner, "name": "m"}, owner]}}
        headers = {"Content-Type": "application/merge-patch+json"}
        async with session.patch(f"{path}/a", json=more, headers=headers) as answer:
            assert "entries after mutating admission happens; API" in answer.headers["Warning"]
            assert answer.headers["Warning"].endswith('observed: u1, u1"')
    assert await world.left() == {"a": ["n", "m"]}


async def test_an_owner_that_was_gone_before_the_start_is_noticed() -> None:
    store = MemoryStore()
    async with serving(store) as server:
        world = World(server)
        a = await world.make("a")
        await world.make("b", reference(a))
        await collected(server.hub)
    await store.delete(
        "/core/configmaps/default/a", (store.get("/core/configmaps/default/a") or _none()).revision
    )
    async with serving(store) as server:
        assert await World(server).left() == {}


def _none() -> Any:
    raise AssertionError("it is not there")


async def test_a_collector_that_fell_behind_begins_anew() -> None:
    async with serving(MemoryStore(buffer=4)) as server:
        world = World(server)
        a = await world.make("a")
        for number in range(40):
            await world.make(f"b{number}", reference(a))
        keep = await world.make("keep")
        await world.make("c", reference(keep))
        for _ in range(50):  # all of it before anybody else has a turn
            record = server.store.get("/core/configmaps/default/keep")
            assert record is not None
            await server.store.update(record.key, record.value, record.revision)
        await world.delete("a")
        assert await world.left() == {"keep": [], "c": ["keep"]}
