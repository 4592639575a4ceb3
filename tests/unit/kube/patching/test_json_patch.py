"""JSON patches: every operation, what does not apply, and that a failed patch changes nothing."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.kube import errors
from nodemanager.kube.patching import json_patch
from nodemanager.kube.patching.json_patch import apply_json_patch

DOCUMENT: dict[str, Any] = {"a": {"b": [1, 2, 3]}, "c/d": "x", "e~f": None, "n": 1}


def op(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (op("add", "/a/b/-", value=4), {**DOCUMENT, "a": {"b": [1, 2, 3, 4]}}),
        (op("add", "/a/b/0", value=0), {**DOCUMENT, "a": {"b": [0, 1, 2, 3]}}),
        (op("add", "/a/b/3", value=4), {**DOCUMENT, "a": {"b": [1, 2, 3, 4]}}),
        (op("add", "/a/b/-1", value=4), {**DOCUMENT, "a": {"b": [1, 2, 3, 4]}}),
        (op("add", "/a/b/-2", value=4), {**DOCUMENT, "a": {"b": [1, 2, 4, 3]}}),
        (op("add", "/c~1d", value="y"), {**DOCUMENT, "c/d": "y"}),
        (op("add", "/e~0f", value="y"), {**DOCUMENT, "e~f": "y"}),
        (op("add", "/~01", value="y"), {**DOCUMENT, "~1": "y"}),
        (op("add", "/new"), {**DOCUMENT, "new": None}),
        (op("remove", "/a/b/1"), {**DOCUMENT, "a": {"b": [1, 3]}}),
        (op("remove", "/a/b/-1"), {**DOCUMENT, "a": {"b": [1, 2]}}),
        (op("remove", "/a"), {name: value for name, value in DOCUMENT.items() if name != "a"}),
        (op("replace", "/n", value=[{}]), {**DOCUMENT, "n": [{}]}),
        (op("replace", "/new", value=1), {**DOCUMENT, "new": 1}),
        (op("replace", "/a/b/0", value=9), {**DOCUMENT, "a": {"b": [9, 2, 3]}}),
        (op("replace", "", value={"z": 1}), {"z": 1}),
        (op("test", "/a", value={"b": [1, 2, 3]}), DOCUMENT),
        (op("test", "/e~0f", value=None), DOCUMENT),
        (op("test", "/none"), DOCUMENT),
        (op("test", "", value=DOCUMENT), DOCUMENT),
        (op("move", "/m", **{"from": "/n"}), {"a": DOCUMENT["a"], "c/d": "x", "e~f": None, "m": 1}),
        (op("move", "/a/b/0", **{"from": "/a/b/2"}), {**DOCUMENT, "a": {"b": [3, 1, 2]}}),
        (op("copy", "/m", **{"from": "/a"}), {**DOCUMENT, "m": {"b": [1, 2, 3]}}),
        (op("copy", "/m", **{"from": "/none"}), {**DOCUMENT, "m": None}),
    ],
    ids=str,
)
def test_operations(operation: dict[str, Any], expected: Any) -> None:
    before = copy.deepcopy(DOCUMENT)
    assert apply_json_patch(DOCUMENT, [operation]) == expected
    assert before == DOCUMENT


@pytest.mark.parametrize(
    "operation",
    [
        op("add", "/none/x", value=1),
        op("add", "/n/x", value=1),
        op("add", "/a/b/4", value=1),
        op("add", "/a/b/-5", value=1),
        op("add", "/a/b/ 1", value=1),
        op("add", "/a/b/1_0", value=1),
        op("add", "/a/b/x", value=1),
        op("add", "", value={}),
        op("add", "a", value=1),
        op("remove", "/none"),
        op("remove", "/a/b/3"),
        op("replace", "/a/b/-", value=1),
        op("replace", "/a/b/3", value=1),
        op("replace", "", value=1),
        op("test", "/n", value=1.0),
        op("test", "/n", value=True),
        op("test", "/n", value=None),
        op("test", "/a/b", value=[1, 2]),
        op("move", "/x", **{"from": "/none"}),
        op("move", "/x"),
        op("copy", "/none/x", **{"from": "/n"}),
        op("invert", "/n"),
        {"op": "add", "value": 1},
        {},
        None,
    ],
    ids=str,
)
def test_what_does_not_apply_is_invalid(operation: Any) -> None:
    with pytest.raises(errors.Invalid, match=json_patch.REJECTED):
        apply_json_patch(DOCUMENT, [operation])


def test_a_failing_operation_undoes_the_ones_before() -> None:
    before = copy.deepcopy(DOCUMENT)
    with pytest.raises(errors.Invalid):
        apply_json_patch(DOCUMENT, [op("add", "/a/b/-", value=4), op("test", "/n", value=2)])
    assert before == DOCUMENT


def test_the_result_shares_nothing_with_the_patch() -> None:
    value: list[int] = []
    result = apply_json_patch({}, [op("add", "/a", value=value), op("add", "/a/-", value=1)])
    assert (result, value) == ({"a": [1]}, [])
    copied = apply_json_patch({"a": [1]}, [op("copy", "/b", **{"from": "/a"}), op("add", "/b/-", value=2)])
    assert copied == {"a": [1], "b": [1, 2]}


def test_no_patch_is_no_change() -> None:
    assert apply_json_patch(DOCUMENT, None) == DOCUMENT


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({}, r"cannot unmarshal object into Go value of type \[\]handlers.jsonPatchOp"),
        ([1], "cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        ([{"op": True}], "cannot unmarshal bool into Go struct field jsonPatchOp.op of type string"),
    ],
)
def test_what_is_no_patch_is_a_bad_request(patch: Any, message: str) -> None:
    with pytest.raises(errors.BadRequest, match=message):
        apply_json_patch(DOCUMENT, patch)


def test_the_number_of_operations_is_bounded() -> None:
    test = op("test", "/n", value=1)
    assert apply_json_patch(DOCUMENT, [test] * json_patch.MAX_OPERATIONS) == DOCUMENT
    with pytest.raises(errors.TooLarge, match="is 10000, got 10001"):
        apply_json_patch(DOCUMENT, [test] * (json_patch.MAX_OPERATIONS + 1))


def test_doubling_by_copies_is_bounded() -> None:
    double = [op("copy", "/a/-", **{"from": "/a"})]
    with pytest.raises(errors.Invalid):
        apply_json_patch({"a": ["x" * 100]}, double * 40)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab/~", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
POINTERS = st.lists(st.sampled_from(["a", "b", "~0", "~1", "0", "1", "-", "-1"]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "test", "move", "copy"]), "path": POINTERS},
    optional={"value": VALUES, "from": POINTERS},
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from("ab"), VALUES), st.lists(OPERATIONS, max_size=5))
def test_any_patch_applies_or_is_refused_and_changes_no_input(document: Any, patch: list[Any]) -> None:
    before = copy.deepcopy((document, patch))
    with contextlib.suppress(errors.Invalid):
        apply_json_patch(document, patch)
    assert before == (document, patch)
