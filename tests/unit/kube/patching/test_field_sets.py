"""Sets of field paths: algebra against plain sets of tuples, and the fieldsV1 encoding."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.kube.patching import field_sets
from nodemanager.kube.patching.field_sets import EMPTY, FieldSet, Path

ELEMENTS = st.sampled_from(
    [
        "f:a",
        "f:b",
        "f:",
        'k:{"name":"x"}',
        'k:{"a":1,"b":"y"}',
        'v:"x"',
        "v:10",
        "v:9",
        "v:true",
        "i:0",
        "i:2",
    ]
)
PATHS = st.sets(st.lists(ELEMENTS, min_size=1, max_size=4).map(tuple), max_size=12)


def test_elements_are_written_as_in_fields_v1() -> None:
    assert field_sets.field("a") == "f:a"
    assert field_sets.key({"protocol": "TCP", "port": 80}) == 'k:{"port":80,"protocol":"TCP"}'
    assert field_sets.item("x<y") == 'v:"x\\u003cy"'
    assert field_sets.item(1.0) == "v:1"


def test_paths_are_shown_as_in_messages() -> None:
    path = ("f:spec", "f:ports", 'k:{"port":80,"protocol":"TCP"}', "f:flags", 'v:"x"')
    assert field_sets.text(path) == '.spec.ports[port=80,protocol="TCP"].flags[="x"]'
    assert field_sets.text(("f:list", "i:3")) == ".list[3]"


@settings(deadline=None)
@given(PATHS, PATHS)
def test_algebra_is_that_of_sets(one: set[Path], other: set[Path]) -> None:
    a, b = FieldSet.of(*one), FieldSet.of(*other)
    assert set(a.union(b)) == one | other
    assert set(a.intersection(b)) == one & other
    assert set(a.difference(b)) == one - other
    inside = {path for path in one if any(path[: len(top)] == top for top in other)}
    assert set(a.without_branches(b)) == one - inside
    assert bool(a) == bool(one)
    assert (a == b) == (one == other)
    assert all(path in a for path in one)
    assert not any(path in a for path in other - one)


@settings(deadline=None)
@given(PATHS)
def test_encoding_is_undone_by_decoding(paths: set[Path]) -> None:
    fields = FieldSet.of(*paths)
    assert FieldSet.decode(json.loads(json.dumps(fields.encode()))) == fields
    assert hash(FieldSet.decode(fields.encode())) == hash(fields)


def test_the_whole_object_is_nobodys() -> None:
    assert FieldSet.of(()) == EMPTY
    assert () not in FieldSet.of(("f:a",))
    assert EMPTY.below("f:a") is EMPTY


def test_keys_are_in_kubernetes_order() -> None:
    names = ["v:true", "v:10", "v:9", 'v:"a"', "i:1", 'k:{"port":443}', 'k:{"port":80}', "f:b", "f:a"]
    fields = FieldSet.of(*((name,) for name in names), ("f:a", "f:z"))
    ordered = ["f:a", "f:b", 'k:{"port":80}', 'k:{"port":443}', "v:9", "v:10", 'v:"a"', "v:true", "i:1"]
    assert list(fields.encode()) == ordered
    assert fields.encode()["f:a"] == {".": {}, "f:z": {}}


def test_elements_of_the_future_are_left_out() -> None:
    assert FieldSet.decode({"f:a": {}, "x:b": {}}) == FieldSet.of(("f:a",))


def test_another_spelling_is_the_same_element() -> None:
    assert FieldSet.decode({'k:{"b":1, "a":2.0}': {}}) == FieldSet.of(('k:{"a":2,"b":1}',))


@pytest.mark.parametrize(
    ("key", "shown"), [('"x"', '[a="x"]'), ("[]", "[a=[]]"), ("{}", "[a=]"), ('{"b":1,"c":2}', "[a=b=1c=2]")]
)
def test_keys_are_shown_as_kubernetes_does(key: str, shown: str) -> None:
    assert field_sets.element_text(f'k:{{"a":{key}}}') == shown


@pytest.mark.parametrize(
    "fields", [[], {"f:a": 1}, {"f": {}}, {"nothing": {}}, {"k:[]": {}}, {"k:{": {}}, {"v:": {}}, {"i:x": {}}]
)
def test_nonsense_is_refused(fields: Any) -> None:
    with pytest.raises(ValueError):
        FieldSet.decode(fields)


def test_depth_is_bounded() -> None:
    deep: dict[str, Any] = {}
    for _ in range(field_sets.MAX_DEPTH + 1):
        deep = {"f:a": deep}
    with pytest.raises(ValueError, match="deeper"):
        FieldSet.decode(deep)
