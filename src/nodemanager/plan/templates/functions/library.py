"""All functions of Go templates, gathered: importing this module imports every one of them."""

from __future__ import annotations

from nodemanager.plan.templates.functions import (  # noqa: F401 - registers what it defines
    fn_builtin,
    fn_coll,
    fn_compare,
    fn_conv,
    fn_encodings,
    fn_math,
    fn_net,
    fn_regexp,
    fn_strings,
)
from nodemanager.plan.templates.functions.refused import reason
from nodemanager.plan.templates.functions.registry import FUNCTIONS

GO = ("and", "break", "continue", "not", "or")
"""Functions that Go's template language has itself and that need no limit."""
_LONGEST = 64
"""Characters of a name that are compared with those that there are."""


def unknown(name: str) -> str:
    """Say what is wrong with a name that is no function, and what there is instead."""
    why = reason(name)
    if why is not None:
        return f"function {name} is not available: {why}"
    import difflib

    similar = difflib.get_close_matches(name[:_LONGEST], FUNCTIONS, n=3, cutoff=0.7)
    hint = f"did you mean {' or '.join(similar)}? " if similar else ""
    return f"there is no function {name}; {hint}there are: {', '.join(names())}"


def names() -> list[str]:
    """Return the names of all functions."""
    return sorted({*FUNCTIONS, *GO})
