"""Compiled schemas."""

from __future__ import annotations

import dataclasses

import pytest

from nodemanager.api import crds
from nodemanager.kube.schemas.structural import compile_schema, walk


def test_rules_for_cel_stay_visible() -> None:
    rules = [{"rule": "self.a > 1", "message": "more"}]
    node = compile_schema({"type": "object", "x-kubernetes-validations": rules})
    assert list(node.rules) == rules


@pytest.mark.parametrize(
    ("type_", "format_", "kept"),
    [
        ("string", "date-time", "date-time"),
        ("string", "int32", ""),
        ("integer", "int32", "int32"),
        ("integer", "date", ""),
        ("number", "float", "float"),
        ("boolean", "date", ""),
    ],
)
def test_formats_that_do_not_fit_the_type_are_ignored(type_: str, format_: str, kept: str) -> None:
    assert compile_schema({"type": type_, "format": format_}).format == kept


def test_int_or_string_is_two_types() -> None:
    assert compile_schema({"x-kubernetes-int-or-string": True}).types == ("integer", "string")


def test_nodes_cannot_be_changed() -> None:
    node = compile_schema({"type": "object"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        node.type = "string"  # type: ignore[misc]


def test_what_is_below_is_known_above() -> None:
    inner = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    node = compile_schema({"type": "object", "properties": {"a": inner}})
    assert node.keyed
    assert not node.embeds


def test_our_own_schemas_compile() -> None:
    for crd in crds.all_crds():
        node = compile_schema(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        assert len(list(walk(node))) > 8
