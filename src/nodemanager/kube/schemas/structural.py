"""The schema of a CustomResourceDefinition, compiled once and then walked for every object.

`compile_schema` expects what `checks.check_schema` let pass. Nodes are immutable and may be
shared between requests; what can be decided about a whole subtree is decided at compile time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nodemanager.kube.schemas import patterns
from nodemanager.kube.schemas.formats import STRING_FORMATS

_MAX_BOUND = 2.0**53
NUMBER_FORMATS = {"integer": ("int32", "int64"), "number": ("float", "double")}


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a number must obey."""

    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | None = None

    def surely_hold(self, value: int) -> bool:
        """Tell quickly that an integer is well within; False only means that one must look closer."""
        low, high = self.minimum, self.maximum
        return (
            self.multiple_of is None
            and (low is None or (value > low and low.is_integer() and low > -_MAX_BOUND))
            and (high is None or (value < high and high.is_integer() and high < _MAX_BOUND))
        )


@dataclass(frozen=True, slots=True)
class Texts:
    """What a string must obey."""

    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    matcher: patterns.Matcher | None = None


@dataclass(frozen=True, slots=True)
class Junctors:
    """Schemas that hold only in combination."""

    all_of: tuple[Structural, ...] = ()
    any_of: tuple[Structural, ...] = ()
    one_of: tuple[Structural, ...] = ()
    not_: Structural | None = None


@dataclass(frozen=True, slots=True)
class Structural:
    """One node of a compiled schema."""

    type: str = ""
    types: tuple[str, ...] = ()
    """What `type` stands for in validation: int-or-string is two types."""
    format: str = ""
    """Empty where Kubernetes ignores the format that was written."""
    nullable: bool = False
    default: Any = None
    enum: tuple[Any, ...] = ()
    numbers: Numbers | None = None
    texts: Texts | None = None
    min_items: int | None = None
    max_items: int | None = None
    unique_items: bool = False
    min_properties: int | None = None
    max_properties: int | None = None
    required: tuple[str, ...] = ()
    properties: Mapping[str, Structural] = field(default_factory=dict)
    items: Structural | None = None
    open: bool | None = None
    """`additionalProperties` as a boolean, None where it was not written."""
    additional: Structural | None = None
    preserve_unknown: bool = False
    embedded: bool = False
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    junctors: Junctors | None = None
    rules: tuple[Mapping[str, Any], ...] = ()
    """`x-kubernetes-validations`, for the evaluator of CEL."""
    defaulted: tuple[tuple[str, Any], ...] = ()
    """The properties that have a default, and that default."""
    keyed: bool = False
    """Whether a list of type set or map occurs here or below."""
    embeds: bool = False
    """Whether an embedded resource occurs here or below."""


def compile_schema(schema: Mapping[str, Any]) -> Structural:
    """Return the compiled form of an OpenAPI v3 schema as a CustomResourceDefinition has it."""
    properties = {name: compile_schema(sub) for name, sub in (schema.get("properties") or {}).items()}
    items = compile_schema(schema["items"]) if schema.get("items") else None
    open_, additional = _additional(schema.get("additionalProperties"))
    list_type = schema.get("x-kubernetes-list-type") or ""
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    below = [*properties.values(), *(node for node in (items, additional) if node)]
    types = _types(schema)
    return Structural(
        type=schema.get("type") or "",
        types=types,
        format=_format(schema, types),
        nullable=bool(schema.get("nullable")),
        default=schema.get("default"),
        enum=tuple(schema.get("enum") or ()),
        numbers=_numbers(schema),
        texts=_texts(schema),
        **_sizes(schema),
        required=tuple(schema.get("required") or ()),
        properties=properties,
        items=items,
        open=open_,
        additional=additional,
        preserve_unknown=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
        embedded=embedded,
        list_type=list_type,
        list_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        junctors=_junctors(schema),
        rules=tuple(schema.get("x-kubernetes-validations") or ()),
        defaulted=tuple((name, sub.default) for name, sub in properties.items() if sub.default is not None),
        keyed=list_type in ("set", "map") or any(node.keyed for node in below),
        embeds=embedded or any(node.embeds for node in below),
    )


def _sizes(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "min_items": schema.get("minItems"),
        "max_items": schema.get("maxItems"),
        "unique_items": bool(schema.get("uniqueItems")),
        "min_properties": schema.get("minProperties"),
        "max_properties": schema.get("maxProperties"),
    }


def _additional(written: object) -> tuple[bool | None, Structural | None]:
    if written is None:
        return None, None
    if isinstance(written, Mapping):
        return True, compile_schema(written)
    return bool(written), None


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _format(schema: Mapping[str, Any], types: tuple[str, ...]) -> str:
    written: str = schema.get("format") or ""
    if types != ("string",) and len(types) == 1:
        return written if written in NUMBER_FORMATS.get(types[0], ()) else ""
    return written if written.replace("-", "") in STRING_FORMATS else ""


def _numbers(schema: Mapping[str, Any]) -> Numbers | None:
    if not any(schema.get(name) is not None for name in ("minimum", "maximum", "multipleOf")):
        return None
    return Numbers(
        minimum=_float(schema.get("minimum")),
        maximum=_float(schema.get("maximum")),
        exclusive_minimum=bool(schema.get("exclusiveMinimum")),
        exclusive_maximum=bool(schema.get("exclusiveMaximum")),
        multiple_of=_float(schema.get("multipleOf")),
    )


def _float(written: float | None) -> float | None:
    # Kubernetes keeps all bounds as float64, and loses the same digits of large integers.
    return None if written is None else float(written)


def _texts(schema: Mapping[str, Any]) -> Texts | None:
    pattern = schema.get("pattern") or ""
    texts = Texts(
        min_length=schema.get("minLength"),
        max_length=schema.get("maxLength"),
        pattern=pattern,
        matcher=patterns.compile_pattern(pattern) if pattern else None,
    )
    return None if texts == Texts() else texts


def _junctors(schema: Mapping[str, Any]) -> Junctors | None:
    junctors = Junctors(
        all_of=tuple(compile_schema(sub) for sub in schema.get("allOf") or ()),
        any_of=tuple(compile_schema(sub) for sub in schema.get("anyOf") or ()),
        one_of=tuple(compile_schema(sub) for sub in schema.get("oneOf") or ()),
        not_=compile_schema(schema["not"]) if schema.get("not") is not None else None,
    )
    return None if junctors == Junctors() else junctors


def walk(node: Structural) -> Iterator[Structural]:
    """Yield a node and everything below it that describes a value, parents first."""
    yield node
    for sub in (*node.properties.values(), node.items, node.additional):
        if sub is not None:
            yield from walk(sub)
