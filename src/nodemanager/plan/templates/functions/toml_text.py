"""TOML as templates read it; imported with the first one that does."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

from nodemanager.plan.templates.budget import DEPTH_MAX
from nodemanager.plan.templates.errors import FunctionError, TooMuch

_TOKEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)'
    r"|'''.*?(?:'''|\Z)"
    r'|"(?:\\.|[^"\\\n])*"?'
    r"|'[^'\n]*'?"
    r"|#[^\n]*"
    r"|(?P<mark>[.=,{}\[\]\n])",
    re.DOTALL,
)
"""Texts and comments, which are skipped, and what the depth of keys and values follows from."""


def parsed(text: str) -> dict[str, Any]:
    """Return what a TOML text says."""
    _check(text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise FunctionError("the text is not TOML") from None


def _check(text: str) -> None:
    """Refuse deep keys and values: of a key of n parts, the library remembers n keys of up to n parts."""
    parts = depth = 0
    for token in _TOKEN.finditer(text):
        mark = token["mark"]
        if mark == ".":
            parts += 1
        elif mark is not None:
            parts = 0
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark, 0)
        if parts > DEPTH_MAX or depth > DEPTH_MAX:
            raise TooMuch(f"the TOML text is nested deeper than {DEPTH_MAX} levels")
