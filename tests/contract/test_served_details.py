"""Small things that clients notice; the same on the embedded API and on kube-apiserver."""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from support.either import GADGETS, Place
from support.server_process import session_of

SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(**version: Any) -> dict[str, Any]:
    """Return a kind of our own, with an old and a new version."""
    group = f"g{uuid.uuid4().hex[:8]}.test"
    crd = copy.deepcopy(GADGETS)
    crd["metadata"]["name"] = f"gadgets.{group}"
    crd["spec"]["group"] = group
    new = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    crd["spec"]["versions"] = [new, {**new, "name": "v1beta1", "storage": False, **version}]
    return crd


@pytest.fixture(name="http")
async def _http(place: Place) -> AsyncIterator[aiohttp.ClientSession]:
    async with session_of(place.kubeconfig) as http:
        yield http


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ({"deprecated": True}, "{group}/v1beta1 Gadget is deprecated; use {group}/v1 Gadget"),
        ({"deprecated": True, "deprecationWarning": 'use "v1" now'}, 'use \\"v1\\" now'),
        ({}, None),
    ],
)
async def test_a_deprecated_version_warns(
    place: Place, http: aiohttp.ClientSession, version: dict[str, Any], text: str | None
) -> None:
    crd = definition(**version)
    place.kubectl("apply", "-f", "-", stdin=json.dumps(crd))
    place.kubectl("wait", "--for=condition=Established", "crd", crd["metadata"]["name"])
    group = crd["spec"]["group"]
    path = f"/apis/{group}/v1beta1/namespaces/{place.namespace}/gadgets"
    body = {"apiVersion": f"{group}/v1beta1", "kind": "Gadget", "metadata": {"name": "a"}}
    wanted = [] if text is None else [f'299 - "{text.format(group=group)}"']
    try:
        calls: list[tuple[str, str, Any]] = [
            ("POST", path, body), ("GET", f"{path}/a", None), ("GET", path, None),
            ("GET", f"{path}?watch=true&timeoutSeconds=1", None), ("GET", f"{path}/none", None),
            ("DELETE", f"{path}/a", None),
        ]  # fmt: skip
        for method, target, sent in calls:
            async with http.request(method, target, json=sent) as response:
                await response.read()
                assert response.headers.getall("Warning", []) == wanted, (method, target)
        async with http.get(path.replace("v1beta1", "v1")) as response:
            assert "Warning" not in response.headers
    finally:
        place.kubectl("delete", "crd", crd["metadata"]["name"])


@pytest.mark.parametrize("form", [(), ("-o", "wide")])
def test_the_columns_of_definitions(place: Place, form: tuple[str, ...]) -> None:
    header = place.kubectl("get", "crd", *form).splitlines()[0]
    assert header.split("  ")[0] == "NAME"
    assert header.split() == ["NAME", "CREATED", "AT"]


@pytest.mark.parametrize(
    ("query", "agent", "pretty"),
    [
        ("?pretty=true", "x", True), ("?pretty=1", "x", True), ("?pretty=", "x", False), ("", "x", False),
        ("?pretty=false", "curl/8.0", False), ("", "curl/8.0", True), ("?pretty=maybe", "curl/8.0", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("path", "kind"),
    [("/namespaces/default", "Namespace"), ("/namespaces", "NamespaceList"), ("/namespaces/none", "Status"),
     ("", "APIResourceList")],
)  # fmt: skip
async def test_pretty(
    http: aiohttp.ClientSession, query: str, agent: str, pretty: bool, path: str, kind: str
) -> None:
    async with http.get(f"/api/v1{path}{query}", headers={"User-Agent": agent}) as response:
        text = await response.text()
    assert json.loads(text)["kind"] == kind
    assert text.startswith('{\n  "' if pretty else '{"')


async def test_protobuf_that_cannot_be_read_is_refused_without_its_bytes(
    place: Place, http: aiohttp.ClientSession
) -> None:
    path = f"/api/v1/namespaces/{place.namespace}/configmaps"
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    async with http.post(path, data=b"k8s\x00\xff\xff\x00\x01", headers=headers) as response:
        refused = await response.json()
    assert response.status == 400
    assert refused["message"].isprintable()


OURS = pytest.mark.parametrize("place", ["embedded"], indirect=True)


@OURS
@pytest.mark.parametrize(("kind", "path"), [("Pod", "namespaces/{}/pods"), ("Node", "nodes")])
async def test_protobuf_of_kinds_without_a_table_is_said_not_to_be_read(
    place: Place, http: aiohttp.ClientSession, kind: str, path: str
) -> None:
    meta = b"\x0a\x02v1\x12" + bytes([len(kind)]) + kind.encode()
    body = b"k8s\x00\x0a" + bytes([len(meta)]) + meta + b"\x12\x04\x0a\x02\x0a\x00"
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    async with http.post(f"/api/v1/{path.format(place.namespace)}", data=body, headers=headers) as response:
        refused = await response.json()
    assert response.status == 415
    assert f"protobuf of kind '{kind}' is not read by this server; send JSON" in refused["message"]


@OURS
@pytest.mark.parametrize(
    ("path", "name"),
    [("pods/a/log", "pods/log"), ("pods/a/exec", "pods/exec"), ("services", "services"),
     ("services/a/proxy", "services")],
)  # fmt: skip
async def test_what_is_not_served_is_named(
    place: Place, http: aiohttp.ClientSession, path: str, name: str
) -> None:
    async with http.get(f"/api/v1/namespaces/{place.namespace}/{path}") as response:
        refused = await response.json()
    assert response.status == 404
    text = f"the server could not find the requested resource: {name} is not served here"
    assert refused["message"] == text


@OURS
def test_a_subresource_that_is_not_served_is_refused(place: Place) -> None:
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    said = place.refused("apply", "-f", "-", stdin=json.dumps(definition(subresources={"scale": scale})))
    assert "spec.versions[1].subresources.scale: Forbidden: this server does not serve it" in said
