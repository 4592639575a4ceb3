"""Policies in a running server: at once, for as long as they are there, and no longer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from nodemanager.client.patches import MergePatch
from nodemanager.kube import errors
from nodemanager.kube.admission import policies
from nodemanager.kube.objects import Resource, Untyped
from nodemanager.server import bootstrap
from nodemanager.server.access.authz import Authorizer
from nodemanager.server.access.store_listers import StoredRoles
from nodemanager.server.admission.policies import Policies
from nodemanager.server.kinds import namespaces
from support import embedded
from support.embedded import Embedded

GROUP = "admissionregistration.k8s.io"
POLICIES: Resource[Untyped] = Resource(
    GROUP, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", dict, namespaced=False
)
BINDINGS: Resource[Untyped] = Resource(
    GROUP, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", dict,
    namespaced=False,
)  # fmt: skip
MAPS: Resource[Untyped] = Resource("", "v1", "ConfigMap", "configmaps", dict)
ALL = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
POLICY: dict[str, Any] = {
    "metadata": {"name": "p"},
    "spec": {"matchConstraints": {"resourceRules": [ALL]}, "validations": [{"expression": "false"}]},
}
BINDING = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
MAP = {"metadata": {"name": "x"}}


@pytest.fixture
async def server() -> AsyncIterator[Embedded]:
    async with embedded.serving() as running:
        running.hub.validation = (Policies(running.hub, Authorizer(StoredRoles(running.hub))),)
        yield running


async def test_a_policy_is_in_force_from_its_binding_to_its_end(server: Embedded) -> None:
    client = server.client
    await client.create(POLICIES, POLICY)
    await client.create(MAPS, MAP, "default")
    await client.create(BINDINGS, BINDING)
    with pytest.raises(errors.Invalid, match="ValidatingAdmissionPolicy 'p' with binding 'b' denied request"):
        await client.delete(MAPS, "x", "default")
    await client.patch(POLICIES, "p", "", MergePatch({"spec": {"validations": [{"expression": "true"}]}}))
    await client.delete(MAPS, "x", "default")
    await client.patch(POLICIES, "p", "", MergePatch({"spec": {"validations": [{"expression": "1 > 2"}]}}))
    with pytest.raises(errors.Invalid, match="failed expression: 1 > 2"):
        await client.create(MAPS, MAP, "default")
    await client.delete(BINDINGS, "b")
    await client.create(MAPS, MAP, "default")


async def test_a_policy_against_everything_can_be_taken_back(server: Embedded) -> None:
    await server.client.create(POLICIES, POLICY)
    await server.client.create(BINDINGS, BINDING)
    await bootstrap.ensure_defaults(server.hub)  # no policy may keep the server from starting
    await namespaces.ensure(server.hub, "more")
    await server.client.delete(POLICIES, "p")
    await server.client.create(MAPS, MAP, "default")


async def test_nothing_is_refused_half_way(server: Embedded) -> None:
    await server.client.create(POLICIES, POLICY)
    await server.client.create(BINDINGS, BINDING)
    before = server.store.revision
    for name in ("a", "b"):
        with pytest.raises(errors.Invalid):
            await server.client.create(MAPS, {"metadata": {"name": name}}, "default")
    assert server.store.revision == before


async def test_compiled_policies_are_kept_until_they_change(
    server: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    compile_policy = policies.compile_policy

    def counted(obj: Untyped) -> Any:
        compiled.append(obj["metadata"]["name"])
        return compile_policy(obj)

    monkeypatch.setattr(policies, "compile_policy", counted)
    server.hub.validation = (Policies(server.hub, Authorizer(StoredRoles(server.hub))),)
    spec = {**POLICY["spec"], "validations": [{"expression": "true"}]}
    for name in ("p", "q"):
        await server.client.create(POLICIES, {"metadata": {"name": name}, "spec": spec})
    await server.client.create(BINDINGS, BINDING)
    for number in range(5):
        await server.client.create(MAPS, {"metadata": {"name": f"x{number}"}}, "default")
    await server.client.patch(POLICIES, "q", "", MergePatch({"metadata": {"labels": {"a": "b"}}}))
    await server.client.create(MAPS, MAP, "default")
    assert compiled == ["p", "q", "q"]
