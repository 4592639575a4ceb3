"""Types -> structural schema: the rules Kubernetes sets, and that hints and types agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import msgspec
import pytest

from nodemanager.api import kinds
from nodemanager.kube.hints import REQUIRED, Rule, meta
from nodemanager.kube.objects import Struct
from nodemanager.kube.schemas import derivation

KINDS = [pytest.param(kind.resource.type, id=kind.resource.kind) for kind in kinds.BY_NAME]


class Part(Struct):
    """A part of something.

    Only the first paragraph is for users.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (Rule("self.size > 0", "size must be given", ".size"),)

    name: Annotated[str, meta("Its name.", required=True, max_length=5)] = ""
    size: Annotated[int, meta("Its size.", format="int32", default=3, minimum=0)] = 3
    since: Annotated[str | None, meta("Since when.", format="date-time", nullable=True)] = None


class Whole(Struct):
    """Something."""

    parts: Annotated[list[Part], meta("Its parts.", list_map_keys=("name",), max_items=7)] = []
    table: Annotated[dict[str, Part], meta("By name.", max_properties=2)] = {}
    one: Annotated[Part | None, meta("The one.", atomic=True)] = None
    flag: Annotated[bool | None, meta("Yes, no, or nothing.")] = None
    kind: Annotated[str, meta("Which.", enum=("a", "b"), pattern="^.$")] = ""
    odd_name: Annotated[
        list[Annotated[str, meta("A path.", Rule("self != ''", "not empty"))]], meta("Paths.")
    ] = msgspec.field(default_factory=list, name="odd_name")
    count: int = 0


PART = {
    "description": "A part of something.",
    "type": "object",
    "properties": {
        "name": {"description": "Its name.", "type": "string", "maxLength": 5},
        "size": {
            "description": "Its size.",
            "type": "integer",
            "format": "int32",
            "default": 3,
            "minimum": 0,
        },
        "since": {"description": "Since when.", "type": "string", "format": "date-time", "nullable": True},
    },
    "required": ["name"],
    "x-kubernetes-validations": [
        {"rule": "self.size > 0", "message": "size must be given", "fieldPath": ".size"}
    ],
}


def of_type(python_type: Any) -> Any:
    """Return the schema of any type; kinds have more, which is always the same."""
    return derivation._convert(msgspec.inspect.type_info(python_type))


def test_a_type_becomes_a_schema() -> None:
    assert of_type(Whole) == {
        "description": "Something.",
        "type": "object",
        "properties": {
            "parts": {
                "description": "Its parts.",
                "type": "array",
                "items": PART,
                "maxItems": 7,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "table": {
                "description": "By name.",
                "type": "object",
                "additionalProperties": PART,
                "maxProperties": 2,
            },
            "one": {**PART, "description": "The one.", "x-kubernetes-map-type": "atomic"},
            "flag": {"description": "Yes, no, or nothing.", "type": "boolean"},
            "kind": {"description": "Which.", "type": "string", "enum": ["a", "b"], "pattern": "^.$"},
            "odd_name": {
                "description": "Paths.",
                "type": "array",
                "items": {
                    "description": "A path.",
                    "type": "string",
                    "x-kubernetes-validations": [{"rule": "self != ''", "message": "not empty"}],
                },
            },
            "count": {"type": "integer", "format": "int64"},
        },
    }


def test_hints_are_not_enforced_when_decoding() -> None:
    read = msgspec.convert({"name": "much too long", "size": -1}, Part)
    assert (read.name, read.size) == ("much too long", -1)


@pytest.mark.parametrize(
    "unfit",
    [pytest.param(int | bool, id="union"), pytest.param(float, id="float"), pytest.param(bytes, id="bytes")],
)
def test_what_the_api_does_not_use_is_refused(unfit: Any) -> None:
    with pytest.raises(TypeError, match="cannot make a schema"):
        of_type(unfit)


def test_a_number_or_a_text_is_what_kubernetes_calls_so() -> None:
    schema = of_type(int | str | None)
    assert schema == {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
    }


class Late(Struct):
    """A kind with a default where clients would see it for ever."""

    deep: Annotated[dict[str, list[Part]], meta("Parts by name.")] = {}


def test_a_default_inside_a_list_item_is_refused() -> None:
    with pytest.raises(TypeError, match=r"schema of Late\.deep\[\*\]\[\]\.size: it has a default"):
        derivation.of_kind(Late)


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_has_a_default_inside_a_list_item(kind: type[msgspec.Struct]) -> None:
    inside = [
        path for path, node in walk(derivation.of_kind(kind), "") if "[items]" in path and "default" in node
    ]
    assert inside == []


def walk(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema inside one, with a path for messages."""
    yield path, node
    for name, inner in node.get("properties", {}).items():
        yield from walk(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from walk(node[key], f"{path}[{key}]")


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_are_structural_and_described(kind: type[msgspec.Struct]) -> None:
    for path, node in walk(derivation.of_kind(kind), kind.__name__):
        assert REQUIRED not in node, path
        known = ("object", "array", "string", "integer", "boolean")
        assert node.get("x-kubernetes-int-or-string") or node["type"] in known, path
        if node.get("type") == "array":
            assert "items" in node, path
            assert "maxItems" in node, f"{path}: CEL budgets need a bound"
        if "properties" in node or "items" in node:
            assert "additionalProperties" not in node, path
        for name in node.get("required", []):
            assert name in node["properties"], path
        is_part = path.endswith(("[items]", "[additionalProperties]", ".metadata"))
        if "properties" in node or not is_part:
            assert len(node["description"]) > 7, f"{path}: kubectl explain would say nothing"
            assert node["description"].endswith("."), path


@pytest.mark.parametrize("kind", KINDS)
def test_the_keys_of_list_maps_are_always_there(kind: type[msgspec.Struct]) -> None:
    found = []
    for path, node in walk(derivation.of_kind(kind), kind.__name__):
        for key in node.get("x-kubernetes-list-map-keys", []):
            item = node["items"]
            assert key in item["required"], f"{path}: {key}"
            found.append(path)
    if "status" in kind.__struct_fields__:
        assert f"{kind.__name__}.status.conditions" in found


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_and_descriptions_agree_with_the_type(kind: type[msgspec.Struct]) -> None:
    for name, hinted, actual in _hinted_defaults(msgspec.inspect.type_info(kind)):
        assert hinted == actual, f"{name}: the API server would fill in {hinted!r}, we assume {actual!r}"


def _hinted_defaults(node: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(node, msgspec.inspect.Metadata):
        yield from _hinted_defaults(node.type)
    elif isinstance(node, msgspec.inspect.UnionType):
        for member in node.types:
            yield from _hinted_defaults(member)
    elif isinstance(node, msgspec.inspect.ListType):
        yield from _hinted_defaults(node.item_type)
    elif isinstance(node, msgspec.inspect.DictType):
        yield from _hinted_defaults(node.value_type)
    elif isinstance(node, msgspec.inspect.StructType):
        for field in node.fields:
            hints = getattr(field.type, "extra_json_schema", None) or {}
            if "default" in hints:
                yield f"{node.cls.__name__}.{field.name}", hints["default"], field.default
            yield from _hinted_defaults(field.type)
