"""RFC 7386 merge patches."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.client.patches import difference
from nodemanager.kube import errors
from nodemanager.kube.patching.merge_patch import apply_merge_patch


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "x"}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({}, {"a": [{"b": None}, None]}, {"a": [{}, None]}),
        ({"a": {}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
    ],
)
def test_merging(document: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy((document, patch))
    assert apply_merge_patch(document, patch) == expected
    assert before == (document, patch)


@pytest.mark.parametrize(("patch", "message"), [(None, "Invalid JSON Patch"), ([1], "unmarshal array into")])
def test_what_is_no_object_is_a_bad_request(patch: Any, message: str) -> None:
    with pytest.raises(errors.BadRequest, match=message):
        apply_merge_patch({}, patch)


LEAVES = (
    st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2) | st.lists(st.integers(0, 2), max_size=2)
)
DOCUMENTS = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        LEAVES, lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=6
    ),
)


@settings(deadline=None)
@given(DOCUMENTS, DOCUMENTS)
def test_a_difference_leads_from_one_to_the_other(old: Any, new: Any) -> None:
    assert apply_merge_patch(old, difference(old, new)) == new


@settings(deadline=None)
@given(DOCUMENTS, DOCUMENTS)
def test_merging_twice_is_merging_once(document: Any, patch: Any) -> None:
    once = apply_merge_patch(document, patch)
    assert apply_merge_patch(once, patch) == once
