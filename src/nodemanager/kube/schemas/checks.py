"""Whether a CustomResourceDefinition's schema can be served, and if not, why.

A schema must be structural: every value has a type, and what `allOf`, `anyOf`, `oneOf` and `not`
say about a value only restricts what was specified outside of them. The rest of the rules is in
`restrictions`; defaults must obey the schema that they are in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nodemanager.kube.errors import Cause
from nodemanager.kube.go.regex_syntax import RegexError
from nodemanager.kube.json_values import copy_of
from nodemanager.kube.schemas import patterns, pruning, restrictions, validation
from nodemanager.kube.schemas.embedded import embedded_faults
from nodemanager.kube.schemas.faults import forbidden, invalid, required
from nodemanager.kube.schemas.ratcheting import equal
from nodemanager.kube.schemas.structural import Structural, compile_schema

Schema = Mapping[str, Any]

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_EMPTY_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_NOT_NESTED = {
    "type": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_INT_OR_STRING_CONFLICTS = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
_METADATA_RULE = (
    "must not specify anything other than name and generateName, but metadata is implicitly specified"
)


def check_schema(schema: Schema, at: str = "spec.validation.openAPIV3Schema") -> list[Cause]:
    """Return why a schema is refused; `at` is the field it is in."""
    malformed = list(restrictions.malformed(schema, at))
    if malformed:
        return malformed
    causes = (
        [forbidden(f"{at}.nullable", "nullable cannot be true at the root")] if schema.get("nullable") else []
    )
    if not restrictions.is_unsupported(schema):
        found = [*_invariants(schema, "root", at), *_completeness(schema, schema, at, at)]
        found.sort(key=lambda cause: f"{cause.field}: {cause.message}")
        causes += found or _default_faults(compile_schema(_loosened(schema)), at, embedded=True)
    causes += restrictions.rule_faults(schema, at)
    if not causes and schema.get("$schema"):
        causes.append(invalid(at, "", "OpenAPIV3Schema 'schema' is not supported"))
    return causes


def _invariants(schema: Schema, level: str, path: str) -> Iterator[Cause]:
    if schema.get("type") == "array" and not _given(schema, "items"):
        yield required(f"{path}.items", "must be specified")
    if _given(schema, "items"):
        yield from _invariants(schema["items"], "item", f"{path}.items")
    for name, sub in (schema.get("properties") or {}).items():
        yield from _invariants(sub, "field", f"{path}.properties[{name}]")
    additional = schema.get("additionalProperties")
    if additional is not None and level == "root":
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(additional, Mapping):
        yield from _invariants(additional, "field", f"{path}.additionalProperties")
    if schema.get("x-kubernetes-int-or-string"):
        for name in _INT_OR_STRING_CONFLICTS:
            if schema.get(name):
                yield invalid(f"{path}.{name}", True, "must be false if x-kubernetes-int-or-string is true")
    yield from _junctors(schema, level, path, top=True)
    yield from _type_faults(schema, level, path)
    yield from _resource_faults(schema, level, path)


def _type_faults(schema: Schema, level: str, path: str) -> Iterator[Cause]:
    written = schema.get("type") or ""
    if schema.get("x-kubernetes-embedded-resource") and written != "object":
        rule = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{path}.type", written, rule) if written else required(f"{path}.type", rule)
    elif not written and not (
        schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    ):
        yield required(f"{path}.type", _EMPTY_TYPE[level])
    if level == "root" and written and written != "object":
        yield invalid(f"{path}.type", written, "must be object at the root")


def _resource_faults(schema: Schema, level: str, path: str) -> Iterator[Cause]:
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    properties = schema.get("properties") or {}
    if embedded and schema.get("additionalProperties") is not None:
        rule = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(f"{path}.additionalProperties", rule)
    if embedded or level == "root":
        for name, expected in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
            if name in properties and (written := properties[name].get("type") or "") != expected:
                yield invalid(f"{path}.properties[{name}].type", written, f"must be {expected}")
    if level == "root" and "metadata" in properties and not _is_plain_metadata(properties["metadata"]):
        yield forbidden(f"{path}.properties[metadata]", _METADATA_RULE)
    if embedded and not properties and not schema.get("x-kubernetes-preserve-unknown-fields"):
        rule = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", rule)


def _is_plain_metadata(schema: Schema) -> bool:
    names = set(schema.get("properties") or ())
    others = {key for key, value in schema.items() if value not in (None, "", False, [], {})}
    return names <= {"name", "generateName"} and others <= {"type", "properties", "default"}


def _junctors(schema: Schema, level: str, path: str, *, top: bool, skip_any: bool = False) -> Iterator[Cause]:
    any_of, all_of = schema.get("anyOf") or [], schema.get("allOf") or []
    if not skip_any and not (top and any_of == _INT_OR_STRING):
        for index, sub in enumerate(any_of):
            yield from _nested(sub, level, f"{path}.anyOf[{index}]")
    for index, sub in enumerate(all_of):
        skip = top and index == 0 and sub.get("anyOf") == _INT_OR_STRING
        yield from _nested(sub, level, f"{path}.allOf[{index}]", skip_any=skip)
    for index, sub in enumerate(schema.get("oneOf") or []):
        yield from _nested(sub, level, f"{path}.oneOf[{index}]")
    if _given(schema, "not"):
        yield from _nested(schema["not"], level, f"{path}.not")
    if pattern := schema.get("pattern"):
        try:
            patterns.compile_pattern(pattern)
        except RegexError as error:
            rule = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", pattern, rule)


def _nested(schema: Schema, level: str, path: str, *, skip_any: bool = False) -> Iterator[Cause]:
    yield from _junctors(schema, level, path, top=False, skip_any=skip_any)
    if _given(schema, "items"):
        yield from _nested(schema["items"], level, f"{path}.items")
    properties = schema.get("properties") or {}
    for name, sub in properties.items():
        yield from _nested(sub, "field", f"{path}.properties[{name}]")
    if schema.get("additionalProperties") not in (None, False):
        yield forbidden(f"{path}.additionalProperties", "must be undefined to be structural")
    for name, rule in _NOT_NESTED.items():
        if schema.get(name) or (name == "default" and schema.get(name) is not None):
            yield forbidden(f"{path}.{name}", rule)
    if "metadata" in properties:
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _completeness(schema: Schema, base: Schema | None, base_path: str, path: str) -> Iterator[Cause]:
    """Find values that a junctor restricts although they are not specified."""
    if base is None:
        yield required(base_path, f"because it is defined in {path}")
        return
    for name in ("allOf", "anyOf", "oneOf"):
        for index, sub in enumerate(schema.get(name) or []):
            yield from _nested_completeness(sub, base, base_path, f"{path}.{name}[{index}]")
    if _given(schema, "not"):
        yield from _nested_completeness(schema["not"], base, base_path, f"{path}.not")


def _nested_completeness(schema: Schema, base: Schema, base_path: str, path: str) -> Iterator[Cause]:
    yield from _completeness(schema, base, base_path, path)
    if _given(schema, "items"):
        if _given(base, "items"):
            below = base["items"]
            yield from _nested_completeness(schema["items"], below, f"{base_path}.items", f"{path}.items")
        else:
            yield required(f"{base_path}.items", f"because it is defined in {path}.items")
    known = base.get("properties") or {}
    for name, sub in (schema.get("properties") or {}).items():
        step = f"properties[{name}]"
        if name in known:
            yield from _nested_completeness(sub, known[name], f"{base_path}.{step}", f"{path}.{step}")
        else:
            yield required(f"{base_path}.{step}", f"because it is defined in {path}.{step}")


def _given(schema: Schema, name: str) -> bool:
    return schema.get(name) is not None


def _loosened(schema: Schema) -> Schema:
    """Return the schema as Kubernetes checks defaults with it: int-or-string is anything there."""
    loose = {name: item for name, item in schema.items() if name != "x-kubernetes-int-or-string"}
    for name in ("items", "additionalProperties", "not"):
        if isinstance(loose.get(name), Mapping):
            loose[name] = _loosened(loose[name])
    if loose.get("properties"):
        loose["properties"] = {name: _loosened(sub) for name, sub in loose["properties"].items()}
    return loose


def _default_faults(node: Structural, path: str, *, embedded: bool) -> list[Cause]:
    """Check every default against the part of the schema that it is for."""
    causes: list[Cause] = []
    if node.default is not None:
        pruned, default = copy_of(node.default), copy_of(node.default)
        pruning.prune_value(pruned, node)
        pruning.reduce_embedded(default, node)
        if not equal(pruned, node.default):
            causes.append(invalid(f"{path}.default", default, "must not have unknown fields"))
        field = f"{path}.default"
        causes += embedded_faults(default, node, field) or validation.schema_faults(default, node, at=field)
    if node.items is not None:
        causes += _default_faults(node.items, f"{path}.items", embedded=node.items.embedded)
    for name, sub in node.properties.items():
        if embedded and name in pruning.META_FIELDS:
            continue  # Defaults of the root's metadata are forbidden altogether.
        causes += _default_faults(sub, f"{path}.properties[{name}]", embedded=sub.embedded)
    return causes
