"""Mutating policies in a running server: what they may change, in which order, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from nodemanager.client.patches import MergePatch
from nodemanager.kube import core, errors
from nodemanager.kube.objects import Resource, Untyped
from nodemanager.server.access.authz import Authorizer
from nodemanager.server.access.store_listers import StoredRoles
from nodemanager.server.admission.mutations import Mutations
from support import embedded
from support.embedded import Embedded

MAPS: Resource[Untyped] = Resource("", "v1", "ConfigMap", "configmaps", dict)
RULE = {
    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"],
}  # fmt: skip


def noting(key: str, value: str) -> str:
    """Return a patch that sets one annotation to the value of an expression."""
    return (
        f"has(object.metadata.annotations) ? [JSONPatch{{op: 'add', path: '/metadata/annotations/{key}',"
        f" value: {value}}}] : [JSONPatch{{op: 'add', path: '/metadata/annotations', value:"
        f" {{'{key}': {value}}}}}]"
    )


def spec(expression: str, **more: Any) -> dict[str, Any]:
    """Return a policy for ConfigMaps."""
    patch = {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
    rules = {"resourceRules": [RULE]}
    return {"matchConstraints": rules, "mutations": [patch], "reinvocationPolicy": "Never", **more}


@pytest.fixture
async def server() -> AsyncIterator[Embedded]:
    async with embedded.serving() as running:
        running.hub.mutation = (Mutations(running.hub, Authorizer(StoredRoles(running.hub))),)
        yield running


async def bound(server: Embedded, name: str, said: dict[str, Any]) -> None:
    await server.client.create(core.MUTATING_POLICIES, {"metadata": {"name": name}, "spec": said})
    binding = {"metadata": {"name": name}, "spec": {"policyName": name}}
    await server.client.create(core.MUTATING_BINDINGS, binding)


async def written(server: Embedded, **data: str) -> dict[str, str]:
    """Write a ConfigMap and return its annotations."""
    try:
        found = await server.client.create(MAPS, {"metadata": {"name": "x"}, "data": data}, "default")
    except errors.AlreadyExists:
        found = await server.client.patch(MAPS, "x", "default", MergePatch({"data": data}))
    return dict(found["metadata"].get("annotations") or {})


async def test_a_policy_writes_who_asks_from_its_binding_to_its_end(server: Embedded) -> None:
    await bound(server, "p", spec(noting("by", "request.userInfo.username")))
    assert await written(server, a="1") == {"by": "admin"}
    await server.client.delete(core.MUTATING_BINDINGS, "p")
    await server.client.patch(MAPS, "x", "default", MergePatch({"metadata": {"annotations": {"by": None}}}))
    assert await written(server, a="2") == {}


async def test_nobody_owns_what_a_policy_writes(server: Embedded) -> None:
    await bound(server, "p", spec(noting("by", "'us'")))
    await written(server, a="1")
    found = await server.client.get(MAPS, "x", "default")
    assert "f:by" not in str(found["metadata"]["managedFields"])


async def test_policies_follow_each_other_and_one_is_asked_again(server: Embedded) -> None:
    count = "has(object.metadata.annotations) ? string(object.metadata.annotations.size()) : '0'"
    await bound(server, "a-again", spec(noting("again", count), reinvocationPolicy="IfNeeded"))
    await bound(server, "b-once", spec(noting("once", count)))
    await bound(server, "c-last", spec(noting("last", count)))
    assert await written(server, a="1") == {"again": "3", "once": "1", "last": "2"}


async def test_conditions_and_variables_decide(server: Embedded) -> None:
    said = spec(
        noting("size", "variables.size"),
        matchConditions=[{"name": "has-data", "expression": "has(object.data)"}],
        variables=[{"name": "size", "expression": "string(object.data.size())"}],
    )
    await bound(server, "p", said)
    assert await written(server, a="1", b="2") == {"size": "2"}
    empty = await server.client.create(MAPS, {"metadata": {"name": "y"}}, "default")
    assert "annotations" not in empty["metadata"]


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("[JSONPatch{op: 'add', path: '/data/x', value: 'y'}]", "cannot patch /data/x"),
        ("[JSONPatch{op: 'add', path: '', value: {'a': 'b'}}]", "cannot patch the object"),
        ("[JSONPatch{op: 'test', path: '/metadata/annotations/x', value: 'y'}]", "operation 'test'"),
        ("[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'a': 1}}]", "must be texts"),
        ("[JSONPatch{op: 'add', path: '/metadata/annotations/x', value: 'y'}]", "JSON Patch: "),
        ("[JSONPatch{op: 'add', path: object.nothing, value: 'y'}]", "no such key: nothing"),
    ],
)
async def test_what_cannot_be_changed_is_refused_or_left(
    server: Embedded, expression: str, says: str
) -> None:
    await bound(server, "p", spec(expression))
    with pytest.raises(errors.Invalid, match=f"policy 'p' with binding 'p' denied request: .*{says}"):
        await written(server, a="1")
    await server.client.patch(
        core.MUTATING_POLICIES, "p", "", MergePatch({"spec": {"failurePolicy": "Ignore"}})
    )
    assert await written(server, a="1") == {}


APPLY = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (spec("[]", mutations=[APPLY]), 'patchType: Unsupported value: "ApplyConfiguration"'),
        (spec("[]", mutations=[]), "mutations must contain at least one item"),
        (spec("[]", mutations=[{"patchType": "JSONPatch"}]), "jsonPatch: Required value"),
        (spec(" "), "jsonPatch.expression: Required value"),
        (spec("'text'"), "must evaluate to list(JSONPatch) but got string"),
        (spec("[Object{x: 1}]"), "undeclared reference to 'Object'"),
        (spec("[JSONPatch{patch: 'x'}]"), "undefined field 'patch'"),
        (spec("[JSONPatch{op: 1}]"), "expected type of field 'op' is 'string' but provided type is 'int'"),
        (spec("[JSONPatch{}]", paramKind={"apiVersion": "v1", "kind": "ConfigMap"}), "has no parameters"),
        (spec("[JSONPatch{}]", reinvocationPolicy="Always"), 'Unsupported value: "Always"'),
        (spec("[JSONPatch{}]", reinvocationPolicy=None), "reinvocationPolicy: Required value"),
        (
            spec("[JSONPatch{}]", matchConstraints={"resourceRules": [{**RULE, "operations": ["DELETE"]}]}),
            'operations: Unsupported value: "DELETE"',
        ),
    ],
)
async def test_policies_that_are_not_served_are_refused_by_name(
    server: Embedded, said: dict[str, Any], says: str
) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await server.client.create(core.MUTATING_POLICIES, {"metadata": {"name": "p"}, "spec": said})
    assert says in str(caught.value)


async def test_bindings_that_are_not_served_are_refused_by_name(server: Embedded) -> None:
    for said, says in (
        ({"policyName": "p", "paramRef": {"name": "x"}}, "has no parameters"),
        ({}, "spec.policyName: Required value"),
        (
            {"policyName": "p", "matchResources": {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}},
            'operations: Unsupported value: "DELETE"',
        ),
    ):
        with pytest.raises(errors.Invalid) as caught:
            await server.client.create(core.MUTATING_BINDINGS, {"metadata": {"name": "p"}, "spec": said})
        assert says in str(caught.value)
