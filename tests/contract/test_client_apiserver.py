"""Every verb of the client against a real kube-apiserver."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.crds import all_crds
from nodemanager.client import subresources
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.calls import DeleteOptions, Selection, WriteOptions
from nodemanager.client.patches import ApplyPatch, JsonPatch, MergePatch, StrategicPatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import EVENTS, LEASES, PODS, SERVICE_ACCOUNTS, Lease, LeaseSpec
from nodemanager.kube.objects import ObjectMeta, Resource, Untyped
from nodemanager.runtime.events import EventRecorder
from support import apiserver
from support.clients import Tokens, as_admin, as_user, connected
from support.scripted_server import until

NAMESPACES: Resource[Untyped] = Resource("", "v1", "Namespace", "namespaces", dict, namespaced=False)
BUDGETS: Resource[Untyped] = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", dict)


@pytest.fixture
async def namespace(kube: apiserver.ApiServer) -> str:
    async with connected(as_admin(kube)) as admin:
        made = await admin.create(NAMESPACES, {"metadata": {"generateName": "client-"}})
        return str(made["metadata"]["name"])


def lease(name: str, holder: str = "me") -> Lease:
    return Lease(metadata=ObjectMeta(name=name), spec=LeaseSpec(holder_identity=holder))


async def test_create_get_update_delete(kube: apiserver.ApiServer, namespace: str) -> None:
    async with connected(as_admin(kube)) as client:
        made = await client.create(LEASES, lease("a"), namespace)
        assert made.metadata.uid
        with pytest.raises(errors.AlreadyExists):
            await client.create(LEASES, lease("a"), namespace)
        plain = await client.get(LEASES.untyped(), "a", namespace)
        plain["spec"]["holderIdentity"] = "you"
        assert (await client.update(LEASES, plain)).spec.holder_identity == "you"
        with pytest.raises(errors.Conflict):
            await client.update(LEASES, plain)
        with pytest.raises(TypeError, match="cannot update Lease from a typed object"):
            await client.update(LEASES, made)  # type: ignore[arg-type]
        with pytest.raises(errors.Conflict):
            await client.delete(LEASES, "a", namespace, options=DeleteOptions(uid="another incarnation"))
        await client.delete(LEASES, "a", namespace, options=DeleteOptions(uid=made.metadata.uid))
        with pytest.raises(errors.NotFound):
            await client.get(LEASES, "a", namespace)


async def test_the_four_patches(kube: apiserver.ApiServer, namespace: str) -> None:
    async with connected(as_admin(kube)) as client:
        await client.create(LEASES, lease("a"), namespace)
        merged = await client.patch(
            LEASES, "a", namespace, MergePatch({"metadata": {"labels": {"x": "1", "y": "2"}}})
        )
        assert merged.metadata.labels == {"x": "1", "y": "2"}
        test = {"op": "test", "path": "/metadata/labels/x", "value": "1"}
        remove = {"op": "remove", "path": "/metadata/labels/x"}
        patched = await client.patch(LEASES, "a", namespace, JsonPatch([test, remove]))
        assert patched.metadata.labels == {"y": "2"}
        with pytest.raises(errors.Invalid):
            await client.patch(LEASES, "a", namespace, JsonPatch([test]))
        strategic = StrategicPatch({"metadata": {"finalizers": ["a.example/x"]}})
        assert (await client.patch(LEASES, "a", namespace, strategic)).metadata.finalizers == ["a.example/x"]
        stale = MergePatch({"metadata": {"resourceVersion": merged.metadata.resource_version}, "spec": {}})
        with pytest.raises(errors.Conflict):
            await client.patch(LEASES, "a", namespace, stale)
        await client.patch(LEASES, "a", namespace, MergePatch({"metadata": {"finalizers": None}}))


def apply(holder: str) -> dict[str, Any]:
    return {"spec": {"holderIdentity": holder}}


async def test_apply_tells_who_owns_a_field_and_may_be_forced(
    kube: apiserver.ApiServer, namespace: str
) -> None:
    async with connected(as_admin(kube)) as client:
        one, two = WriteOptions(field_manager="one"), WriteOptions(field_manager="two")
        await client.patch(LEASES, "a", namespace, ApplyPatch(apply("me")), options=one)
        with pytest.raises(errors.Conflict, match='conflict with "one"') as e:
            await client.patch(LEASES, "a", namespace, ApplyPatch(apply("you")), options=two)
        assert [cause.field for cause in e.value.causes] == [".spec.holderIdentity"]
        forced = ApplyPatch(apply("you"), force=True)
        won = await client.patch(LEASES, "a", namespace, forced, options=two)
        assert won.spec.holder_identity == "you"


async def test_a_dry_run_changes_nothing(kube: apiserver.ApiServer, namespace: str) -> None:
    async with connected(as_admin(kube)) as client:
        dry = WriteOptions(dry_run=True)
        assert (await client.create(LEASES, lease("a"), namespace, options=dry)).metadata.uid
        with pytest.raises(errors.NotFound):
            await client.get(LEASES, "a", namespace)
        await client.create(LEASES, lease("a"), namespace)
        await client.delete(LEASES, "a", namespace, options=DeleteOptions(dry_run=True))
        await client.get(LEASES, "a", namespace)


async def test_strict_validation_names_the_unknown_field(kube: apiserver.ApiServer, namespace: str) -> None:
    async with connected(as_admin(kube)) as client:
        wrong = {"metadata": {"name": "a"}, "spec": {"holder": "me"}}
        strict = WriteOptions(field_validation="Strict")
        with pytest.raises(errors.BadRequest, match=r'unknown field "spec.holder"'):
            await client.create(LEASES, wrong, namespace, options=strict)


async def test_foreground_deletion_waits_for_finalizers(kube: apiserver.ApiServer, namespace: str) -> None:
    async with connected(as_admin(kube)) as client:
        held = Lease(metadata=ObjectMeta(name="a", finalizers=["a.example/x"]))
        await client.create(LEASES, held, namespace)
        await client.delete(LEASES, "a", namespace, options=DeleteOptions(propagation="Foreground"))
        found = await client.get(LEASES, "a", namespace)
        assert found.metadata.deletion_timestamp
        await client.patch(LEASES, "a", namespace, MergePatch({"metadata": {"finalizers": None}}))


async def test_a_collection_is_deleted_by_label(kube: apiserver.ApiServer, namespace: str) -> None:
    async with connected(as_admin(kube)) as client:
        for name in "abc":
            label = {"x": "1"} if name != "b" else {}
            await client.create(LEASES, Lease(metadata=ObjectMeta(name=name, labels=label)), namespace)
        await client.delete_collection(LEASES, Selection(namespace, labels="x=1"))
        left = await client.list(LEASES, Selection(namespace))
        assert [found.metadata.name for found in left.items] == ["b"]
        by_field = await client.list(LEASES, Selection(namespace, fields="metadata.name=b"))
        assert len(by_field.items) == 1


async def test_a_requested_token_lets_us_in_until_it_ends(kube: apiserver.ApiServer, namespace: str) -> None:
    async with connected(as_admin(kube)) as admin:
        await admin.create(SERVICE_ACCOUNTS, {"metadata": {"name": "host"}}, namespace)
        issued = await subresources.request_token(admin, "host", namespace, seconds=600)
        assert issued.expires.endswith("Z")
        assert issued.token not in repr(issued)
        with pytest.raises(errors.Invalid, match="expirationSeconds"):
            await subresources.request_token(admin, "host", namespace, seconds=1)
    config = ClientConfig(kube.server, ca=kube.ca.cert_pem.bytes(), credentials=Tokens(issued.token))
    async with connected(config) as host:
        with pytest.raises(errors.Forbidden, match='cannot list resource "leases"'):
            await host.list(LEASES, Selection(namespace))
    nobody = ClientConfig(kube.server, ca=kube.ca.cert_pem.bytes(), credentials=Tokens("nonsense"))
    async with connected(nobody) as host:
        with pytest.raises(errors.Unauthorized):
            await host.list(LEASES, Selection(namespace))


async def pod(client: Client, namespace: str, name: str) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False}
    meta = {"name": name, "labels": {"app": "web"}}
    await client.create(PODS, {"metadata": meta, "spec": {**spec, "nodeName": "n"}}, namespace)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    patch = MergePatch({"status": status})
    await client.patch(PODS, name, namespace, patch, subresource="status")


async def test_eviction_respects_budgets_and_does_not_wait_by_itself(
    kube: apiserver.ApiServer, namespace: str
) -> None:
    async with connected(as_admin(kube)) as client:
        await pod(client, namespace, "a")
        budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        await client.create(BUDGETS, {"metadata": {"name": "web"}, "spec": budget}, namespace)
        async with asyncio.timeout(50):
            with pytest.raises(errors.TooManyRequests):
                await subresources.evict(client, "a", namespace)
        await client.delete(BUDGETS, "web", namespace)
        await subresources.evict(client, "a", namespace, grace_period=0, dry_run=True)
        await client.get(PODS, "a", namespace)
        await subresources.evict(client, "a", namespace, grace_period=0)
        with pytest.raises(errors.NotFound):
            await subresources.evict(client, "a", namespace)


async def test_forbidden_names_verb_resource_and_namespace(kube: apiserver.ApiServer, namespace: str) -> None:
    async with connected(as_user(kube, "nobody")) as client:
        with pytest.raises(errors.Forbidden) as e:
            await client.patch(LEASES, "a", namespace, MergePatch({}))
        for part in ('"nobody"', "patch", '"leases"', '"coordination.k8s.io"', namespace):
            assert part in str(e.value)


async def test_events_are_counted_and_shown_by_kubectl(kube: apiserver.ApiServer, namespace: str) -> None:
    async with connected(as_admin(kube)) as client:
        about = await client.create(LEASES, lease("a"), namespace)
        recorder = EventRecorder(client, "test", "host")
        running = asyncio.create_task(recorder.run())
        for _ in range(3):
            recorder.normal(LEASES, about, "Applied", "all is well")
        recorder.warning(LEASES, about, "Failed", "disk full")

        async def counts() -> dict[str, int]:
            page = await client.list(EVENTS, Selection(namespace))
            return {event.reason: event.count for event in page.items}

        await until(lambda: not recorder._pending)
        running.cancel()
        await asyncio.wait({running})
        assert await counts() == {"Applied": 3, "Failed": 1}
        assert recorder.dropped == 0
    shown = kube.kubectl("get", "events", "-n", namespace).stdout
    assert "Warning" in shown
    assert "disk full" in shown


async def test_fields_of_a_newer_version_survive_our_writes(
    kube: apiserver.ApiServer, namespace: str
) -> None:
    crd = next(crd for crd in all_crds() if crd["spec"]["names"]["kind"] == "ConfigSet")
    text = json.dumps(crd).replace("configset", "newset").replace("ConfigSet", "NewSet")
    newer = json.loads(text.replace('"cs"', '"ns1"').replace('"cset"', '"ns2"'))
    properties = newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"]["properties"]["future"] = {"type": "string"}
    properties["status"]["properties"]["forecast"] = {"type": "string"}
    kube.kubectl("apply", "-f", "-", stdin=json.dumps(newer))
    kube.kubectl("wait", "--for=condition=Established", f"crd/{newer['metadata']['name']}")
    ours = Resource(CONFIG_SETS.group, "v1", "NewSet", "newsets", CONFIG_SETS.type)
    async with connected(as_admin(kube)) as client:
        await client.create(ours, {"metadata": {"name": "a"}, "spec": {"future": "bright"}}, namespace)
        rain = MergePatch({"status": {"forecast": "rain"}})
        await client.patch(ours, "a", namespace, rain, subresource="status")
        typed = await client.get(ours, "a", namespace)  # which knows neither of the two
        assert not hasattr(typed.spec, "future")
        await client.patch(ours, "a", namespace, MergePatch({"spec": {"priority": 7}}))
        seen = MergePatch({"status": {"observedGeneration": 2}})
        await client.patch(ours, "a", namespace, seen, subresource="status")
        plain = await client.get(ours.untyped(), "a", namespace)
    kube.kubectl("delete", "crd", newer["metadata"]["name"], "--wait=false")  # others count our kinds
    assert plain["spec"] == {"drift": "repair", "future": "bright", "priority": 7}
    assert plain["status"] == {"forecast": "rain", "observedGeneration": 2}
