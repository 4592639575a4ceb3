"""Variables in a text, as the Go program expands them: `${NAME}`, `${NAME:-default}`, `$$` for a dollar."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_USE: Final = re.compile(
    r"\$\$|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<form>:?[-=])(?P<default>[^{}\n]*))?\}|\$\{[^}\n]{0,80}\}?"
)


class ExpansionError(ValueError):
    """A text has something in it that looks like a variable and is none."""


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Return a text with the values of variables in it; one that is not set, and has no default, is empty."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        if not found["name"]:
            raise ExpansionError(f"{found[0]!r} is not understood; write ${{NAME}} or ${{NAME:-default}}")
        given = environ.get(found["name"])
        absent = given is None or (given == "" and (found["form"] or "").startswith(":"))
        return (found["default"] or "") if absent else str(given)

    return _USE.sub(value, text)
