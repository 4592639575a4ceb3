"""Durations: what Go reads and prints, both ways, and what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube.go import durations

NANOSECONDS = st.integers(min_value=-(2**63) + 1, max_value=2**63 - 1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("0", 0.0, id="bare-zero"),
        pytest.param("-0", 0.0, id="negative-zero"),
        pytest.param("1h30m", 5400.0, id="two-units"),
        pytest.param("+5s", 5.0, id="plus"),
        pytest.param("-1.5h", -5400.0, id="negative-fraction"),
        pytest.param(".5s", 0.5, id="no-whole"),
        pytest.param("5.s", 5.0, id="no-fraction"),
        pytest.param("250ms", 0.25, id="milliseconds"),
        pytest.param("3us", 3e-6, id="us"),
        pytest.param("3\u00b5s", 3e-6, id="micro-sign"),
        pytest.param("3\u03bcs", 3e-6, id="greek-mu"),
        pytest.param("7ns", 7e-9, id="nanoseconds"),
        pytest.param("1m1h", 3660.0, id="any-order"),
        pytest.param("0.1ns", 0.0, id="below-a-nanosecond"),
        pytest.param("9223372036854775807ns", 9223372036.854775807, id="largest"),
    ],
)
def test_parse(text: str, seconds: float) -> None:
    assert durations.parse(text) == seconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("", "it is empty", id="empty"),
        pytest.param("-", "it is empty", id="sign-only"),
        pytest.param("30", "'30' has no unit", id="no-unit"),
        pytest.param("1h30", "'30' has no unit", id="last-without-unit"),
        pytest.param("1d", "unknown unit 'd'", id="days"),
        pytest.param("1 h", "unknown unit ' h'", id="space"),
        pytest.param("h", "'h' has no number", id="no-number"),
        pytest.param(".s", "'.s' has no number", id="point-only"),
        pytest.param("1h-5m", "unknown unit 'h-'", id="sign-inside"),
        pytest.param("1..5s", "has no unit", id="two-points"),
        pytest.param("\u0661s", "has no number", id="foreign-digit"),
        pytest.param("9223372036854775808ns", "292 years", id="too-large"),
        pytest.param("1" * 200 + "s", "longer than 128", id="too-long"),
    ],
)
def test_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="cannot read duration") as caught:
        durations.parse(text)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(0.0, "0s", id="zero"),
        pytest.param(5400.0, "1h30m0s", id="hours"),
        pytest.param(3600.0, "1h0m0s", id="one-hour"),
        pytest.param(61.5, "1m1.5s", id="minutes"),
        pytest.param(1.0, "1s", id="one-second"),
        pytest.param(0.25, "250ms", id="milliseconds"),
        pytest.param(0.0015, "1.5ms", id="fraction"),
        pytest.param(1.5e-6, "1.5us", id="microseconds"),
        pytest.param(7e-9, "7ns", id="nanoseconds"),
        pytest.param(-90.0, "-1m30s", id="negative"),
        pytest.param(1e-12, "0s", id="below-a-nanosecond"),
    ],
)
def test_format(seconds: float, text: str) -> None:
    assert durations.format_seconds(seconds) == text


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(float("inf"), id="inf"),
        pytest.param(float("nan"), id="nan"),
        pytest.param(1e10, id="beyond-int64"),
    ],
)
def test_not_a_duration(seconds: float) -> None:
    with pytest.raises(ValueError, match="cannot write"):
        durations.format_seconds(seconds)


@given(NANOSECONDS)
def test_round_trip(nanoseconds: int) -> None:
    seconds = nanoseconds / 10**9
    if abs(seconds) < 9223372036:  # the last fraction of a second rounds beyond what Go can hold
        assert durations.parse(durations.format_seconds(seconds)) == seconds


@given(st.text(alphabet="0123456789.+-hmsnu\u00b5 ", max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        seconds = durations.parse(text)
    except ValueError:
        return
    assert durations.parse(durations.format_seconds(seconds)) == seconds
