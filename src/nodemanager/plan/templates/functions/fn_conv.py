"""conv.*, test.* and the functions that only pass a value on."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from nodemanager.plan.templates.budget import CURRENT, AbsentEntry
from nodemanager.plan.templates.errors import FunctionError
from nodemanager.plan.templates.functions.registry import add, checked_size
from nodemanager.plan.templates.functions.values import boolean, integer, items, kind, number, text

_MESSAGE_MAX = 512


@add("conv.ToString")
def _to_string(value: Any) -> str:
    return text(value)


@add("conv.ToStrings")
def _to_strings(*values: Any) -> list[str]:
    return [text(each) for each in values]


@add("conv.ToBool", "conv.Bool", "bool")
def _to_bool(value: Any) -> bool:
    return boolean(value)


@add("conv.ToBools")
def _to_bools(*values: Any) -> list[bool]:
    return [boolean(each) for each in values]


@add("conv.ToInt", "conv.ToInt64", "conv.Atoi")
def _to_int(value: Any) -> int:
    return integer(value)


@add("conv.ToInts", "conv.ToInt64s")
def _to_ints(*values: Any) -> list[int]:
    return [integer(each) for each in values]


@add("conv.ToFloat64")
def _to_float(value: Any) -> float:
    return number(value)


@add("conv.ToFloat64s")
def _to_floats(*values: Any) -> list[float]:
    return [number(each) for each in values]


@add("conv.ParseInt", "conv.ParseUint")
def _parse_int(value: Any, base: Any, _bits: Any) -> int:
    try:
        return int(text(value)[:80], integer(base, "the base"))
    except ValueError:
        raise FunctionError("the text is not a number in that base") from None


@add("conv.ParseFloat")
def _parse_float(value: Any, _bits: Any) -> float:
    return number(text(value))


@add("conv.Join", "join")
def _join(values: Any, separator: str) -> str:
    parts = [text(each) for each in items(values, "the first argument")]
    checked_size(len(separator) * len(parts))
    return separator.join(parts)


@add("conv.Default", "default", deep=False, absent=True)
def _default(fallback: Any, value: Any) -> Any:
    return value or fallback


@add("conv.URL", "urlParse")
def _url(value: Any) -> dict[str, Any]:
    try:
        parts = urlsplit(text(value))
        host = parts.netloc.rpartition("@")[2]
        return {
            "Scheme": parts.scheme,
            "Host": host,
            "Hostname": parts.hostname or "",
            "Port": "" if parts.port is None else str(parts.port),
            "Path": parts.path,
            "RawQuery": parts.query,
            "Query": {key: [value] for key, value in parse_qsl(parts.query, keep_blank_values=True)},
            "Fragment": parts.fragment,
            "User": parts.username or "",
        }
    except ValueError:
        raise FunctionError("the text is not a URL") from None


def said(message: Any) -> str:
    """Return what the author says; where Secrets are about, only what the template itself spells out."""
    scope = CURRENT.get()
    if scope.secretive and text(message) not in scope.source:
        return "(the message was put together and could hold a secret)"
    return text(message)[:_MESSAGE_MAX]


@add("test.Fail", "fail")
def _fail(*message: Any) -> Any:
    raise FunctionError(said(message[0]) if message else "template generation failed")


@add("test.Assert", "assert")
def _assert(*arguments: Any) -> str:
    if not 1 <= len(arguments) <= 2:
        raise FunctionError("it takes a message, if any, and a condition")
    if boolean(arguments[-1]):
        return ""
    raise FunctionError("assertion failed" + (f": {said(arguments[0])}" if len(arguments) == 2 else ""))


@add("test.Required", "required", deep=False, absent=True)
def _required(*arguments: Any) -> Any:
    if not 1 <= len(arguments) <= 2:
        raise FunctionError("it takes a message, if any, and a value")
    value = arguments[-1]
    if value is None or value == "" or isinstance(value, AbsentEntry):
        message = said(arguments[0]) if len(arguments) == 2 and arguments[0] else ""
        raise FunctionError(message or "a required value was not given")
    return value


@add("test.Ternary", "ternary", deep=False, absent=True)
def _ternary(yes: Any, no: Any, condition: Any) -> Any:
    return yes if boolean(condition) else no


@add("test.Kind", "kind", deep=False, absent=True)
def _kind(value: Any) -> str:
    return kind(value)


@add("test.IsKind", "isKind", deep=False, absent=True)
def _is_kind(name: str, value: Any) -> bool:
    found = kind(value)
    return found in ("int", "float64") if name == "number" else found == name
