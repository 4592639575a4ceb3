"""The notation of schemas: each mark, and refusals of what it does not know."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.server.kinds.schemas.notation import CORE, META, REF, SchemaPackage, expand, read


def field(text: str) -> dict[str, Any]:
    """Return the schema of the one field of a definition."""
    schema = expand(SchemaPackage("io.test", "", f"Thing | A thing.\n  {text}\n"))["io.test.Thing"]
    (found,) = schema["properties"].values()
    assert isinstance(found, dict)
    return found


def ref(name: str) -> dict[str, str]:
    return {"$ref": REF + name}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a string", {"type": "string"}),
        ("a int32 | How many.", {"description": "How many.", "type": "integer", "format": "int32"}),
        ("a bytes", {"type": "string", "format": "byte"}),
        ("a [string] atomic", {
            "type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}),
        ("a {string} atomic", {
            "type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"}),
        ("a {[string]}", {
            "type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}}),
        ("a [Other] map=x,y patch=merge,retainKeys:x", {
            "type": "array", "items": ref("io.test.Other"), "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["x", "y"], "x-kubernetes-patch-strategy": "merge,retainKeys",
            "x-kubernetes-patch-merge-key": "x"}),
        ("a [string] set patch=merge", {
            "type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge"}),
        ("a string default=TCP enum=TCP,UDP", {"type": "string", "default": "TCP", "enum": ["TCP", "UDP"]}),
        ("a string enum=,File", {"type": "string", "enum": ["", "File"]}),
        ("a [string] set enum=A,B", {
            "type": "array", "x-kubernetes-list-type": "set",
            "items": {"type": "string", "enum": ["A", "B"]}}),
        ("a Other", ref("io.test.Other")),
        ("a Time", ref(f"{META}.Time")),
        ("a core.Taint", ref(f"{CORE}.Taint")),
        ("a Other | Words.", {"description": "Words.", "allOf": [ref("io.test.Other")]}),
        ("a LabelSelector patch=replace", {
            "allOf": [ref(f"{META}.LabelSelector")], "x-kubernetes-patch-strategy": "replace"}),
        ("$ref string", {"type": "string"}),
    ],
)  # fmt: skip
def test_field(text: str, expected: dict[str, Any]) -> None:
    assert field(text) == expected


def test_definition_with_marks() -> None:
    text = (
        "Thing kind list atomic | A thing.\n  spec! Spec | Wishes.\nSpec | Wishes.\n  a! int64\n  b string\n"
    )
    found = expand(SchemaPackage("io.test.v2", "test.io", text, "v2"))
    assert list(found) == ["io.test.v2.Thing", "io.test.v2.ThingList", "io.test.v2.Spec"]
    thing = found["io.test.v2.Thing"]
    assert list(thing["properties"]) == ["apiVersion", "kind", "metadata", "spec"]
    assert thing["required"] == ["spec"]
    assert thing["x-kubernetes-map-type"] == "atomic"
    names = {"group": "test.io", "version": "v2", "kind": "Thing"}
    assert thing["x-kubernetes-group-version-kind"] == [names]
    assert found["io.test.v2.ThingList"]["properties"]["items"]["items"] == ref("io.test.v2.Thing")
    assert found["io.test.v2.Spec"] == {
        "description": "Wishes.",
        "type": "object",
        "required": ["a"],
        "properties": {"a": {"type": "integer", "format": "int64"}, "b": {"type": "string"}},
    }


@pytest.mark.parametrize("text", ["lonely", "a string nonsense=1", "a", "!a string", "a  string"])
def test_what_it_cannot_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot read"):
        field(text)


NAMES = st.from_regex(r"[a-z][a-zA-Z]{0,10}", fullmatch=True)


@given(st.lists(st.tuples(NAMES, st.booleans()), unique_by=lambda pair: pair[0], min_size=1))
def test_every_field_arrives_in_its_order(pairs: list[tuple[str, bool]]) -> None:
    lines = "".join(f"  {name}{'!' * required} string\n" for name, required in pairs)
    found = expand(SchemaPackage("p", "", f"T | T.\n{lines}"))["p.T"]
    assert list(found["properties"]) == [name for name, _ in pairs]
    assert found.get("required", []) == [name for name, required in pairs if required]


def test_a_file_has_packages_of_definitions() -> None:
    text = "# Comment.\n\n= io.a a.io\nT | T.\n  a string \\\nenum=A,B\n\n= io.b\nU | U.\n"
    first, second = read(text)
    assert (first.prefix, first.group, second.prefix, second.group) == ("io.a", "a.io", "io.b", "")
    assert expand(first)["io.a.T"]["properties"] == {"a": {"type": "string", "enum": ["A", "B"]}}
    assert list(expand(second)) == ["io.b.U"]
