"""Texts for people: cut to the available room, with the right singular or plural."""

from __future__ import annotations

from collections.abc import Sequence
from typing import AnyStr, Final

GAP: Final = " ... "
_TAIL: Final = 0.6
"""The part of the room that the end gets."""
_WORD: Final = 24
"""A word that is longer is cut."""


def shorten(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters.

    What is left out is in its middle: the beginning says what it is about, the end what to do.
    """
    if len(text) <= limit:
        return text
    head, tail = _ends(text, limit, " ")
    return head + GAP + tail


def shorten_bytes(text: str, limit: int) -> str:
    """Return a text of at most `limit` bytes; what is no Unicode in it becomes a question mark."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    head, tail = _ends(data, limit, b" ")
    return head.decode("utf-8", "ignore") + GAP + tail.decode("utf-8", "ignore")


def _ends(text: AnyStr, limit: int, space: AnyStr) -> tuple[AnyStr, AnyStr]:
    """Return the beginning and the end for which there is room, of whole words unless these are very long."""
    tail = int((limit - len(GAP)) * _TAIL)
    head, start = limit - len(GAP) - tail, len(text) - tail
    before = text.rfind(space, max(head - _WORD, 1), head + 1)
    after = text.find(space, start - 1, min(start + _WORD, len(text) - 1))
    return text[: before if before >= 0 else head], text[after + 1 if after >= 0 else start :]


def flat(text: str, limit: int) -> str:
    """Return a foreign text as one line of at most `limit` characters that moves no cursor."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return shorten(line, limit)


def plural(count: int, one: str, many: str = "") -> str:
    """Return how many there are: `1 host`, `2 hosts`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def listed(names: Sequence[str], most: int, total: int = 0) -> str:
    """Return some names, and how many there are besides, here or in all: `a, b and 3 more`."""
    more = max(total, len(names)) - min(most, len(names))
    return ", ".join(names[:most]) + (f" and {more} more" if more else "")
