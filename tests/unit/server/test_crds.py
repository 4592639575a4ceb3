"""Definitions and namespaces from their beginning to their end."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.crds import all_crds
from nodemanager.cli.embedded import embedded_api
from nodemanager.client.patches import MergePatch
from nodemanager.kube import errors
from nodemanager.kube.core import CRDS
from nodemanager.kube.objects import Resource, Untyped
from nodemanager.kube.rbac import default_roles
from support.embedded import Embedded, serving
from support.memory_store import MemoryStore
from support.scripted_server import until

THINGS: Resource[Untyped] = Resource("ex.io", "v1", "Thing", "things", dict)
THINGS_V2: Resource[Untyped] = Resource("ex.io", "v2", "Thing", "things", dict)
CONFIG_MAPS: Resource[Untyped] = Resource("", "v1", "ConfigMap", "configmaps", dict)
NAMESPACES: Resource[Untyped] = Resource("", "v1", "Namespace", "namespaces", dict, namespaced=False)


def version(name: str, *, storage: bool = False, **more: Any) -> Untyped:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def definition(*versions: Untyped, plural: str = "things", kind: str = "Thing") -> Untyped:
    return {
        "metadata": {"name": f"{plural}.ex.io"},
        "spec": {
            "group": "ex.io",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": list(versions),
        },
    }


@pytest.fixture
async def server() -> AsyncIterator[Embedded]:
    async with serving() as running:
        yield running


async def test_our_own_definitions_are_served(server: Embedded) -> None:
    for crd in all_crds():
        made = await server.client.create(CRDS, crd)
        assert [one["status"] for one in made["status"]["conditions"]] == ["True", "True"]
    node = await server.client.create(MANAGED_NODES, {"metadata": {"name": "h"}, "spec": {}}, "default")
    assert node.metadata.generation == 1


async def test_what_is_there_without_a_check_passes_it(server: Embedded) -> None:
    roles = (*default_roles.cluster_roles(), *default_roles.cluster_role_bindings())
    for obj in (*roles, *(preset.obj for preset in embedded_api.presets("default"))):
        kind = server.hub.catalogue.named(obj["apiVersion"], obj["kind"])
        assert kind is not None
        resource: Resource[Untyped] = Resource(
            kind.group, kind.version, kind.kind, kind.plural, dict, namespaced=kind.namespaced
        )
        given = {name: value for name, value in obj.items() if value is not None}
        await server.client.create(resource, given, obj["metadata"].get("namespace", ""))


async def test_versions_show_the_same_object(server: Embedded) -> None:
    await server.client.create(CRDS, definition(version("v1", storage=True), version("v2")))
    await server.client.create(THINGS, {"metadata": {"name": "a"}, "spec": {"x": 1}}, "default")
    seen = await server.client.get(THINGS_V2, "a", "default")
    assert (seen["apiVersion"], seen["spec"]) == ("ex.io/v2", {"x": 1})


async def test_a_version_can_be_taken_back(server: Embedded) -> None:
    await server.client.create(CRDS, definition(version("v1", storage=True), version("v2")))
    fewer = {"spec": {"versions": [version("v1", storage=True)]}}
    await server.client.patch(CRDS, "things.ex.io", "", MergePatch(fewer))
    with pytest.raises(errors.NotFound, match="404 page not found"):
        await server.client.list(THINGS_V2)
    assert (await server.client.list(THINGS)).items == []


async def test_names_that_are_taken_are_not_served(server: Embedded) -> None:
    await server.client.create(CRDS, definition(version("v1", storage=True)))
    second = await server.client.create(
        CRDS, definition(version("v1", storage=True), plural="others", kind="Thing")
    )
    states = {one["type"]: (one["status"], one["reason"]) for one in second["status"]["conditions"]}
    assert states == {"NamesAccepted": ("False", "ListKindConflict"), "Established": ("False", "NotAccepted")}
    others: Resource[Untyped] = Resource("ex.io", "v1", "Thing", "others", dict)
    with pytest.raises(errors.NotFound):
        await server.client.list(others)


async def test_deleting_a_definition_takes_its_objects_along(server: Embedded) -> None:
    await server.client.create(CRDS, definition(version("v1", storage=True)))
    held = {"metadata": {"name": "a", "finalizers": ["ex.io/hold"]}}
    await server.client.create(THINGS, held, "default")
    await server.client.create(THINGS, {"metadata": {"name": "b"}}, "default")
    await server.client.delete(CRDS, "things.ex.io")
    await until(lambda: len(server.store.list("/ex.io/things/").records) == 1)
    assert (await server.client.get(CRDS, "things.ex.io"))["metadata"]["finalizers"]
    await server.client.patch(THINGS, "a", "default", MergePatch({"metadata": {"finalizers": None}}))
    await until(lambda: not server.store.list("/apiextensions.k8s.io/").records)
    with pytest.raises(errors.NotFound):
        await server.client.list(THINGS)


async def test_deleting_a_namespace_empties_it(server: Embedded) -> None:
    await server.client.create(CRDS, definition(version("v1", storage=True)))
    await server.client.create(NAMESPACES, {"metadata": {"name": "ns"}})
    await server.client.create(THINGS, {"metadata": {"name": "a"}}, "ns")
    await server.client.create(THINGS, {"metadata": {"name": "a"}}, "default")
    await server.client.delete(NAMESPACES, "ns")
    await until(lambda: server.store.get("/core/namespaces/ns") is None)
    assert [record.key for record in server.store.list("/ex.io/").records] == ["/ex.io/things/default/a"]


async def test_a_restart_goes_on_with_what_was_ending() -> None:
    store = MemoryStore()
    held = {"metadata": {"name": "a", "finalizers": ["ex.io/hold"]}}
    async with serving(store) as server:
        await server.client.create(NAMESPACES, {"metadata": {"name": "ns"}})
        await server.client.create(CONFIG_MAPS, held, "ns")
        await server.client.delete(NAMESPACES, "ns")
    async with serving(store) as server:
        await server.client.patch(CONFIG_MAPS, "a", "ns", MergePatch({"metadata": {"finalizers": None}}))
        with pytest.raises(errors.NotFound):
            await server.client.get(CONFIG_MAPS, "a", "ns")
        await until(lambda: store.get("/core/namespaces/ns") is None)


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("group",), "v1", "spec.group"),
        (("group",), "policy", "spec.group"),
        (("scope",), "Galaxy", "spec.scope"),
        (("names", "plural"), "Things", "spec.names.plural"),
        (("names", "kind"), "1x", "spec.names.kind"),
        (("names", "listKind"), "Thing", "spec.names.listKind"),
        (("conversion",), {"strategy": "Webhook"}, "spec.conversion.strategy"),
        (("versions", 0, "name"), "V1", "spec.versions[0].name"),
        (("versions", 0, "storage"), False, "spec.versions"),
        (
            ("versions", 0, "additionalPrinterColumns"),
            [{"name": "X", "type": "string", "jsonPath": "x"}],
            "spec.versions[0].additionalPrinterColumns[0].jsonPath",
        ),
    ],
)
async def test_definitions_that_are_refused(
    server: Embedded, path: tuple[Any, ...], value: Any, field: str
) -> None:
    crd = copy.deepcopy(definition(version("v1", storage=True)))
    target = crd["spec"]
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    with pytest.raises(errors.Invalid) as caught:
        await server.client.create(CRDS, crd)
    assert field in [cause.field for cause in caught.value.causes]
