"""Durations as Go writes them, "1h30m" or "250ms", to and from seconds.

Every duration in our API is such a string, because manifests of the Go project hold them.
"""

from __future__ import annotations

import re

MAX_TEXT = 128
"""Longest text we look at; the longest sensible duration has under 40 characters."""

_SECOND = 10**9
_LIMIT = 2**63 - 1
_UNITS = {
    "ns": 1, "us": 10**3, "\N{MICRO SIGN}s": 10**3, "\N{GREEK SMALL LETTER MU}s": 10**3, "ms": 10**6,
    "s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND,
}  # fmt: skip
_PART = re.compile(r"(?P<whole>[0-9]*)\.?(?P<fraction>[0-9]*)(?P<unit>[^0-9.]*)")
_HINT = 'write it like "1h30m", "45s" or "250ms"'


def parse(text: str) -> float:
    """Return the seconds a Go duration stands for; raise ValueError for anything Go refuses."""
    return nanoseconds(text) / _SECOND


def nanoseconds(text: str) -> int:
    """Return the nanoseconds a Go duration stands for; raise ValueError for anything Go refuses."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"cannot read duration {text[:20]!r}...: longer than {MAX_TEXT} characters; {_HINT}")
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text[1:] if text[:1] == "+" else text)
    if rest == "0":  # the one number that needs no unit
        return 0
    if not rest:
        raise ValueError(f"cannot read duration {text!r}: it is empty; {_HINT}")
    total, position = 0, 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None or part.end() == position:
            raise ValueError(f"cannot read duration {text!r}: {rest[position:]!r} is not a number; {_HINT}")
        total += _part(part, text)
        position = part.end()
    if total > _LIMIT + (sign < 0):
        raise ValueError(f"cannot read duration {text!r}: longer than 292 years")
    return sign * total


def _part(part: re.Match[str], text: str) -> int:
    whole: str = part["whole"]
    fraction: str = part["fraction"]
    unit: str = part["unit"]
    if not whole and not fraction:
        raise ValueError(f"cannot read duration {text!r}: {part[0]!r} has no number; {_HINT}")
    if not unit:
        raise ValueError(f"cannot read duration {text!r}: {part[0]!r} has no unit; {_HINT}")
    size = _UNITS.get(unit)
    if size is None:
        raise ValueError(
            f"cannot read duration {text!r}: unknown unit {unit!r}; there are ns, us, ms, s, m and h, no days"
        )
    scale: int = 10 ** len(fraction)
    return int(whole or "0") * size + int(fraction or "0") * size // scale


def format_seconds(seconds: float) -> str:
    """Return seconds, to the nanosecond, as Go prints a duration: "1h30m0s", "250ms", "0s".

    But for "us", where Go prints a Greek letter and reads both: what hosts report is ASCII.
    """
    try:
        numerator, denominator = seconds.as_integer_ratio()
    except (OverflowError, ValueError):
        raise ValueError(f"cannot write {seconds} as a duration: it is not a finite number") from None
    total = (abs(numerator) * _SECOND * 2 + denominator) // (2 * denominator)  # exact, unlike seconds * 1e9
    if total > _LIMIT:
        raise ValueError(f"cannot write {seconds} seconds as a duration: longer than 292 years")
    if total == 0:
        return "0s"
    return ("-" if numerator < 0 else "") + _format(total)


def _format(total: int) -> str:
    for unit, size in (("ns", 1), ("us", 10**3), ("ms", 10**6)):
        if total < size * 1000:
            return _decimal(total, size) + unit
    minutes, rest = divmod(total, 60 * _SECOND)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours}h" if hours else ""
    if hours or minutes:
        text += f"{minutes}m"
    return text + _decimal(rest, _SECOND) + "s"


def _decimal(value: int, size: int) -> str:
    whole, rest = divmod(value, size)
    digits = len(str(size)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)
