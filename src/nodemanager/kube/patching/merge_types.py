"""What an OpenAPI schema says about merging: which lists are maps or sets, and what is one whole.

Without hints, lists are one whole (atomic) and maps are merged key by key (granular).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any]

SCALAR = "x-nodemanager-scalar"
"""Our mark in the schemas of built-in kinds: a value of several types, but never a list or a map."""
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_STRING: Schema = {"type": "string"}
_STRINGS: Schema = {"type": "object", "additionalProperties": _STRING}
_OWNER: Schema = {
    "type": "object",
    "x-kubernetes-map-type": "atomic",
    "properties": {name: {**_STRING, "default": ""} for name in ("apiVersion", "kind", "name", "uid")}
    | {name: {"type": "boolean"} for name in ("blockOwnerDeletion", "controller")},
}
OBJECT_META: Schema = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("generateName", "name", "namespace", "resourceVersion", "selfLink", "uid"), _STRING),
        **{name: {"type": "integer"} for name in ("deletionGracePeriodSeconds", "generation")},
        **{name: {"type": "string"} for name in ("creationTimestamp", "deletionTimestamp")},
        **dict.fromkeys(("annotations", "labels"), _STRINGS),
        "finalizers": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set"},
        "managedFields": {
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "x-kubernetes-list-type": "atomic",
        },
        "ownerReferences": {
            "type": "array",
            "items": _OWNER,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
        },
    },
}
"""How `metadata` merges, whatever the kind."""


@dataclass(frozen=True, slots=True)
class ListRules:
    """How a list merges: by keys, as a set (associative without keys), or not at all."""

    associative: bool
    keys: tuple[str, ...]
    items: MergeType


@dataclass(frozen=True, slots=True)
class MapRules:
    """How a map merges, and the types of its values; `rest` is for keys that are not declared."""

    atomic: bool
    fields: Mapping[str, MergeType]
    rest: MergeType | None

    def type_of(self, name: str) -> MergeType | None:
        """Return the type of one value, or nothing when the schema does not allow it."""
        return self.fields.get(name, self.rest)


@dataclass(frozen=True, slots=True)
class Rules:
    """The forms that a value may take: at least one of them."""

    scalar: str = ""
    list: ListRules | None = None
    map: MapRules | None = None

    def form_of(self, value: Any) -> str:
        """Return which form a value takes, or "" if null or a wrong type leaves that open."""
        if not self.scalar:
            if not (self.map and self.list):
                return "map" if self.map else "list"
        elif not (self.map or self.list):
            return "scalar"
        if isinstance(value, dict):
            return "map" if self.map else ""
        if isinstance(value, list):
            return "list" if self.list else ""
        return "scalar" if self.scalar and isinstance(value, str | int | float) else ""

    @property
    def first_form(self) -> str:
        """The form that is taken where a value leaves it open."""
        return "map" if self.map else "scalar" if self.scalar else "list"


class MergeType:
    """A schema and the definitions it refers to, read only as deep as a value goes."""

    __slots__ = ("_definitions", "_preserving", "_rules", "_schema")

    def __init__(
        self, schema: Schema, definitions: Mapping[str, Schema] | None = None, *, preserving: bool = False
    ) -> None:
        self._schema = schema
        self._definitions = definitions or {}
        self._preserving = preserving
        self._rules: Rules | None = None

    @property
    def rules(self) -> Rules:
        """How values of this type merge."""
        if self._rules is None:
            self._rules = self._read()
        return self._rules

    @property
    def default(self) -> Any:
        """The value of the field if it is not set; also the value of a missing key in a list item."""
        return self._schema.get("default")

    @property
    def is_open(self) -> bool:
        """Whether any value is allowed, and nothing is known about its inside."""
        return self.rules.scalar == "untyped" and "$ref" not in self._schema

    def zero(self) -> dict[str, Any]:
        """Return the content of a new object of a built-in kind before any field is set.

        Go's structs are there from the start, which their schema shows as `default: {}`.
        """
        schema, _ = self._resolved()
        required = schema.get("required", ())
        found: dict[str, Any] = {}
        for name, inner in (self.rules.map.fields if self.rules.map else {}).items():
            if inner.default == {}:
                found[name] = inner.zero()
            elif name in required:
                found[name] = inner.default
        return found

    def _child(self, schema: Schema, *, preserving: bool) -> MergeType:
        return MergeType(schema, self._definitions, preserving=preserving)

    def _read(self) -> Rules:
        schema, name = self._resolved()
        if name == _QUANTITY or SCALAR in schema:
            return Rules(scalar="untyped")
        if name == _RAW_EXTENSION:
            return UNTYPED.rules
        kind = schema.get("type", "")
        preserving = self._preserving or schema.get("x-kubernetes-preserve-unknown-fields") is True
        if kind == "object":
            return Rules(map=self._map(schema, preserving))
        if kind == "array":
            return Rules(list=self._list(schema, preserving))
        if not kind:
            return Rules("untyped", self._list(schema, preserving), self._map(schema, preserving))
        scalar = {"integer": "numeric", "number": "numeric", "boolean": "boolean"}.get(kind, "string")
        return Rules(scalar="untyped" if scalar == "string" and _is_special(schema) else scalar)

    def _resolved(self) -> tuple[Schema, str]:
        """Follow a reference; what stands next to it may still say that the map is atomic."""
        reference = self._schema.get("$ref", "")
        alternatives = self._schema.get("allOf", [])
        if not reference and len(alternatives) == 1:
            reference = alternatives[0].get("$ref", "")
        if not reference:
            return self._schema, ""
        name = reference.rpartition("/")[2]
        target = self._definitions.get(name, {})
        how = self._schema.get("x-kubernetes-map-type")
        return ({**target, "x-kubernetes-map-type": how} if how else target), name

    def _list(self, schema: Schema, preserving: bool) -> ListRules:
        how = schema.get("x-kubernetes-list-type", "")
        keys: list[str] = schema.get("x-kubernetes-list-map-keys", []) if how == "map" else []
        if not how and "merge" in schema.get("x-kubernetes-patch-strategy", "").split(","):
            how = "set"
            if merge_key := schema.get("x-kubernetes-patch-merge-key"):
                keys = [merge_key]
        items = schema.get("items")
        inner = UNTYPED if items is None else self._child(items, preserving=preserving)
        return ListRules(how in ("map", "set"), tuple(keys), inner)

    def _map(self, schema: Schema, preserving: bool) -> MapRules:
        declared = dict(schema.get("properties", {}))
        if schema.get("x-kubernetes-embedded-resource") is True:
            declared |= {"apiVersion": _STRING, "kind": _STRING, "metadata": OBJECT_META}
        fields = {name: self._child(inner, preserving=preserving) for name, inner in declared.items()}
        if schema.get("x-kubernetes-embedded-resource") is True:
            fields["metadata"] = self._child(OBJECT_META, preserving=False)
        more = schema.get("additionalProperties")
        rest: MergeType | None = None
        if isinstance(more, Mapping):
            rest = self._child(more, preserving=preserving)
        elif more is True or (more is None and (preserving or not declared)):
            rest = DEDUCED
        return MapRules(schema.get("x-kubernetes-map-type") == "atomic", fields, rest)


def _is_special(schema: Schema) -> bool:
    """Whether a string may also be something else (int-or-string), or has a form of its own."""
    return schema.get("format", "") not in ("", "byte")


class _Untyped(MergeType):
    """A type that knows nothing: `granular` says whether its maps merge key by key."""

    __slots__ = ("_granular",)

    def __init__(self, *, granular: bool) -> None:
        super().__init__({})
        self._granular = granular

    def _read(self) -> Rules:
        whole = ListRules(associative=False, keys=(), items=UNTYPED)
        inner = DEDUCED if self._granular else UNTYPED
        return Rules("untyped", whole, MapRules(not self._granular, {}, inner))

    @property
    def is_open(self) -> bool:
        return self._granular


UNTYPED: MergeType = _Untyped(granular=False)
"""Any value, always replaced as a whole."""
DEDUCED: MergeType = _Untyped(granular=True)
"""Any value; maps merge key by key."""


def object_type(schema: Schema | None, definitions: Mapping[str, Schema] | None = None) -> MergeType:
    """Return the type of a whole object from its schema, with `metadata` as Kubernetes defines it.

    `definitions` are what `$ref` names by its last segment (`components.schemas` of OpenAPI v3).
    """
    root = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    own = {"apiVersion": _STRING, "kind": _STRING, "metadata": OBJECT_META}
    return MergeType({**root, "properties": {**root.get("properties", {}), **own}}, definitions)
