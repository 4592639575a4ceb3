"""JSON schemas of our kinds, as editors read them: from the same types as the CRDs."""

from __future__ import annotations

import re
from typing import Any, Final

from nodemanager.api import kinds
from nodemanager.api.kind_parts import KindEntry
from nodemanager.kube.schemas import derivation

Schema = dict[str, Any]
DRAFT: Final = "http://json-schema.org/draft-07/schema#"
ALL: Final = "all.json"
"""The name of the schema for files that may hold any kind."""
_GO_ESCAPE: Final = re.compile(r"\\x\{([0-9a-fA-F]{4})\}")
_METADATA: Final[Schema] = {
    "type": "object",
    "description": "Name, namespace, labels and annotations.",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "maxLength": 253},
        "namespace": {"type": "string", "maxLength": 63},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def files() -> dict[str, Schema]:
    """Return a schema for each kind and one for all of them, by file name."""
    each = {f"{one.singular}.json": of_kind(one) for one in kinds.BY_NAME}
    return {**each, ALL: everything()}


def of_kind(kind: KindEntry) -> Schema:
    """Return the schema of one kind."""
    resource = kind.resource
    body = _plain(derivation.of_kind(resource.type))
    names = {"apiVersion": {"const": resource.api_version}, "kind": {"const": resource.kind}}
    body["properties"] |= {**names, "metadata": _METADATA}
    required = [*names, "metadata", *body.get("required", [])]
    return {"$schema": DRAFT, "title": resource.kind, **body, "required": required}


def everything() -> Schema:
    """Return one schema for all our kinds; of others it says nothing."""
    cases = []
    for one in kinds.BY_NAME:
        chosen = {"apiVersion": {"const": one.resource.api_version}, "kind": {"const": one.resource.kind}}
        body = {key: value for key, value in of_kind(one).items() if key != "$schema"}
        cases.append({"if": {"properties": chosen, "required": ["apiVersion", "kind"]}, "then": body})
    return {"$schema": DRAFT, "title": "nodemanager", "type": "object", "allOf": cases}


def _plain(schema: Schema) -> Schema:
    """Return a structural schema without the words of Kubernetes, which editors do not know."""
    made = {key: value for key, value in schema.items() if not key.startswith("x-") and key != "nullable"}
    if "pattern" in made:
        made["pattern"] = _GO_ESCAPE.sub(r"\\u\1", made["pattern"])
    if "properties" in made:
        made["properties"] = {name: _plain(inner) for name, inner in made["properties"].items()}
        made["additionalProperties"] = False  # a misspelt field is what editors are to point at
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = _plain(made[key])
    if schema.get("nullable"):
        made["type"] = [made["type"], "null"]
    return made
