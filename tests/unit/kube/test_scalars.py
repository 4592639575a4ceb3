"""Plain YAML words: the meaning kubectl gives them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube import scalars


@pytest.mark.parametrize(
    ("word", "value"),
    [
        pytest.param("", None, id="empty"),
        pytest.param("~", None, id="tilde"),
        pytest.param("Null", None, id="null"),
        pytest.param("y", True, id="y"),
        pytest.param("N", False, id="N"),
        pytest.param("on", True, id="on"),
        pytest.param("Off", False, id="Off"),
        pytest.param("yEs", "yEs", id="mixed-case-is-text"),
        pytest.param("0644", 420, id="octal"),
        pytest.param("0o17", 15, id="octal-0o"),
        pytest.param("-0o17", -15, id="negative-octal"),
        pytest.param("0x1F", 31, id="hex"),
        pytest.param("0b11", 3, id="binary"),
        pytest.param("1_000", 1000, id="underscore"),
        pytest.param("_1", "_1", id="leading-underscore"),
        pytest.param("08", 8, id="not-octal-but-a-number"),
        pytest.param("1e3", 1000, id="exponent"),
        pytest.param("1.0", 1, id="whole-float"),
        pytest.param("1.", 1, id="point-at-the-end"),
        pytest.param("-0.0", 0, id="negative-zero"),
        pytest.param(".5", 0.5, id="point-first"),
        pytest.param("1e-7", 1e-7, id="small"),
        pytest.param("1e22", 1e22, id="large-float"),
        pytest.param("1e400", "1e400", id="beyond-float"),
        pytest.param("9223372036854775807", 2**63 - 1, id="largest-int64"),
        pytest.param("18446744073709551615", float(2**64 - 1), id="uint64"),
        pytest.param("1" * 30, float("1" * 30), id="long-decimal"),
        pytest.param("1" * 5000, "1" * 5000, id="longer-than-int-takes"),
        pytest.param("0x" + "f" * 17, "0x" + "f" * 17, id="long-hex"),
        pytest.param("1:30", "1:30", id="sexagesimal-is-text"),
        pytest.param("2020-01-01", "2020-01-01", id="date-is-text"),
        pytest.param("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z", id="time-is-text"),
        pytest.param("=", "=", id="equals"),
        pytest.param("<<", "<<", id="merge"),
        pytest.param("0x", "0x", id="prefix-only"),
        pytest.param("1.2.3", "1.2.3", id="version"),
        pytest.param("-", "-", id="dash"),
        pytest.param("inf", "inf", id="inf-without-point"),
    ],
)
def test_plain(word: str, value: scalars.Scalar) -> None:
    found = scalars.plain(word)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("word", [".inf", "-.Inf", "+.INF", ".nan", ".NaN"])
def test_json_has_no_such_number(word: str) -> None:
    with pytest.raises(ValueError, match="cannot be written in JSON"):
        scalars.plain(word)
    assert not scalars.is_text(word)


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_every_int64_is_itself(value: int) -> None:
    assert scalars.plain(str(value)) == value
    assert not scalars.is_text(str(value))
