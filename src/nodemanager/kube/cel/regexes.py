"""Go's regular expressions as functions of CEL use them: their errors become errors of the expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from nodemanager.kube.cel.errors import CelError, CostExceeded
from nodemanager.kube.go import regex
from nodemanager.kube.go.regex import Regex
from nodemanager.kube.go.regex_syntax import RegexError

_Found = TypeVar("_Found")


def use(pattern: str, of: Callable[[Regex], _Found]) -> _Found:
    """Return what `of` finds with a pattern; raise CelError if RE2 refuses it or it takes too long."""
    try:
        return of(regex.compile_pattern(pattern))
    except regex.TooMuchWork:
        raise CostExceeded from None
    except RegexError as why:
        raise CelError(str(why)) from None


def check(pattern: str) -> Regex:
    """Return the automaton of a pattern; raise CelError if RE2 refuses it."""
    return use(pattern, lambda compiled: compiled)
