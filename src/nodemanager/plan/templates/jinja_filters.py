"""What Jinja2 templates may call: a list of filters, tests, methods and functions, and nothing else.

Jinja2's own filters are here where they cannot grow beyond what goes in; the others are replaced by
ones that look at the size first, or left out (`random` would never converge).
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jinja2.filters import FILTERS as JINJA
from jinja2.tests import TESTS as JINJA_TESTS
from jinja2.utils import Namespace

from nodemanager.plan.templates.budget import CURRENT, LOOPS_MAX, weigh
from nodemanager.plan.templates.errors import FunctionError, TooMuch
from nodemanager.plan.templates.functions.fn_conv import said
from nodemanager.plan.templates.functions.fn_encodings import (
    decoded,
    parsed_json,
    parsed_yaml,
    to_json,
    to_yaml,
)
from nodemanager.plan.templates.functions.fn_regexp import spans, substituted
from nodemanager.plan.templates.functions.fn_strings import indented, replaced, shell_quoted
from nodemanager.plan.templates.functions.registry import checked_size
from nodemanager.plan.templates.functions.values import as_bytes, as_text
from nodemanager.plan.templates.jinja_counting import counted

_KEPT: Final = (
    "abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "groupby", "int", "items",
    "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "select",
    "selectattr", "sort", "string", "sum", "title", "trim", "truncate", "unique", "upper", "urlencode",
    "wordcount",
)  # fmt: skip
_TEXT_METHODS: Final = (
    "capitalize", "endswith", "find", "isalnum", "isalpha", "isdigit", "islower", "isupper", "lower",
    "lstrip", "removeprefix", "removesuffix", "rsplit", "rstrip", "split", "splitlines", "startswith",
    "strip", "title", "upper",
)  # fmt: skip
_DIGITS_MAX: Final = 15


def _join(values: Iterable[Any], separator: str = "", attribute: str | None = None) -> str:
    if attribute is not None:
        raise FunctionError("join has no attribute here: use map(attribute=...) before it")
    parts = [str(each) for each in values]
    checked_size(len(separator) * len(parts) + sum(map(len, parts)))
    return separator.join(parts)


def _replace(value: Any, old: str, new: str) -> str:
    return replaced(str(value), old, new)


def _indent(value: Any, width: int = 4, first: bool = False, blank: bool = False) -> str:
    head, line_break, rest = str(value).partition("\n")
    if blank:
        raise FunctionError("indent leaves empty lines alone here")
    if not first:
        return head + line_break + (indented(rest, width) if rest else "")
    return indented(str(value), width)


def _round(value: Any, precision: int = 0, method: str = "common") -> float:
    if not 0 <= precision <= _DIGITS_MAX:
        raise FunctionError(f"the precision must be 0 to {_DIGITS_MAX}")
    return float(JINJA["round"](value, precision, method))


def _b64encode(value: Any) -> str:
    return base64.b64encode(value if isinstance(value, bytes) else as_bytes(str(value))).decode()


def _b64decode(value: str) -> str:
    return as_text(decoded(value))


def _hash(value: Any, algorithm: str = "sha256") -> str:
    if algorithm not in ("sha1", "sha224", "sha256", "sha384", "sha512"):
        raise FunctionError("the hash must be sha1, sha224, sha256, sha384 or sha512")
    return hashlib.new(algorithm, as_bytes(str(value))).hexdigest()


def _pretty_json(value: Any, indent: int = 2) -> str:
    return to_json(value, " " * min(max(indent, 0), 16))


def _regex_replace(value: Any, pattern: str, replacement: str) -> str:
    return substituted(pattern, replacement, str(value))


def _regex_search(value: Any, pattern: str) -> str:
    return next((str(value)[begin:end] for begin, end in spans(pattern, str(value), 1)), "")


def _regex_findall(value: Any, pattern: str) -> list[str]:
    return [str(value)[begin:end] for begin, end in spans(pattern, str(value))]


def _to_json(value: Any, indent: int | None = None) -> str:
    return to_json(value) if indent is None else _pretty_json(value, indent)


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    **{name: JINJA[name] for name in _KEPT},
    "b64decode": _b64decode,
    "b64encode": _b64encode,
    "from_json": parsed_json,
    "from_yaml": parsed_yaml,
    "hash": _hash,
    "indent": _indent,
    "join": _join,
    "quote": shell_quoted,
    "regex_findall": _regex_findall,
    "regex_replace": _regex_replace,
    "regex_search": _regex_search,
    "replace": _replace,
    "round": _round,
    "to_json": _to_json,
    "to_nice_json": _pretty_json,
    "to_yaml": to_yaml,
    "tojson": _to_json,
}

_NO_TESTS: Final = ("callable", "escaped", "sameas")


def tests() -> dict[str, Any]:
    """Return the tests of Jinja2 that make sense for data."""
    return {name: test for name, test in JINJA_TESTS.items() if name not in _NO_TESTS}


@dataclass(frozen=True, slots=True)
class Method:
    """A method that values of some types have in templates."""

    kinds: tuple[type, ...]
    function: Callable[..., Any]

    def bound(self, value: Any) -> Any:
        """Return the method of one value, ready to be called."""
        CURRENT.get().meter.work(weigh(value))
        return counted(functools.partial(self.function, value))


def _get(values: dict[str, Any], key: str, default: Any = None) -> Any:
    find = getattr(values, "find", values.__getitem__)
    try:
        return find(key)
    except KeyError:
        return default


def _joined(separator: str, values: Iterable[Any]) -> str:
    return _join(values, separator)


_TEXT = (str,)
METHODS: Final[Mapping[str, Method]] = {
    **{name: Method(_TEXT, getattr(str, name)) for name in _TEXT_METHODS},
    "count": Method((str, list, tuple), lambda value, part: value.count(part)),
    "replace": Method(_TEXT, _replace),
    "join": Method(_TEXT, _joined),
    "items": Method((dict,), lambda values: list(values.items())),
    "keys": Method((dict,), list),
    "values": Method((dict,), lambda values: list(values.values())),
    "get": Method((dict,), _get),
    "index": Method((list, tuple), lambda values, part: values.index(part)),
}


@counted
def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers) > LOOPS_MAX:
        raise TooMuch(f"range has more than {LOOPS_MAX} numbers")
    return numbers


@counted
def _namespace(**values: Any) -> Namespace:
    return Namespace(**values)


@counted
def _dict(*pairs: Any, **values: Any) -> dict[str, Any]:
    return dict(*pairs, **values)


@counted
def _fail(message: Any = "template generation failed") -> Any:
    raise FunctionError(said(message))


GLOBALS: Final[Mapping[str, Any]] = {
    "dict": _dict,
    "fail": _fail,
    "namespace": _namespace,
    "range": _range,
}
