"""Bodies are bounded in depth and in what reading them may cost."""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from nodemanager.server.http import bodies

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
)


def depth(value: Any) -> int:
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return 1 + max(map(depth, inner), default=0)
    return 0


@hypothesis.given(VALUES, st.booleans())
def test_the_depth_of_a_text_is_that_of_its_value(value: Any, ascii_only: bool) -> None:
    assert bodies._depth(json.dumps(value, ensure_ascii=ascii_only).encode()) == depth(value)


def test_brackets_in_strings_do_not_count() -> None:
    text = json.dumps({"a": "[" * 1000 + '"' + "\\" + "{" * 1000})
    assert bodies.decode_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize("levels", [bodies.MAX_DEPTH + 1, 900, 100_000])
def test_deeper_than_the_limit_is_refused(levels: int) -> None:
    with pytest.raises(ValueError, match="nested deeper than 200 levels"):
        bodies.decode_json(b"[" * levels + b"]" * levels)


def test_keys_that_repeat_are_found_among_many() -> None:
    many = ",".join(f'"k{number}": 1' for number in range(100_000))
    assert bodies.duplicates(f'{{"a": {{"b": 1, "b": 2}}, {many}}}'.encode()) == ["a.b"]
