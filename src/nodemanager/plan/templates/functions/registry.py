"""Names of template functions and what they do; a function is called with JSON values only."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

from nodemanager.plan.templates.budget import CURRENT, AbsentEntry, weigh
from nodemanager.plan.templates.errors import NOT_TEXT, FunctionError, MissingKey

Function = Callable[..., Any]
_F = TypeVar("_F", bound=Function)

FUNCTIONS: Final[dict[str, Function]] = {}
"""Every function by every name it has, as a template writes it."""
ALIASES: Final[dict[str, str]] = {}
"""Short names, and the full ones they stand for."""


def add(name: str, *aliases: str, deep: bool = True, absent: bool = False) -> Callable[[_F], _F]:
    """Register a function; one that is not `deep` looks at its arguments, not into them.

    Only one that takes what is `absent` is called with a key that is missing.
    """

    def register(function: _F) -> _F:
        limited = _limited(name, function, deep=deep, absent=absent)
        for each in (name, *aliases):
            if each in FUNCTIONS:
                raise AssertionError(f"{each} is registered twice")
            FUNCTIONS[each] = limited
        ALIASES.update(dict.fromkeys(aliases, name))
        return function

    return register


def _limited(name: str, function: Function, *, deep: bool, absent: bool) -> Function:
    @functools.wraps(function)
    def limited(*arguments: Any) -> Any:
        meter = CURRENT.get().meter
        meter.call()
        plain = tuple(_plain(each) for each in arguments)
        if not absent:
            for each in plain:
                if isinstance(each, AbsentEntry):
                    raise MissingKey(each.why)
        meter.work(sum(map(weigh, plain)) if deep else sum(map(_size, plain)))
        try:
            return meter.take(function(*plain))
        except MissingKey:
            raise
        except FunctionError as error:
            raise type(error)(f"{name}: {error}") from None
        except UnicodeError:
            raise FunctionError(f"{name}: {NOT_TEXT}") from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
            raise FunctionError(f"{name}: it cannot work with these arguments") from None

    return limited


def _size(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes, list, dict)) else 1


def _plain(value: Any) -> Any:
    """Return the argument; what the library uses for 'no value' becomes None."""
    if value is None or isinstance(value, (str, bytes, bool, int, float, list, dict)):
        return value
    if type(value).__module__.startswith("gotpl."):
        return None
    raise FunctionError(f"a value of type {type(value).__name__} is not for templates")


def checked_size(size: int) -> int:
    """Refuse a text before it is made, if it would be too long."""
    CURRENT.get().meter.work(size)
    return size
