"""Values as Go prints them, because refusals of Kubernetes quote values in Go's own way."""

from __future__ import annotations

import math
from typing import Any

MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)

_SHORT = {
    "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v",
    "\\": r"\\", '"': r"\"",
}  # fmt: skip
_JSON_SHORT = {
    '"': r"\"", "\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\b": r"\b", "\f": r"\f",
    "<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029",
}  # fmt: skip


def is_integer(value: object) -> bool:
    """Tell whether Kubernetes would hold this number as an int64; a larger one becomes a float."""
    return type(value) is int and MIN_INT64 <= value <= MAX_INT64


def quote(text: str) -> str:
    """Return a string as `%q` prints it."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_quoted_character, text)) + '"'


def _quoted_character(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def number(value: float) -> str:
    """Return a number as `%v` prints it."""
    if is_integer(value):
        return str(value)
    digits, exponent = _shortest(float(value))
    if exponent < -4 or exponent >= 6:
        # Whatever the number of digits: 2147483648.0 is printed as 2.147483648e+09.
        return _scientific(digits, exponent, 2)
    return _positional(digits, exponent)


def json_number(value: float) -> str:
    """Return a number as `encoding/json` writes it."""
    if is_integer(value):
        return str(value)
    size = abs(float(value))
    digits, exponent = _shortest(float(value))
    if size and (size < 1e-6 or size >= 1e21):
        return _scientific(digits, exponent, 1 if exponent < 0 else 2)
    return _positional(digits, exponent)


def _shortest(value: float) -> tuple[str, int]:
    """Return sign and digits of the shortest text that reads back the same, and the exponent."""
    if not math.isfinite(value):
        raise ValueError(f"cannot print {value}: JSON has no such number")
    mantissa, _, exponent = f"{value!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return f"{sign}0", 0
    leading = len(whole.lstrip("0")) or len(digits) - len(fraction)
    return sign + (digits.rstrip("0") or "0"), leading - 1 + int(exponent or 0)


def _scientific(digits: str, exponent: int, width: int) -> str:
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):0{width}d}"


def _positional(digits: str, exponent: int) -> str:
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    fraction = digits[exponent + 1 :]
    return f"{sign}{whole}.{fraction}" if fraction else sign + whole


def json_text(value: Any) -> str:
    """Return a value as `json.Marshal` writes it: sorted keys, no blanks, HTML characters escaped."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return json_number(value)
        case str():
            return '"' + "".join(map(_json_character, value)) + '"'
        case dict():
            pairs = (f"{json_text(key)}:{json_text(value[key])}" for key in sorted(value))
            return "{" + ",".join(pairs) + "}"
    return "[" + ",".join(map(json_text, value)) + "]"


def _json_character(character: str) -> str:
    if character in _JSON_SHORT:
        return _JSON_SHORT[character]
    return f"\\u{ord(character):04x}" if character < " " else character


def bad_value(value: Any) -> str:
    """Return a refused value as `field.Error` prints it."""
    match value:
        case bool() | None:
            return json_text(value)
        case int() | float():
            return number(value)
        case str():
            return quote(value)
    return json_text(value)
