"""The string functions that Kubernetes offers: the strings extension of cel-go, version 2, and regex."""

from __future__ import annotations

from typing import Any

from nodemanager.kube.cel import regexes
from nodemanager.kube.cel.errors import CelError
from nodemanager.kube.cel.registry import Library

LIBRARY = Library()
_add = LIBRARY.add
MAX_RESULT = 10_000_000
"""How long a text may become; a short rule could otherwise multiply a long one."""

_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_QUOTED = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def _bounded(size: int) -> None:
    if size > MAX_RESULT:
        raise CelError(f"cannot build the text: it would have more than {MAX_RESULT} characters")


@_add("charAt", "string.(int) -> string")
def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


@_add("indexOf", "string.(string) -> int", "string.(string, int) -> int")
def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise CelError(f"index out of range: {offset}")
    return text.find(part, offset)


_add("lastIndexOf", "string.(string) -> int")(str.rfind)


@_add("lastIndexOf", "string.(string, int) -> int")
def _last_index_of_from(text: str, part: str, offset: int) -> int:
    if not part:
        return offset
    if offset < 0:
        raise CelError(f"index out of range: {offset}")
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


@_add("join", "list<string>.() -> string", "list<string>.(string) -> string")
def _join(items: list[Any], separator: str = "") -> str:
    if not all(isinstance(item, str) for item in items):
        raise CelError("no such overload")
    _bounded(sum(map(len, items)) + len(separator) * len(items))
    return separator.join(items)


_add("lowerAscii", "string.() -> string")(lambda text: text.translate(_LOWER))
_add("upperAscii", "string.() -> string")(lambda text: text.translate(_UPPER))


@_add("replace", "string.(string, string) -> string", "string.(string, string, int) -> string")
def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    count = text.count(old)
    _bounded(len(text) + len(new) * (count if limit < 0 else min(count, limit)))
    return text.replace(old, new, limit)


@_add("split", "string.(string) -> list<string>", "string.(string, int) -> list<string>")
def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    parts = list(text)
    if limit > 0 and len(parts) > limit:
        parts[limit - 1 :] = ["".join(parts[limit - 1 :])]
    return parts


@_add("substring", "string.(int) -> string", "string.(int, int) -> string")
def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    if not 0 <= last <= len(text):
        raise CelError(f"index out of range: {last}")
    if start > last:
        raise CelError(f"invalid substring range. start: {start}, end: {last}")
    return text[start:last]


_add("trim", "string.() -> string")(lambda text: text.strip(_SPACE))


@_add("strings.quote", "(string) -> string")
def _quote(text: str) -> str:
    return '"' + "".join(_QUOTED.get(char, char) for char in text) + '"'


@_add("find", "string.(string) -> string")
def _find(text: str, pattern: str) -> str:
    place = regexes.use(pattern, lambda compiled: compiled.find(text))
    return text[place[0] : place[1]] if place else ""


@_add("findAll", "string.(string) -> list<string>", "string.(string, int) -> list<string>")
def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return regexes.use(pattern, lambda compiled: compiled.find_all(text, limit))
