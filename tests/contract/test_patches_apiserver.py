"""Our patches and apply, step by step against a real kube-apiserver: objects, owners and refusals."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from nodemanager.client.calls import Call, WriteOptions
from nodemanager.client.patches import ApplyPatch, MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import LEASES, PODS, SERVICE_ACCOUNTS
from nodemanager.kube.objects import Resource, Untyped
from nodemanager.kube.patching import managed_fields
from nodemanager.kube.patching.field_sets import FieldSet
from nodemanager.kube.patching.json_patch import apply_json_patch
from nodemanager.kube.patching.merge_patch import apply_merge_patch
from nodemanager.kube.patching.merge_types import MergeType, object_type
from nodemanager.kube.patching.server_side_apply import Writer, apply, update_managers
from nodemanager.kube.patching.strategic_merge import apply_strategic_merge
from nodemanager.server.kinds import builtin_schemas
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import internal_requests, patching
from support import apiserver
from support.clients import as_admin, connected
from support.patch_judge import NOW, Judge, owners, plain, refused
from support.patch_steps import CRD, GROUP, SCHEMA, WIDGETS, Step, WidgetSteps
from support.template_steps import FIRST, STRATEGY, TEMPLATES, TemplateSteps

NAMESPACES: Resource[Untyped] = Resource("", "v1", "Namespace", "namespaces", dict, namespaced=False)
CONFIG_MAPS: Resource[Untyped] = Resource("", "v1", "ConfigMap", "configmaps", dict)
SECRETS: Resource[Untyped] = Resource("", "v1", "Secret", "secrets", dict)
NODES: Resource[Untyped] = Resource("", "v1", "Node", "nodes", dict, namespaced=False)
BUDGETS: Resource[Untyped] = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", dict)
POLICIES: Resource[Untyped] = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    dict,
    namespaced=False,
)
WIDGET_TYPE = object_type(SCHEMA)
WIDGET_DOORS = {"": FieldSet.of(("f:status",)), "status": FieldSet.of(("f:metadata",), ("f:spec",))}
SEEDS = int(os.environ.get("PATCH_SEEDS", "6"))
"""How many sequences the normal run compares, for either kind; more of them take longer."""
STEPS = 25


@pytest.fixture(scope="module")
def widgets(kube: apiserver.ApiServer, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("crd") / "crd.json"
    path.write_text(json.dumps(CRD))
    kube.kubectl("apply", "-f", str(path))
    kube.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(path))


async def new_namespace(client: Client) -> str:
    made = await client.create(NAMESPACES, {"metadata": {"generateName": "patches-"}})
    return str(made["metadata"]["name"])


async def built_in_type(client: Client, path: str, name: str) -> MergeType:
    document = json.loads(await client.send(Call("GET", f"/openapi/v3/{path}", "read the schema", {})))
    definitions = document["components"]["schemas"]
    return object_type(definitions[name], definitions)


async def compare(judge: Judge, live: Untyped, steps: WidgetSteps | TemplateSteps) -> None:
    for number in range(STEPS):
        step, before = steps.step(live), live
        live, theirs, ours = await judge.both(live, step)
        assert ours == theirs, f"seed {steps.seed}, step {number}: {step} on {before}"


@pytest.mark.usefixtures("widgets")
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_random_writes_to_a_custom_resource(kube: apiserver.ApiServer, seed: int) -> None:
    async with connected(as_admin(kube)) as client:
        first = {"metadata": {"name": "w"}, "spec": {}}
        live = await client.create(WIDGETS, first, await new_namespace(client))
        await compare(Judge(client, WIDGETS, WIDGET_TYPE, WIDGET_DOORS), live, WidgetSteps(seed))


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_random_writes_to_a_built_in_kind(kube: apiserver.ApiServer, seed: int) -> None:
    async with connected(as_admin(kube)) as client:
        of = await built_in_type(client, "api/v1", "io.k8s.api.core.v1.PodTemplate")
        live = await client.create(TEMPLATES, FIRST, await new_namespace(client))
        await compare(Judge(client, TEMPLATES, of, strategy=STRATEGY), live, TemplateSteps(seed))


def writer(manager: str, resource: Resource[Untyped] = WIDGETS) -> Writer:
    is_custom = resource.group == GROUP
    return Writer(manager, resource.api_version, resource.kind, NOW, "", WIDGET_DOORS[""], is_custom)


@pytest.mark.usefixtures("widgets")
@pytest.mark.parametrize("seed", range(3))
async def test_objects_are_created(kube: apiserver.ApiServer, seed: int) -> None:
    async with connected(as_admin(kube)) as client:
        space = await new_namespace(client)
        head = {"apiVersion": WIDGETS.api_version, "kind": WIDGETS.kind}
        meta = {"name": "w", "namespace": space}
        spec = {
            "size": 1,
            "ports": [{"port": 80, "name": "x"}],
            "tags": ["b", "a"],
            "free": {"a": {"b": [seed]}},
        }
        body = {**head, "metadata": {**meta, "labels": {"a": "x"}}, "spec": spec, "status": {"phase": "x"}}
        options = WriteOptions(field_manager="me")
        made = await client.create(WIDGETS, body, space, options=options)
        # The server has put in defaults, which whoever creates owns, and dropped the status.
        entries = update_managers(None, {**body, "spec": made["spec"]}, writer("me"), WIDGET_TYPE)
        assert owners(entries) == owners(managed_fields.entries_of(made))
        body["metadata"] = {"name": "v", "namespace": space}
        applied = await client.patch(WIDGETS, "v", space, ApplyPatch(body), options=options)
        result = apply(None, body, writer("me"), WIDGET_TYPE, force=False)
        assert owners(result.managed_fields) == owners(managed_fields.entries_of(applied))
        assert result.object["spec"]["tags"] == applied["spec"]["tags"] == ["b", "a"]


CREATED: list[Any] = [
    (TEMPLATES, "api/v1", "io.k8s.api.core.v1"),
    (NODES, "api/v1", "io.k8s.api.core.v1"),
    (SERVICE_ACCOUNTS, "api/v1", "io.k8s.api.core.v1"),
    (SECRETS, "api/v1", "io.k8s.api.core.v1"),
    (CONFIG_MAPS, "api/v1", "io.k8s.api.core.v1"),
    (LEASES, "apis/coordination.k8s.io/v1", "io.k8s.api.coordination.v1"),
    (BUDGETS, "apis/policy/v1", "io.k8s.api.policy.v1"),
    (POLICIES, "apis/admissionregistration.k8s.io/v1", "io.k8s.api.admissionregistration.v1"),
]


@pytest.mark.parametrize(("resource", "path", "package"), CREATED)
async def test_built_in_objects_are_created(
    kube: apiserver.ApiServer, resource: Resource[Any], path: str, package: str
) -> None:
    async with connected(as_admin(kube)) as client:
        space = await new_namespace(client)
        untyped, name = resource.untyped(), f"n-{space}"
        body: Untyped = {**(FIRST if resource is TEMPLATES else CONTENT[resource.kind])}
        body["metadata"] = {"name": name, "labels": {"a": "x"}, "finalizers": ["b.c/a"]}
        of = await built_in_type(client, path, f"{package}.{resource.kind}")
        options = WriteOptions(field_manager="me")
        made = await client.create(untyped, body, space if resource.namespaced else "", options=options)
        entries = update_managers(None, managed_fields.without_entries(made), writer("me", untyped), of)
        assert owners(entries) == owners(managed_fields.entries_of(made))
        step = Step("merge", "two", {"metadata": {"finalizers": None, "managedFields": [{}]}})
        judge = Judge(
            client, untyped, of, {"": WIDGET_DOORS[""]}, builtin_schemas.strategy("", "v1", "Secret")
        )
        made, theirs, ours = await judge.both(made, step)
        assert ours == theirs
        made, theirs, ours = await judge.both(made, Step("apply", "me", {"metadata": {"labels": {"a": "x"}}}))
        assert ours == theirs
        assert len(theirs.owners) == 2
        await client.delete(untyped, name, space if resource.namespaced else "")


@pytest.mark.usefixtures("widgets")
async def test_many_updaters_become_ancient(kube: apiserver.ApiServer) -> None:
    async with connected(as_admin(kube)) as client:
        space = await new_namespace(client)
        live = await client.create(WIDGETS, {"metadata": {"name": "w"}, "spec": {}}, space)
        judge = Judge(client, WIDGETS, WIDGET_TYPE, WIDGET_DOORS)
        for number in range(13):
            step = Step("merge", f"m{number:02}", {"spec": {"labels": {f"l{number}": "x"}}})
            live, theirs, ours = await judge.both(live, step)
            assert ours == theirs
        found = [entry["manager"] for entry in managed_fields.entries_of(live)]
        assert managed_fields.ANCIENT in found
        assert len(found) == managed_fields.MAX_UPDATE_MANAGERS


async def test_kubectl_takes_over_what_it_applied_on_the_client(kube: apiserver.ApiServer) -> None:
    async with connected(as_admin(kube)) as client:
        space = await new_namespace(client)
        said: Untyped = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": space},
        }
        said["data"] = {"a": "1", "b": "1"}
        note = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(said)}
        first = {**said, "metadata": {**said["metadata"], "annotations": note}}
        live = await client.create(
            CONFIG_MAPS, first, space, options=WriteOptions(field_manager="kubectl-client-side-apply")
        )
        of = await built_in_type(client, "api/v1", "io.k8s.api.core.v1.ConfigMap")
        judge = Judge(client, CONFIG_MAPS, of, strategy=builtin_schemas.strategy("", "v1", "ConfigMap"))
        _, theirs, ours = await judge.both(live, Step("apply", "other", {"data": {"a": "2"}}))
        assert ours == theirs
        assert theirs.refusal[0] == 409
        live, theirs, ours = await judge.both(live, Step("apply", "kubectl", {"data": {"a": "2"}}))
        assert ours == theirs
        assert live["data"] == {"a": "2", "b": "1"}
        live = await client.patch(CONFIG_MAPS, "c", space, MergePatch({"data": {"b": "3"}}))
        _, theirs, ours = await judge.both(live, Step("apply", "kubectl", {"data": {"a": "2", "b": "4"}}))
        assert ours == theirs
        assert theirs.refusal[0] == 409


async def answer(client: Client, path: str, body: bytes, content_type: str) -> Any:
    call = Call("PATCH", path, "patch", {"fieldManager": "me"}, body, f"application/{content_type}")
    try:
        return plain(json.loads(await client.send(call)))
    except errors.StatusError as error:
        return refused(error)


REFUSED_PATCHES = [
    pytest.param("json-patch+json", '{"op":"add"}', id="no list"),
    pytest.param("json-patch+json", '["add"]', id="no operation"),
    pytest.param("json-patch+json", '[{"op":1,"path":"/data"}]', id="op is no text"),
    pytest.param("json-patch+json", '[{"op":"add","path":2}]', id="path is no text"),
    pytest.param("json-patch+json", '[{"op":"bogus","path":"/data/a"}]', id="unknown op"),
    pytest.param("json-patch+json", '[{"op":"add","value":1}]', id="no path"),
    pytest.param("json-patch+json", '[{"op":"remove","path":"/data/none"}]', id="nothing there"),
    pytest.param("json-patch+json", '[{"op":"add","path":"/none/a","value":1}]', id="no parent"),
    pytest.param("json-patch+json", '[{"op":"test","path":"/data/a","value":"2"}]', id="test fails"),
    pytest.param(
        "json-patch+json", '[{"op":"move","from":"/data/none","path":"/data/b"}]', id="move nothing"
    ),
    pytest.param("json-patch+json", "[" + ",".join(["{}"] * 10_001) + "]", id="too many"),
    pytest.param("merge-patch+json", "[1]", id="merge a list"),
    pytest.param("merge-patch+json", "null", id="merge null"),
    pytest.param("merge-patch+json", '"x"', id="merge text"),
    pytest.param("strategic-merge-patch+json", "[1]", id="strategic list"),
    pytest.param("strategic-merge-patch+json", '{"data":{"$patch":"bogus"}}', id="bogus directive"),
    pytest.param("strategic-merge-patch+json", '{"data":{"$retainKeys":"a"}}', id="bad retainKeys"),
    pytest.param("strategic-merge-patch+json", '{"metadata":{"$setElementOrder":[]}}', id="order of nothing"),
    pytest.param(
        "strategic-merge-patch+json", '{"metadata":{"$deleteFromPrimitiveList":[]}}', id="delete what"
    ),
    pytest.param(
        "strategic-merge-patch+json", '{"metadata":{"ownerReferences":[{"kind":"x"}]}}', id="no key"
    ),
    pytest.param("strategic-merge-patch+json", '{"metadata":{"finalizers":["b.c/d",1]}}', id="mixed types"),
]


@pytest.mark.parametrize(("content_type", "body"), REFUSED_PATCHES)
async def test_refusals(kube: apiserver.ApiServer, content_type: str, body: str) -> None:
    async with connected(as_admin(kube)) as client:
        space = await new_namespace(client)
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
        meta = {"name": "c", "ownerReferences": [owner], "finalizers": ["b.c/a"]}
        live = await client.create(CONFIG_MAPS, {"metadata": meta, "data": {"a": "1"}}, space)
        theirs = await answer(client, CONFIG_MAPS.path(space, "c"), body.encode(), content_type)
        patch = msgspec.json.decode(body)
        apply_patch = {
            "json-patch+json": apply_json_patch,
            "merge-patch+json": apply_merge_patch,
            "strategic-merge-patch+json": strategic_merge_of_a_config_map,
        }[content_type]
        with pytest.raises(errors.StatusError) as ours:
            apply_patch(live, patch)
        assert refused(ours.value) == theirs


def strategic_merge_of_a_config_map(live: Untyped, patch: Any) -> Untyped:
    return apply_strategic_merge(live, patch, builtin_schemas.strategy("", "v1", "ConfigMap"))


@pytest.mark.usefixtures("widgets")
async def test_custom_resources_know_no_strategic_merge(kube: apiserver.ApiServer) -> None:
    async with connected(as_admin(kube)) as client:
        path = WIDGETS.path(await new_namespace(client), "w")
        theirs = await answer(client, path, b"{}", "strategic-merge-patch+json")
        kind = ServedKind(GROUP, "v1", "Widget", "widgets", custom=True)
        call = replace(
            internal_requests.call("patch", kind, "", "w"),
            content_type="application/strategic-merge-patch+json",
        )
        with pytest.raises(errors.UnsupportedType) as ours:
            patching._media(call)
        assert refused(ours.value) == theirs


@pytest.mark.usefixtures("widgets")
@pytest.mark.parametrize(
    "change",
    [
        {"apiVersion": f"{GROUP}/v2"},
        {"kind": "Gadget"},
        {"metadata": {"name": "w", "managedFields": []}},
        {"spec": {"size": "x"}},
        {"spec": {"name": True}},
        {"spec": {"name": ["x"]}},
        {"spec": {"labels": 1}},
        {"spec": {"labels": {"a": {"b": 1}}}},
        {"status": {"conditions": [{"status": "True"}]}},
        {"spec": {"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}},
        {"spec": {"ports": ["x"]}},
        {"spec": {"ports": {"a": 1}}},
        {"spec": {"tags": ["a", "a"]}},
        {"spec": {"tags": [{"a": 1}]}},
        {"spec": {"tags": [["a"]]}},
        {"spec": {"nested": {"deep": {"x": 1}}}},
    ],
    ids=str,
)
async def test_applies_that_make_no_sense(kube: apiserver.ApiServer, change: Untyped) -> None:
    async with connected(as_admin(kube)) as client:
        space = await new_namespace(client)
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "w"}, **change}
        body["metadata"] = {"namespace": space, **body["metadata"]}
        theirs = await answer(client, WIDGETS.path(space, "w"), msgspec.json.encode(body), "apply-patch+yaml")
        with pytest.raises(errors.StatusError) as ours:
            apply(None, body, writer("me"), WIDGET_TYPE, force=False)
        assert refused(ours.value) == theirs


STRATEGIC: list[Any] = [
    (PODS, "status", {"status": {"conditions": [{"type": "B", "status": "True"}]}}),
    (PODS, "status", {"status": {"conditions": [{"type": "A", "$patch": "delete"}]}}),
    (PODS, "", {"spec": {"containers": [{"name": "a", "image": "y"}], "activeDeadlineSeconds": 5}}),
    (PODS, "", {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}),
    (NODES, "", {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}], "unschedulable": True}}),
    (
        NODES,
        "status",
        {"status": {"conditions": [{"type": "A", "status": "False"}], "capacity": {"x.y/z": "1"}}},
    ),
    (NODES, "status", {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]}}),
    (SERVICE_ACCOUNTS, "", {"secrets": [{"name": "b"}], "imagePullSecrets": [{"name": "b"}]}),
    (BUDGETS, "", {"spec": {"selector": {"matchLabels": {"b": "x"}}}}),
    (POLICIES, "", {"spec": {"variables": [{"name": "b", "expression": "2"}]}}),
    (POLICIES, "", {"spec": {"matchConditions": [{"name": "a", "expression": "false"}]}}),
    (POLICIES, "", {"spec": {"validations": [{"expression": "false"}]}}),
    (LEASES, "", {"spec": {"holderIdentity": None, "leaseDurationSeconds": 5}}),
    (
        SECRETS,
        "",
        {"data": {"a": None, "b": "eQ=="}, "metadata": {"labels": {"$patch": "replace", "b": "y"}}},
    ),
    (CONFIG_MAPS, "", {"data": {"$retainKeys": ["b"], "b": "2"}, "metadata": {"finalizers": ["b.c/b"]}}),
]
_POLICY = {
    "validations": [{"expression": "true"}],
    "variables": [{"name": "a", "expression": "1"}],
    "matchConditions": [{"name": "a", "expression": "true"}],
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": ["x.test"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["none"]}
        ]
    },
}
CONTENT: dict[str, Untyped] = {
    "Pod": {
        "spec": {"containers": [{"name": "a", "image": "x"}], "automountServiceAccountToken": False},
        "status": {"conditions": [{"type": "A", "status": "True"}]},
    },
    "Node": {
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {
            "conditions": [{"type": "A", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    },
    "ServiceAccount": {"secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "a"}]},
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "x"}}}},
    "ValidatingAdmissionPolicy": {"spec": _POLICY},
    "Lease": {"spec": {"holderIdentity": "a"}},
    "Secret": {"data": {"a": "eA=="}},
    "ConfigMap": {"data": {"a": "1", "b": "1"}},
}


@pytest.mark.parametrize(("resource", "door", "patch"), STRATEGIC)
async def test_strategic_merge_of_every_kind(
    kube: apiserver.ApiServer, resource: Resource[Any], door: str, patch: Untyped
) -> None:
    async with connected(as_admin(kube)) as client:
        space = await new_namespace(client)
        untyped = resource.untyped()
        name = f"s-{space}"
        body = {"metadata": {"name": name, "labels": {"a": "x"}}, **CONTENT[resource.kind]}
        if resource is PODS:
            await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, space)
        live = await client.create(untyped, body, space if resource.namespaced else "")
        if "status" in body:
            options = WriteOptions(field_manager="status")
            live = await client.update(
                untyped, {**live, "status": body["status"]}, subresource="status", options=options
            )
        strategy = builtin_schemas.strategy(resource.group, resource.version, resource.kind)
        judge = Judge(client, untyped, object_type(None), strategy=strategy)
        _, theirs, ours = await judge.both(live, Step("strategic", "me", patch, door))
        assert theirs.refusal is None
        assert ours.obj == theirs.obj
        if resource is NODES:
            await client.delete(NODES, name)
        if resource is POLICIES:
            await client.delete(POLICIES, name)
