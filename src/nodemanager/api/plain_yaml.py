"""The little YAML that programs write: maps, lists and words, each on a line of its own, nothing quoted.

A kubeconfig is mostly that. To read it, an agent would otherwise hold PyYAML for its life, more than a
mebibyte. What is not certain to be understood here is left to PyYAML: nobody has to know the difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from nodemanager.api import scalars

MAX_TEXT: Final = 64 * 1024
"""Most characters: whoever reads more has work to do that needs PyYAML anyway."""
MAX_DEPTH: Final = 16
_LINE: Final = re.compile(r"( *)((?:- )*)(?:([A-Za-z][\w./-]{0,99}):(?: |\Z))?(.*)", re.ASCII)
_WORD: Final = re.compile(r"[A-Za-z0-9/](?:[\w+/=.@%~-]|:(?=[\w/]))*", re.ASCII)


class _Unclear(Exception):
    """This is for PyYAML to decide."""


class _Part(NamedTuple):
    """The dash of an item (no key, no value), a key with its value if that is beside it, or a bare value."""

    column: int
    key: str
    value: str

    @property
    def is_dash(self) -> bool:
        return not self.key and not self.value


def read(text: str) -> tuple[int, dict[str, Any]] | None:
    """Return the map that a text is, and its line, if it is as plain as can be; None = ask PyYAML."""
    if len(text) > MAX_TEXT:
        return None
    lines = list(enumerate(text.split("\n"), 1))
    lines = [(number, line) for number, line in lines if line and not line.lstrip(" ").startswith("#")]
    try:
        parts = [part for _, line in lines for part in _parts(line)]
        value, end = _node(parts, 0, 0)
    except _Unclear:
        return None
    return (lines[0][0], value) if end == len(parts) and isinstance(value, dict) else None


def _parts(line: str) -> Iterator[_Part]:
    found = _LINE.fullmatch(line)
    if found is None:
        raise _Unclear
    indent, dashes, key, value = found.groups("")
    column = len(indent)
    for _ in range(len(dashes) // 2):
        yield _Part(column, "", "")
        column += 2
    if not key and not value:
        raise _Unclear
    yield _Part(column, key, value)


def _node(parts: list[_Part], at: int, depth: int) -> tuple[Any, int]:
    """Return the value that begins at a part, and where it ends."""
    if at == len(parts) or depth > MAX_DEPTH:
        raise _Unclear
    value: Any
    if parts[at].is_dash:
        value, end = _list(parts, at, depth)
    elif parts[at].key:
        value, end = _map(parts, at, depth)
    else:
        value, end = _scalar(parts[at].value), at + 1
    if end < len(parts) and parts[end].column > parts[at].column:
        raise _Unclear  # a text of several lines, or a mistake
    return value, end


def _list(parts: list[_Part], at: int, depth: int) -> tuple[list[Any], int]:
    column, items = parts[at].column, []
    while at < len(parts) and parts[at].is_dash and parts[at].column == column:
        value, at = _node(parts, at + 1, depth + 1)
        items.append(value)
    return items, at


def _map(parts: list[_Part], at: int, depth: int) -> tuple[dict[str, Any], int]:
    column, entries = parts[at].column, dict[str, Any]()
    while at < len(parts) and parts[at].key and parts[at].column == column:
        _, key, value = parts[at]
        if key in entries or not scalars.is_text(key):
            raise _Unclear
        at += 1
        if value:
            entries[key] = _scalar(value)
        elif (
            at < len(parts) and parts[at].column + parts[at].is_dash > column
        ):  # a list may begin below its key
            entries[key], at = _node(parts, at, depth + 1)
        else:
            raise _Unclear
    return entries, at


def _scalar(value: str) -> Any:
    if value in ("{}", "[]"):
        return {} if value == "{}" else []
    if not _WORD.fullmatch(value):
        raise _Unclear
    try:
        return scalars.plain(value)
    except ValueError:
        raise _Unclear from None
