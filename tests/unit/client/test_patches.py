"""The merge patch between two states."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from nodemanager.client.patches import difference

SCALARS = st.one_of(st.booleans(), st.integers(-3, 3), st.text("ab", max_size=2))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text("xyz", max_size=1), inner)),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("xyz", max_size=1), VALUES)


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386, as its section 2 writes it down."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


@hypothesis.given(OBJECTS, OBJECTS)
def test_the_patch_turns_one_into_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert merge(old, difference(old, new)) == new


@hypothesis.given(OBJECTS)
def test_equal_states_need_no_patch(state: dict[str, Any]) -> None:
    assert difference(state, state) == {}


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b": 3}, id="only what changed"),
        pytest.param({"a": {"x": 1, "y": 2}}, {"a": {"x": 1}}, {"a": {"y": None}}, id="removed inside"),
        pytest.param({"a": [1, 2]}, {"a": [2]}, {"a": [2]}, id="lists are replaced"),
        pytest.param({"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1}}, id="scalar becomes a map"),
        pytest.param({"a": {"x": 1}}, {}, {"a": None}, id="map removed"),
        pytest.param({"a": 1}, {"a": True}, {"a": True}, id="true is not one"),
    ],
)
def test_patches(old: dict[str, Any], new: dict[str, Any], patch: dict[str, Any]) -> None:
    assert difference(old, new) == patch
