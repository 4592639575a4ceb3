"""What can go wrong while a template is rendered.

The data of a template may be a Secret, and an error ends up in a status, an Event and a log: no
message here ever repeats a value, only names, types and places.
"""

from __future__ import annotations

from collections.abc import Iterable

MASK = "(secret)"
NOT_TEXT = (
    "the bytes are no UTF-8 text, and it works on text; write them into the file as they are, with"
    " contentFrom in place of template"
)
"""Why a function cannot be used on bytes, and what to write instead."""
WHY_MAX = 4_000
"""Characters of an error: what a template spells may be long, and a status holds many."""
_SHORTEST = 4


class TemplateError(ValueError):
    """A template that cannot be rendered; reads `cannot render NAME: line 3: why`."""

    def __init__(self, name: str, why: str, line: int | None = None, column: int | None = None) -> None:
        where = (
            "" if line is None else f"line {line}: " if column is None else f"line {line}, column {column}: "
        )
        why = why if len(why) <= WHY_MAX else f"{why[:WHY_MAX]}..."
        super().__init__(f"cannot render {name}: {where}{why}")
        self.name = name
        self.line = line
        self.column = column
        self.why = why


class NotRendered(TemplateError):
    """The template was not rendered to its end: it met a limit, or there was no process to render it.

    Unlike what a template itself does wrong, that may be otherwise the next time with the same data.
    """


class FunctionError(ValueError):
    """A function of a template refused its arguments; the text is ours and holds none of them."""


class MissingKey(FunctionError):
    """The template uses a key that is not there."""


class TooMuch(FunctionError):
    """The template wants more work, memory or output than any configuration file needs."""


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return the text without the secrets, as a second line of defence: a template may fail on purpose."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, MASK)
    return text
