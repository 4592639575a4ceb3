"""Values as Go prints them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube.go import text as gotext

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("value", "printed", "written"),
    [
        (0, "0", "0"),
        (1.0, "1", "1"),
        (-0.5, "-0.5", "-0.5"),
        (100000.0, "100000", "100000"),
        (1000000.0, "1e+06", "1000000"),
        (2147483648.0, "2.147483648e+09", "2147483648"),
        (2147483648, "2147483648", "2147483648"),
        (0.0001, "0.0001", "0.0001"),
        (0.00001, "1e-05", "0.00001"),
        (1e-7, "1e-07", "1e-7"),
        (1e21, "1e+21", "1e+21"),
        (123.25, "123.25", "123.25"),
        (2**63, "9.223372036854776e+18", "9223372036854776000"),
    ],
)
def test_numbers(value: float, printed: str, written: str) -> None:
    assert gotext.number(value) == printed
    assert gotext.json_number(value) == written


@given(NUMBERS)
def test_printed_numbers_read_back_the_same(value: float) -> None:
    assert float(gotext.number(value)) == float(value)
    assert float(gotext.json_number(value)) == float(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_in_json_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="cannot print"):
        gotext.number(value)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain", '"plain"'),
        ('a"b\\', r'"a\"b\\"'),
        ("a\nb\x00\x7f", r'"a\nb\x00\x7f"'),
        ("ü日", '"ü日"'),
        ("\u2028\u00a0", r'"\u2028\u00a0"'),
        ("\U000e0001", r'"\U000e0001"'),
    ],
)
def test_quoted(text: str, quoted: str) -> None:
    assert gotext.quote(text) == quoted


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ({"b": [1, 2.0], "a": {}}, '{"a":{},"b":[1,2]}'),
        ("<&>\x01\u2028", r'"\u003c\u0026\u003e\u0001\u2028"'),
    ],
)
def test_json(value: Any, text: str) -> None:
    assert gotext.json_text(value) == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(), lambda below: st.lists(below, max_size=3)
    )
)
def test_json_reads_back_the_same(value: Any) -> None:
    assert json.loads(gotext.json_text(value)) == value
