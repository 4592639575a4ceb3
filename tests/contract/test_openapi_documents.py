"""Our OpenAPI documents beside those of the real kube-apiserver: same facts, in our own words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from nodemanager.api import crds
from nodemanager.server.kinds import builtin_schemas
from nodemanager.server.kinds.crds import kinds_of
from nodemanager.server.openapi.documents import Documents
from nodemanager.server.openapi.http import OpenApiRequest, respond
from nodemanager.server.openapi.kinds import published
from support import openapi_judge
from support.apiserver import ApiServer
from support.openapi_stand_in import SERVED
from support.raw_api import RawApi

GVK = "x-kubernetes-group-version-kind"
NOT_OURS = {"shardSelector", "shardInfo"}  # an alpha feature that is off by default
PROTOBUF = "application/vnd.kubernetes.protobuf"
SIGNALS = "stopSignal"  # we list no signals, so we refuse none
ODD_SPEC = {
    "type": "object",
    "required": ["maybe", "color"],
    "properties": {
        "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
        "maybe": {
            "type": "object",
            "nullable": True,
            "properties": {"deep": {"type": "integer", "format": "int32", "minimum": 1}},
        },
        "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "free": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"known": {"type": "string"}},
        },
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"spec": {"type": "object"}},
        },
        "anything": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "entries": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {"id": {"type": "string"}, "value": {"type": "number"}},
            },
        },
        "sizes": {"type": "object", "additionalProperties": {"type": "integer", "nullable": True}},
        "loose": {
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    },
    "oneOf": [{"required": ["port"]}, {"required": ["free"]}],
    "x-kubernetes-validations": [{"rule": "has(self.color)", "message": "color"}],
}
ODD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "oddities.openapi-test.example.com"},
    "spec": {
        "group": "openapi-test.example.com",
        "names": {"kind": "Oddity", "plural": "oddities", "listKind": "OddityList", "singular": "oddity"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {"spec": ODD_SPEC},
                    }
                },
            },
            {
                "name": "v1alpha1",
                "served": True,
                "storage": False,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            },
        ],
    },
}
OURS = [*SERVED, *map(published, kinds_of(ODD))]
OUR_DOCUMENTS = Documents(OURS)
PATHS = sorted({kind.group_path for kind in OURS})


@pytest.fixture(scope="module")
def api(kube: ApiServer) -> Iterator[RawApi]:
    """The real server, with our definitions and an odd one, and their documents published."""
    openapi_judge.publish(kube, [*crds.all_crds(), ODD])
    connection = RawApi(kube)
    yield connection
    connection.close()


def ours(path: str) -> dict[str, Any]:
    document = OUR_DOCUMENTS.v3(path)
    assert document is not None
    body: dict[str, Any] = json.loads(document.body)
    return body


def facts(schema: Any) -> Any:
    """Return a schema without words, without the zero values that Go writes as defaults, in one order."""
    if isinstance(schema, list):
        return [facts(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            kept[key] = {name: facts(part) for name, part in value.items() if name not in NOT_OURS}
            kept[key].get(SIGNALS, {}).pop("enum", None)
        elif key == "required" and isinstance(value, list):
            kept[key] = sorted(value)
        elif key not in ("description", "x-kubernetes-unions") and (key, value) not in EMPTY:
            kept[key] = facts(value)
    target = kept.pop("allOf", None)
    return {**kept, **target[0]} if target else kept


EMPTY: list[tuple[str, Any]] = [("default", ""), ("default", {}), ("default", 0), ("default", False)]


@pytest.mark.parametrize("path", PATHS)
def test_v3_definitions_state_the_same_facts(path: str, api: RawApi) -> None:
    expected = openapi_judge.document(api, f"/openapi/v3/{path}")["components"]["schemas"]
    found = ours(path)["components"]["schemas"]
    for name, schema in found.items():
        mine, real = facts(schema), facts(expected[name])
        if name.endswith((".DeleteOptions", ".WatchEvent")):
            mine.pop(GVK), real.pop(GVK)  # the real one lists every group that has one
        assert mine == real, name
    assert len(found) > 10


def operations(document: dict[str, Any]) -> dict[tuple[str, str], Any]:
    found = {}
    for path, item in document["paths"].items():
        shared = [parameter["name"] for parameter in item.get("parameters", ())]
        for method, operation in item.items():
            if method == "parameters":
                continue
            own = [parameter["name"] for parameter in operation.get("parameters", ())]
            body = operation.get("requestBody", {})
            found[path, method] = {
                **{key: operation.get(key) for key in ("operationId", "tags", "description", GVK)},
                "action": operation.get("x-kubernetes-action"),
                "parameters": [name for name in shared if name not in NOT_OURS],
                "own": [name for name in own if name not in NOT_OURS],
                "body": (body.get("required"), body.get("content")),
                "responses": {code: media(answer) for code, answer in operation["responses"].items()},
            }
    return found


def media(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in answer.get("content", {}).items() if PROTOBUF not in name}


@pytest.mark.parametrize("path", PATHS)
def test_v3_operations_are_the_same(path: str, api: RawApi) -> None:
    expected = operations(openapi_judge.document(api, f"/openapi/v3/{path}"))
    found = operations(ours(path))
    assert found == {key: expected[key] for key in found}
    assert found


def test_every_builtin_definition_is_a_real_one(api: RawApi) -> None:
    real = openapi_judge.document(api, "/openapi/v2")["definitions"]
    unknown = set(builtin_schemas.definitions()) - set(real)
    assert unknown <= {"io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"}


def test_v2_definitions_state_the_same_facts(api: RawApi) -> None:
    expected = openapi_judge.document(api, "/openapi/v2")["definitions"]
    found = json.loads(OUR_DOCUMENTS.v2().body)["definitions"]
    for name, schema in found.items():
        mine, real = facts(schema), facts(expected[name])
        mine.pop(GVK, None), real.pop(GVK, None)
        assert mine == real, name
    assert len(found) > 200


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("/openapi/v2", ""),
        ("/openapi/v2", "application/yaml"),
        ("/openapi/v2", "application/json;as=x"),
        ("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
        ("/openapi/v3", "text/plain"),
        ("/openapi/v3/apis/coordination.k8s.io/v1", ""),
        ("/openapi/v3/apis/coordination.k8s.io/v1", "text/plain"),
        ("/openapi/v3/apis/coordination.k8s.io/v1", "text/plain, */*"),
        ("/openapi/v3/apis/coordination.k8s.io/v1", "application/yaml, application/*;q=0.5"),
        ("/openapi/v3/apis/none.example.com/v1", ""),
        ("/openapi/v3/apis/coordination.k8s.io/v1?hash=OLD", ""),
    ],
)
def test_questions_are_answered_alike(path: str, accept: str, kube: ApiServer) -> None:
    bare, _, query = path.partition("?hash=")
    reply = respond(OUR_DOCUMENTS, OpenApiRequest(bare, query, accept), datetime.now(UTC))
    code, headers = ask_headers(kube, path, accept)
    assert reply.status == code
    for name in ("Content-Type", "Vary"):
        assert reply.headers.get(name) == headers.get(name) or code == 301
    for name in ("ETag", "Location"):
        assert (name in reply.headers) == (name in headers)


def ask_headers(kube: ApiServer, path: str, accept: str) -> tuple[int, dict[str, str]]:
    api = RawApi(kube)
    try:
        connection = api._connection
        connection.request("GET", path, headers={"Accept": accept} if accept else {})
        response = connection.getresponse()
        response.read()
        names = ("Content-Type", "Vary", "ETag", "Location")
        found = {name: response.headers.get_all(name, []) for name in names}
        # Whether answers are compressed is another layer's business, and has a Vary of its own.
        kept = {name: [one for one in given if one != "Accept-Encoding"] for name, given in found.items()}
        return response.status, {name: given[0] for name, given in kept.items() if given}
    finally:
        api.close()
