"""lightkube, in both its forms: the same on the embedded server and kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from lightkube import ApiError, AsyncClient, Client, KubeConfig, codecs
from lightkube import operators as op
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.coordination_v1 import LeaseSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.coordination_v1 import Lease
from lightkube.resources.core_v1 import ConfigMap, Secret, ServiceAccount
from lightkube.types import PatchType

from support.either import Place

Gadget: Any = create_namespaced_resource("clients.test", "v1", "Gadget", "gadgets")
ConfigSet: Any = create_namespaced_resource("common.nodemanager", "v1", "ConfigSet", "configsets")
MANIFESTS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {a: b}
---
apiVersion: common.nodemanager/v1
kind: ConfigSet
metadata: {name: s, labels: {role: web}}
spec: {packages: [{name: chrony}]}
"""


def settings(place: Place) -> Any:
    return KubeConfig.from_file(place.kubeconfig)


@pytest.fixture
def client(place: Place) -> Iterator[Any]:
    with Client(settings(place), field_manager="lightkube", trust_env=False) as connected:
        yield connected


def status_of(refusal: ApiError) -> Any:
    return refusal.status


def gadget(name: str, size: int) -> Any:
    return Gadget(metadata=ObjectMeta(name=name), spec={"size": size})


def test_typed_objects_go_round(client: Any) -> None:
    made = client.create(ConfigMap(metadata=ObjectMeta(name="c", labels={"a": "b"}), data={"k": "v"}))
    made.data["k"] = "w"
    assert client.replace(made).data == {"k": "w"}
    with pytest.raises(ApiError) as caught:
        client.replace(made)
    assert (caught.value.status.code, caught.value.status.reason) == (409, "Conflict")
    assert client.get(ConfigMap, "c").data == {"k": "w"}
    assert [one.metadata.name for one in client.list(ConfigMap, labels={"a": op.in_(["b", "c"])})] == ["c"]
    assert not list(client.list(ConfigMap, labels={"a": op.not_exists()}))
    client.delete(ConfigMap, "c")
    with pytest.raises(ApiError, match='configmaps "c" not found') as caught:
        client.get(ConfigMap, "c")
    assert status_of(caught.value).details.name == "c"


def test_lists_come_in_pages(client: Any) -> None:
    for name in "abcde":
        client.create(Secret(metadata=ObjectMeta(name=name), stringData={"x": name}))
    listed = client.list(Secret, chunk_size=2)
    assert [(one.metadata.name, one.type) for one in listed] == [(name, "Opaque") for name in "abcde"]
    assert listed.resourceVersion


def test_patches_of_every_type(client: Any) -> None:
    client.create(ConfigMap(metadata=ObjectMeta(name="c"), data={"k": "v"}))
    client.patch(ConfigMap, "c", {"data": {"s": "1"}})
    client.patch(ConfigMap, "c", {"data": {"k": None}}, patch_type=PatchType.MERGE)
    add = [{"op": "add", "path": "/data/j", "value": "2"}]
    assert client.patch(ConfigMap, "c", add, patch_type=PatchType.JSON).data == {"s": "1", "j": "2"}
    labelled = client.set(ConfigMap, "c", labels={"x": "y"})
    assert labelled.metadata.labels == {"x": "y"}


def test_apply_and_its_conflicts(client: Any) -> None:
    client.apply(gadget("g", 1), field_manager="one")
    with pytest.raises(ApiError, match=r'conflict with "one": \.spec\.size') as caught:
        client.apply(gadget("g", 2), field_manager="two")
    assert [cause.field for cause in status_of(caught.value).details.causes] == [".spec.size"]
    assert client.apply(gadget("g", 2), field_manager="two", force=True)["spec"] == {"size": 2}
    assert client.apply(gadget("g", 3), field_manager="two", dry_run=True)["spec"] == {"size": 3}
    assert client.get(Gadget, "g")["spec"] == {"size": 2}


def test_status_of_a_generic_resource(client: Any) -> None:
    client.create(gadget("g", 1))
    condition = {"type": "Ready", "status": "True"}
    patched = client.patch(
        Gadget.Status, "g", {"status": {"conditions": [condition]}}, patch_type=PatchType.MERGE
    )
    assert patched.status == {"conditions": [condition]}
    waited = client.wait(Gadget, "g", for_conditions=["Ready"])
    assert waited.metadata.name == "g"
    with pytest.raises(ApiError) as caught:
        client.create(gadget("h", 0))
    assert caught.value.status.code == 422


def test_watch(client: Any) -> None:
    version = client.create(ConfigMap(metadata=ObjectMeta(name="before"))).metadata.resourceVersion
    client.create(gadget("g", 1))
    client.patch(Gadget, "g", {"spec": {"size": 2}}, patch_type=PatchType.MERGE)
    client.delete(Gadget, "g")
    seen = []
    for change, obj in client.watch(Gadget, resource_version=version, server_timeout=20):
        seen.append((change, obj["spec"]["size"]))
        if change == "DELETED":
            break
    assert seen == [("ADDED", 1), ("MODIFIED", 2), ("DELETED", 2)]


def test_manifests_leases_and_definitions(client: Any) -> None:
    loaded = codecs.load_all_yaml(MANIFESTS)
    for obj in loaded:
        client.apply(obj)
    assert client.get(ConfigSet, "s")["spec"]["packages"] == [{"name": "chrony"}]
    assert "kind: ConfigSet" in str(codecs.dump_all_yaml([client.get(ConfigSet, "s")]))
    client.deletecollection(ConfigSet)
    assert not list(client.list(ConfigSet))
    spec = LeaseSpec(holderIdentity="me", leaseDurationSeconds=15)
    lease = client.create(Lease(metadata=ObjectMeta(name="l"), spec=spec))
    assert client.replace(lease).metadata.resourceVersion == lease.metadata.resourceVersion
    crd = client.get(CustomResourceDefinition, "gadgets.clients.test")
    assert crd.status.acceptedNames.plural == "gadgets"
    client.create(ServiceAccount(metadata=ObjectMeta(name="a")))


async def test_the_asynchronous_form(place: Place) -> None:
    connected: Any = AsyncClient(settings(place), field_manager="lightkube", trust_env=False)
    async with connected as client:
        await client.apply(gadget("g", 1))
        version = (await client.get(Gadget, "g")).metadata.resourceVersion
        await client.patch(Gadget, "g", {"spec": {"size": 2}}, patch_type=PatchType.MERGE)
        async for change, obj in client.watch(Gadget, resource_version=version, server_timeout=20):
            assert (change, obj["spec"]["size"]) == ("MODIFIED", 2)
            break
        assert [one.metadata.name async for one in client.list(Gadget)] == ["g"]
        await client.delete(Gadget, "g")
        with pytest.raises(ApiError, match='"g" not found'):
            await client.get(Gadget, "g")
