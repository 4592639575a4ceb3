"""Strategic merge patches: keys, directives, order, and the refusals."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.kube import errors
from nodemanager.kube.patching.strategic_merge import apply_strategic_merge
from nodemanager.kube.patching.strategies import Strategy
from nodemanager.server.kinds.builtin_schemas import strategy

POD = strategy("", "v1", "Pod")
LIST = Strategy(fields={"items": Strategy("merge", "name"), "names": Strategy("merge")})


def items(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, **more} for name in names]


def patched(live: list[dict[str, Any]], **patch: Any) -> Any:
    return apply_strategic_merge({"items": live}, patch, LIST)["items"]


@pytest.mark.parametrize(
    ("live", "patch", "expected"),
    [
        (items("a", "b"), {"items": items("b", x=1)}, [{"name": "a"}, {"name": "b", "x": 1}]),
        (items("a"), {"items": items("b")}, items("b", "a")),
        (items("a", "b", "c"), {"items": items("c", "a")}, items("b", "c", "a")),
        (items("a", "b"), {"items": [{"name": "a", "$patch": "delete"}]}, items("b")),
        (items("a", "b"), {"items": [*items("c"), {"$patch": "replace"}]}, items("c")),
        (items("a", "b"), {"$setElementOrder/items": items("b", "a")}, items("b", "a")),
        (
            items("a", "b", "c"),
            {"items": items("d"), "$setElementOrder/items": items("c", "d", "a")},
            items("b", "c", "d", "a"),
        ),
        (
            items("a", "b"),
            {"items": [{"name": "a", "$patch": "delete"}, *items("c")], "$setElementOrder/items": items("c")},
            items("b", "c"),
        ),
        (items("a"), {"items": [{"name": "b", "x": None}]}, items("b", "a")),
        (items("a", x=1), {"items": [{"name": "a", "x": None}]}, items("a")),
        (
            items("a", x=1, y=2),
            {"items": [{"name": "a", "y": 3, "$retainKeys": ["name", "y"]}]},
            items("a", y=3),
        ),
    ],
    ids=str,
)
def test_lists_that_merge_by_a_key(live: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy((live, patch))
    assert patched(live, **patch) == expected
    assert before == (live, patch)


@pytest.mark.parametrize(
    ("live", "patch", "expected"),
    [
        (["a", "b"], {"names": ["c", "b"]}, ["c", "a", "b"]),
        (["a", "b"], {"$deleteFromPrimitiveList/names": ["a", "z"]}, ["b"]),
        (["a", "b", "c"], {"$setElementOrder/names": ["c", "a"]}, ["b", "c", "a"]),
        (["a"], {"$deleteFromPrimitiveList/names": None}, None),
        (None, {"$deleteFromPrimitiveList/names": ["a"]}, None),
        (None, {"names": ["b"], "$setElementOrder/names": ["b"]}, ["b"]),
        (None, {"$setElementOrder/names": ["b"]}, None),
        (["a"], {"names": None}, None),
        (["a"], {"names": []}, ["a"]),
    ],
    ids=str,
)
def test_lists_of_scalars(live: Any, patch: Any, expected: Any) -> None:
    document = {} if live is None else {"names": live}
    assert apply_strategic_merge(document, patch, LIST).get("names") == expected


@pytest.mark.parametrize(
    ("live", "patch", "expected"),
    [
        ({"m": {"a": 1, "b": 2}}, {"m": {"b": 3}}, {"m": {"a": 1, "b": 3}}),
        ({"m": {"a": 1}}, {"m": {"$patch": "replace", "b": 2}}, {"m": {"b": 2}}),
        ({"m": {"a": 1}}, {"m": {"$patch": "delete"}}, {"m": {}}),
        ({}, {"m": {"$patch": "delete"}}, {}),
        ({}, {"m": {"a": None, "l": [{"x": None, "$patch": "replace"}, {"y": None}]}}, {"m": {"l": [{}]}}),
        ({"m": 1}, {"m": {"a": 1}}, {"m": {"a": 1}}),
        ({"l": [1]}, {"l": [2]}, {"l": [2]}),
        ({"m": {"a": 1, "b": 2}}, {"m": {"$retainKeys": ["a"]}}, {"m": {"a": 1}}),
    ],
    ids=str,
)
def test_maps_and_values(live: Any, patch: Any, expected: Any) -> None:
    assert apply_strategic_merge(live, patch, LIST) == expected


def test_the_selector_of_a_budget_is_replaced() -> None:
    budget = {"spec": {"selector": {"matchLabels": {"a": "x"}}, "minAvailable": 1}}
    patch = {"spec": {"selector": {"matchLabels": {"b": "x"}}}}
    result = apply_strategic_merge(budget, patch, strategy("policy", "v1", "PodDisruptionBudget"))
    assert result["spec"] == {"selector": {"matchLabels": {"b": "x"}}, "minAvailable": 1}


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ({"items": [{"x": 1}]}, 500, r"map: map\[x:1\] does not contain declared merge key: name"),
        ({"items": [{"name": "a", "$patch": "merge"}]}, 500, "merging lists cannot yet be specified"),
        (
            {"items": [{"name": "a", "$patch": "x"}]},
            500,
            r"unknown patch type: x in map: map\[\$patch:x name:a\]",
        ),
        ({"items": [{"$patch": "delete"}]}, 500, "does not contain declared merge key: name"),
        ({"names": [1]}, 500, "list element types are not identical"),
        ({"names": [["a"]]}, 422, "rejected our request"),
        ({"$patch": "merge"}, 500, "unknown patch type: merge in map"),
        ({"$retainKeys": 1}, 400, "invalid patch format of retainKeys"),
        ({"$retainKeys": ["a"], "b": 1}, 400, "invalid patch format of retainKeys"),
        ({"$deleteFromPrimitiveListnames": []}, 400, "invalid patch format of primitive list"),
        ({"$setElementOrder": []}, 400, "invalid patch format of setElementOrder list"),
        ({"$setElementOrder/items": {}}, 500, "expected a "),
        ({"$setElementOrder/scalar": []}, 500, "expected a "),
        (
            {"items": items("a", "b"), "$setElementOrder/items": items("b", "a")},
            500,
            "The order in patch list",
        ),
        ({"empty": [], "$setElementOrder/empty": []}, 500, "no elements in any of the given slices"),
        ([1], 400, "cannot unmarshal array"),
    ],
    ids=str,
)
def test_refusals(patch: Any, code: int, message: str) -> None:
    live = {"items": items("a"), "names": ["a"], "scalar": 1}
    with pytest.raises(errors.StatusError, match=message) as refusal:
        apply_strategic_merge(live, patch, LIST)
    assert refusal.value.status.code == code


def test_items_without_a_declared_key_cannot_be_merged() -> None:
    with pytest.raises(errors.InternalError, match="without merge key"):
        apply_strategic_merge({"names": items("a")}, {"names": items("b")}, LIST)


def test_nested_lists_of_a_pod_merge() -> None:
    pod = {"spec": {"containers": [{"name": "a", "image": "x", "env": [{"name": "K", "value": "1"}]}]}}
    patch = {"spec": {"containers": [{"name": "a", "env": [{"name": "L", "value": "2"}]}]}}
    container = apply_strategic_merge(pod, patch, POD)["spec"]["containers"][0]
    assert container["image"] == "x"
    assert {one["name"]: one["value"] for one in container["env"]} == {"K": "1", "L": "2"}


NAMES = st.lists(st.sampled_from("abcdef"), unique=True, max_size=5)


@settings(deadline=None)
@given(NAMES, NAMES)
def test_order_follows_the_patch_and_else_the_live_list(live: list[str], patch: list[str]) -> None:
    found = apply_strategic_merge({"names": live}, {"names": patch}, LIST)["names"]
    assert [name for name in found if name in patch] == patch
    assert [name for name in found if name not in patch] == [name for name in live if name not in patch]
