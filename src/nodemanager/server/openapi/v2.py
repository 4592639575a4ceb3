"""The OpenAPI v2 document: one for all groups, made from the parts of v3."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nodemanager.server.kinds import builtin_schemas
from nodemanager.server.kinds.schemas.notation import REF, Schema
from nodemanager.server.openapi.kinds import Published
from nodemanager.server.openapi.paths import paths_of

_V2_REF = "#/definitions/"
_NOT_IN_V2 = ("allOf", "oneOf", "anyOf", "not", "default")
_SECURITY = "BearerToken"


def document(kinds: Iterable[Published], version: str) -> dict[str, Any]:
    """Return the document that describes all these kinds."""
    served = list(kinds)
    paths = {
        path: _path(item, custom=kind.custom) for kind in served for path, item in paths_of(kind).items()
    }
    own = {name: schema for kind in served for name, schema in kind.own_definitions(v2=True).items()}
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": paths,
        "definitions": {name: _schema(schema) for name, schema in reachable(paths, own).items()},
        "securityDefinitions": {
            _SECURITY: {
                "description": "Bearer Token authentication",
                "type": "apiKey",
                "name": "authorization",
                "in": "header",
            }
        },
        "security": [{_SECURITY: []}],
    }


def reachable(paths: Any, own: dict[str, Schema]) -> dict[str, Schema]:
    """Return every definition that paths lead to, by name, in the order of names."""
    known = {**builtin_schemas.definitions(), **own}
    found: dict[str, Schema] = {}
    waiting = set(builtin_schemas.references(paths))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = known[name]
            waiting.update(builtin_schemas.references(known[name]))
    return dict(sorted(found.items()))


def _path(item: dict[str, Any], *, custom: bool) -> dict[str, Any]:
    parameters = [_parameter(parameter) for parameter in item["parameters"]]
    operations = {
        method: _operation(part, custom=custom) for method, part in item.items() if method != "parameters"
    }
    return {**operations, "parameters": parameters}


def _operation(part: dict[str, Any], *, custom: bool) -> dict[str, Any]:
    body = part.get("requestBody")
    given = [_parameter(parameter) for parameter in part.get("parameters", ())]
    produced = list(next(iter(part["responses"].values()))["content"])
    operation = {key: part[key] for key in ("description", "operationId", "tags")}
    operation |= {key: value for key, value in part.items() if key.startswith("x-")}
    operation |= {
        "consumes": list(body["content"]) if body else produced if custom else ["*/*"],
        "produces": produced,
        "schemes": ["https"],
        "parameters": [*([_body(body)] if body else []), *given],
        "responses": {code: _response(answer) for code, answer in part["responses"].items()},
    }
    return operation


def _body(body: dict[str, Any]) -> dict[str, Any]:
    content = next(iter(body["content"].values()))
    parameter = {"name": "body", "in": "body", "schema": _schema(content["schema"])}
    return {**parameter, "required": True} if body.get("required") else parameter


def _parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    flat = {key: value for key, value in parameter.items() if key != "schema"}
    return {**flat, **parameter["schema"]}


def _response(answer: dict[str, Any]) -> dict[str, Any]:
    described = {"description": answer["description"]}
    if "content" not in answer:
        return described
    return {**described, "schema": _schema(next(iter(answer["content"].values()))["schema"])}


def _schema(schema: Schema) -> Schema:
    """Return a schema in the words of v2, which has no alternatives; Kubernetes leaves out defaults, too."""
    found = {key: value for key, value in schema.items() if key not in _NOT_IN_V2}
    if "oneOf" in schema and "type" not in schema:
        found["type"] = "string"  # what kubectl takes a quantity or a port for
    target = schema.get("$ref") or next((part.get("$ref") for part in schema.get("allOf", ())), None)
    if target is not None:
        found["$ref"] = str(target).replace(REF, _V2_REF)
    if "properties" in schema:
        found["properties"] = {name: _schema(part) for name, part in schema["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            found[name] = _schema(schema[name])
    return found
