"""What the fuzzer found, one case each: short requests that were once answered in another way."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support import duel_verdicts
from support.apiserver import ApiServer
from support.duel import Ask
from support.fuzz_sequences import Arena, arena
from support.fuzz_steps import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, PARTIAL, STRATEGIC_PATCH

CORE, RBAC = "/api/v1/namespaces/default", "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
OPTIONS = {"fieldManager": "m"}


def made(plural: str, kind: str, version: str = "v1", **fields: Any) -> Ask:
    """Return the creation of an object called `a`."""
    root = {"v1": CORE, "rbac.authorization.k8s.io/v1": RBAC}[version]
    meta = {"name": "a", **fields.pop("metadata", {})}
    body = {"apiVersion": version, "kind": kind, "metadata": meta, **fields}
    return Ask("POST", f"{root}/{plural}", OPTIONS, body)


def config_map(**fields: Any) -> Ask:
    return made("configmaps", "ConfigMap", **fields)


def patched(plural: str, body: Any, media: str, **query: str) -> Ask:
    return Ask("PATCH", f"{CORE}/{plural}/a", {**OPTIONS, **query}, body, media)


def lease(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": spec}


def budget(**spec: Any) -> Ask:
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}, "spec": spec}
    return Ask("POST", BUDGETS, OPTIONS, body)


def account(*secrets: dict[str, Any]) -> Ask:
    return made("serviceaccounts", "ServiceAccount", secrets=list(secrets))


def role(method: str, manager: str, **fields: Any) -> Ask:
    """Return a write of a role with one rule."""
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], **fields}
    ask = made("roles", "Role", "rbac.authorization.k8s.io/v1", rules=[rule])
    path = ask.path if method == "POST" else f"{ask.path}/a"
    return Ask(method, path, {"fieldManager": manager}, ask.body)


def binding(role: dict[str, Any], *subjects: dict[str, Any]) -> Ask:
    version = "rbac.authorization.k8s.io/v1"
    return made("rolebindings", "RoleBinding", version, roleRef=role, subjects=list(subjects))


ROLE = {"kind": "Role", "name": "r"}
NODE = f"found-{uuid.uuid4().hex[:12]}"
POD = {"containers": [{"name": "c", "image": "i"}]}
NAMELESS = {"apiVersion": "v1", "kind": "Pod"}
BARE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
CASES = {
    "null is not given": [config_map(data=None, binaryData={"b": None}, metadata={"labels": {"a": None}})],
    "empty is not written": [config_map(data={}, immutable=False)],
    "no rules are null": [made("roles", "Role", "rbac.authorization.k8s.io/v1", rules=[])],
    "structures are there": [made("events", "Event", involvedObject={"namespace": "default", "name": "p"})],
    "a wrong type": [config_map(binaryData={"b": {}}), config_map(data={"a": 1})],
    "a wrong type by patch": [config_map(), patched("configmaps", {"data": {"a": 1}}, MERGE_PATCH)],
    "metadata of a list": [config_map(), patched("configmaps", [{"op": "copy", "from": "/kind", "path":
                           "/metadata"}], JSON_PATCH)],
    "nothing to merge with": [config_map(), patched("configmaps", {"metadata": None}, MERGE_PATCH)],
    "no version by patch": [config_map(), patched("configmaps", [{"op": "remove", "path": "/apiVersion"}],
                            JSON_PATCH, fieldValidation="Ignore")],
    "another age": [config_map(), Ask("PUT", f"{CORE}/configmaps/a", OPTIONS, {**BARE, "metadata":
                    {"name": "a", "creationTimestamp": "2020-01-01T00:00:00Z"}})],
    "a count of its own": [config_map(metadata={"generation": 5})],
    "managers reset": [config_map(data={"a": "b"}), Ask("PUT", f"{CORE}/configmaps/a", OPTIONS,
                       {**BARE, "metadata": {"name": "a", "managedFields": []}})],
    "warned and refused": [config_map(metadata={"name": "Bad_Name", "unknown": None})],
    "a revision at birth": [config_map(metadata={"resourceVersion": "7"})],
    "an update that creates": [Ask("PUT", f"{LEASES}/a", OPTIONS, lease(holderIdentity=""))],
    "an update without revision": [Ask("PUT", f"{LEASES}/a", OPTIONS, lease()),
                                   Ask("PUT", f"{LEASES}/a", OPTIONS, lease(leaseTransitions=1))],
    "a dry update that creates": [Ask("PUT", f"{LEASES}/a", {"dryRun": "All"}, {**lease(), "metadata":
                                  {"name": "a", "resourceVersion": "7"}})],
    "leases are checked": [Ask("POST", LEASES, OPTIONS, lease(leaseDurationSeconds=0, leaseTransitions=-1))],
    "budgets are checked": [budget(minAvailable="odd"), budget(minAvailable=-1), budget(minAvailable="101%"),
                            budget(minAvailable=1, maxUnavailable=1, selector={"matchLabels": {"a": "b"}})],
    "bindings are checked": [binding({"kind": "Odd"}), binding(ROLE, {"kind": "Odd", "name": "x"}),
                             binding(ROLE, {"kind": "User", "name": ""}), binding(ROLE)],
    "a role once bound": [binding(ROLE), Ask("PATCH", f"{RBAC}/rolebindings/a", OPTIONS,
                          {"roleRef": {"name": "other"}}, STRATEGIC_PATCH)],
    "secrets are checked": [made("secrets", "Secret", type="kubernetes.io/tls"),
                            made("secrets", "Secret", type="kubernetes.io/basic-auth")],
    "a null key": [account({"name": "x"}), patched("serviceaccounts", {"secrets": [{"name": None}]},
                   STRATEGIC_PATCH)],
    "a null key twice": [account({"name": "x"}), patched("serviceaccounts", {"secrets": [{"name": None}] * 2},
                         STRATEGIC_PATCH)],
    "of secrets the names": [account({"name": "x", "kind": "Secret"})],
    "empty in a whole list": [role("POST", "one"), role("PUT", "two", resourceNames=[]),
                              role("PUT", "three")],
    "any phase": [Ask("POST", "/api/v1/nodes", OPTIONS, {**BARE, "kind": "Node", "metadata": {"name": NODE}}),
                  Ask("PATCH", f"/api/v1/nodes/{NODE}/status", OPTIONS, {"status": {"phase": "Odd"}},
                      MERGE_PATCH), Ask("DELETE", f"/api/v1/nodes/{NODE}")],
    "an account is told whole": [made("serviceaccounts", "ServiceAccount"),
                                 Ask("DELETE", f"{CORE}/serviceaccounts/a")],
    "still on its way out": [config_map(metadata={"finalizers": ["a.b/c"]}),
                             Ask("DELETE", f"{CORE}/configmaps/a"), config_map()],
    "held again": [config_map(metadata={"finalizers": ["a.b/c"]}), Ask("DELETE", f"{CORE}/configmaps/a"),
                   patched("configmaps", {"metadata": {"finalizers": ["z.b/c", 'q".b/"c', "a.b/c", "b.b/c",
                                                                      "z.b/c"]}}, MERGE_PATCH)],
    "odd finalizers": [config_map(metadata={"finalizers": ["Odd!", "", None, "odd", "a.b/c", "a b/c"]})],
    "odd finalizers, elsewhere": [binding(ROLE), Ask("PATCH", f"{RBAC}/rolebindings/a", OPTIONS,
                                  {"metadata": {"finalizers": ["Odd!", "", None, "odd"]}}, MERGE_PATCH)],
    "two policies, both odd": [config_map(), Ask("DELETE", f"{CORE}/configmaps/a",
                               {"propagationPolicy": "Odd", "orphanDependents": "true"})],
    "odd policy, odd selector": [Ask("DELETE", f"{CORE}/configmaps", {"propagationPolicy": "Odd",
                                 "fieldSelector": "spec.odd=1"})],
    "a deletion that waits": [config_map(), Ask("DELETE", f"{CORE}/configmaps/a", {"propagationPolicy":
                              "Foreground"}), Ask("GET", f"{CORE}/configmaps/a")],
    "a pod that waits": [made("pods", "Pod", spec=POD), *(Ask("DELETE", f"{CORE}/pods/a",
                         {"propagationPolicy": one}) for one in ("Foreground", "Background", "Orphan"))],
    "a pod that need not wait": [made("pods", "Pod", spec=POD, metadata={"finalizers": ["orphan"]}),
                                 Ask("DELETE", f"{CORE}/pods/a", {"propagationPolicy": "Background"})],
    "a quantity of several": [Ask("PATCH", f"/api/v1/nodes/{NODE}", OPTIONS, {**BARE, "kind": "Node",
                              "metadata": {"name": NODE}, "status": {"capacity": {"cpu": ["x"]}}},
                              APPLY_PATCH)],
    "a number as namespace": [patched("configmaps", {**BARE, "metadata": {"name": "a", "namespace": 1}},
                              APPLY_PATCH)],
    "an uid that is not there": [patched("configmaps", {**BARE, "metadata": {"name": "a", "uid": "x"}},
                                 APPLY_PATCH)],
    "unknown fields by apply": [patched("configmaps", {**BARE, "odd": 1}, APPLY_PATCH,
                                fieldValidation="Ignore")],
    "all wrong options": [Ask("PATCH", f"{CORE}/configmaps/a", {"fieldValidation": "Odd"}, BARE,
                          APPLY_PATCH)],
    "two controllers": [config_map(metadata={"ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": one, "uid": one, "controller": True} for one in "xy"]})],
    "a nameless owner": [config_map(metadata={"ownerReferences": [NAMELESS]})],
    "an applied owner without uid": [patched("configmaps", {**BARE, "metadata": {"name": "a",
                                     "ownerReferences": [NAMELESS]}}, APPLY_PATCH)],
    "a very long name": [config_map(metadata={"name": "a" * 254}), config_map(metadata={"name": "A" * 254})],
    "lists of built-in kinds": [config_map(), Ask("GET", f"{CORE}/configmaps", {"labelSelector": "!x"}),
                                Ask("GET", f"{CORE}/configmaps", {"labelSelector": "x"},
                                    accept=PARTIAL.format("List"))],
}  # fmt: skip


@pytest.fixture
async def both(kube: ApiServer) -> AsyncIterator[Arena]:
    async with arena(kube) as servers:
        yield servers


@pytest.mark.parametrize("asks", [pytest.param(asks, id=name) for name, asks in CASES.items()])
async def test_answers_are_the_same(both: Arena, asks: list[Ask]) -> None:
    namespace = both.fresh()
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    await both.duel.ask(Ask("POST", "/api/v1/namespaces", {}, body))
    for ask in asks:
        text = json.dumps(ask.body).replace('"default"', f'"{namespace}"')
        path = ask.path.replace("/default/", f"/{namespace}/")
        await compare(both, Ask(ask.method, path, ask.query, json.loads(text), ask.content_type, ask.accept))


async def test_custom_kinds_are_pruned_warned_of_and_counted(both: Arena) -> None:
    anything = {"type": "object", "additionalProperties": True}
    few = {"type": "object", "properties": {"a": {"type": "integer"}}, "maxProperties": 1}
    fields = {"any": anything, "few": few}
    spec = {"type": "object", "properties": fields, "x-kubernetes-preserve-unknown-fields": True}
    await both.add(f"k{uuid.uuid4().hex[:12]}", {"type": "object", "properties": {"spec": spec}})
    kind = both.customs[0]
    await both.served(kind)
    body: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a"}}
    body["spec"] = {"any": {"a": {"b": 1}, "c": [{"d": 1}], "e": 1}}
    await compare(both, Ask("PATCH", kind.path("default", "a"), OPTIONS, body, APPLY_PATCH))
    for counted in ({"b": 1}, {"a": 1, "b": 1}):  # before they are pruned
        full = {**body, "spec": {**body["spec"], "few": counted}}
        await compare(both, Ask("PATCH", kind.path("default", "a"), OPTIONS, full, APPLY_PATCH))
    owned = {**body, "metadata": {"name": "b", "ownerReferences": [NAMELESS]}}
    await compare(both, Ask("PATCH", kind.path("default", "b"), OPTIONS, owned, APPLY_PATCH))
    body["metadata"]["finalizers"] = ["unqualified"]  # which is warned of, although the name is taken
    await compare(both, Ask("POST", kind.path("default"), OPTIONS, body))
    for value in (1.0, True, 1, 1):  # all of which are equal to Python
        patch = {"spec": {"any": {"e": value}}}
        await compare(both, Ask("PATCH", kind.path("default", "a"), OPTIONS, patch, MERGE_PATCH))


async def test_nulls_that_nobody_allowed_are_refused_or_not_shown(both: Arena) -> None:
    open_, scalar = {"x-kubernetes-preserve-unknown-fields": True}, {"x-kubernetes-int-or-string": True}
    for field in (scalar, open_, {**open_, "nullable": True}):
        part = {"type": "object", "properties": {"x": field, "y": scalar}, "default": {"x": None, "y": 1}}
        more = {"type": "object", "additionalProperties": part}
        spec = {"type": "object", "properties": {"part": part, "more": more, "x": field}}
        await both.add(f"k{uuid.uuid4().hex[:12]}", {"type": "object", "properties": {"spec": spec}})
    await asyncio.gather(*(both.served(kind) for kind in both.customs))
    for kind in both.customs:
        for name, sent in enumerate(
            ({}, {"part": {"x": None}}, {"part": {}, "more": {"a": None}, "x": None})
        ):
            body: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": sent}
            for ask in (
                Ask("POST", kind.path("default"), OPTIONS, {**body, "metadata": {"name": f"a{name}"}}),
                Ask("GET", kind.path("default", f"a{name}")),
                Ask("PATCH", kind.path("default", f"b{name}"), OPTIONS, {**body, "metadata": {"name":
                    f"b{name}"}}, APPLY_PATCH),
                Ask("PATCH", kind.path("default", f"b{name}"), OPTIONS, {"spec": {"part": {"y": 2}}},
                    MERGE_PATCH),
            ):  # fmt: skip
                await compare(both, ask)


HIDDEN = {
    "the declared part of an open map": {
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"a": {"type": "object", "properties": {"c": {"type": "integer"}}}},
    },
    "an object in a map of anything": {"additionalProperties": True},
    "an object in which nothing is declared": {"properties": {"a": {"type": "object"}}},
}


@pytest.mark.parametrize("schema", [pytest.param(schema, id=name) for name, schema in HIDDEN.items()])
async def test_what_an_apply_hides_is_written_again_by_kube_apiserver_only(
    both: Arena, schema: dict[str, Any]
) -> None:
    spec = {"type": "object", **schema}
    await both.add(f"k{uuid.uuid4().hex[:12]}", {"type": "object", "properties": {"spec": spec}})
    kind = both.customs[0]
    await both.served(kind)
    body: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a"}}
    body["spec"] = {"a": {"b": 1}}
    path = kind.path("default", "a")
    await compare(both, Ask("PATCH", path, OPTIONS, body, APPLY_PATCH))
    (_, ours, _), (_, theirs, _) = await both.duel.ask(Ask("GET", path))
    assert ours["spec"] == theirs["spec"] == {"a": {}}
    (_, our_next, _), (_, their_next, _) = await both.duel.ask(Ask("PATCH", path, OPTIONS, {}, MERGE_PATCH))
    assert our_next == ours
    assert their_next["metadata"].pop("resourceVersion") != theirs["metadata"].pop("resourceVersion")
    assert their_next == theirs


async def compare(both: Arena, ask: Ask) -> None:
    raw = await both.duel.ask(ask)
    servers = (both.duel.ours, both.duel.theirs)
    ours, theirs = (duel_verdicts.read(one, side.symbols) for one, side in zip(raw, servers, strict=True))
    assert not duel_verdicts.difference(ours, theirs), ask
