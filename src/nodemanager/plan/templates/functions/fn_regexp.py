"""regexp.*: Go's expressions, in time that grows with the text and with nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nodemanager.kube.go.regex import TooMuchWork
from nodemanager.kube.go.regex_syntax import RegexError
from nodemanager.kube.schemas.patterns import Matcher, compile_pattern
from nodemanager.plan.templates.errors import FunctionError, TooMuch
from nodemanager.plan.templates.functions.registry import add, checked_size
from nodemanager.plan.templates.functions.values import integer, text

_LONGEST = 100_000
_GROUP = re.compile(r"\$(?:\$|([A-Za-z0-9_]+)|\{([A-Za-z0-9_]+)\})")


def compiled(pattern: str) -> Matcher:
    """Return the matcher of a Go expression."""
    try:
        return compile_pattern(pattern)
    except RegexError:
        raise FunctionError("the regular expression is not one that Go accepts") from None


def spans(pattern: str, value: str, limit: int = -1) -> Iterator[tuple[int, int]]:
    """Yield where the matches are that do not overlap, as Go's `FindAll` counts them."""
    if len(value) > _LONGEST:
        raise TooMuch(f"the text is longer than {_LONGEST} characters")
    matcher = compiled(pattern)
    at, last_end, found = 0, -1, 0
    while at <= len(value) and (limit < 0 or found < limit):
        try:
            place = matcher.find(value, at)
        except TooMuchWork:
            raise TooMuch("the regular expression takes too long on this text") from None
        checked_size(((place[1] if place else len(value)) - at + 1) * 16)
        if place is None:
            return
        begin, end = place
        if begin != end or begin != last_end:
            found += 1
            yield place
        last_end = end
        at = end if end > begin else end + 1


def _limited(arguments: tuple[Any, ...]) -> tuple[str, int, str]:
    if len(arguments) == 2:
        return text(arguments[0]), -1, text(arguments[1])
    if len(arguments) == 3:
        return text(arguments[0]), integer(arguments[1], "the count"), text(arguments[2])
    raise FunctionError("it takes an expression, a count if any, and a text")


@add("regexp.Find")
def _find(pattern: Any, value: Any) -> str:
    return next((text(value)[begin:end] for begin, end in spans(text(pattern), text(value), 1)), "")


@add("regexp.FindAll")
def _find_all(*arguments: Any) -> list[str]:
    pattern, limit, value = _limited(arguments)
    return [value[begin:end] for begin, end in spans(pattern, value, limit)]


@add("regexp.Match")
def _match(pattern: Any, value: Any) -> bool:
    return matches(text(pattern), text(value))


def matches(pattern: str, value: str) -> bool:
    """Tell whether a Go expression matches anywhere in the text."""
    try:
        return compiled(pattern).search(value)
    except TooMuchWork:
        raise TooMuch("the regular expression takes too long on this text") from None


@add("regexp.QuoteMeta")
def _quote_meta(value: Any) -> str:
    return re.sub(r"[\\.+*?()|\[\]{}^$]", lambda found: "\\" + found.group(), text(value))


@add("regexp.ReplaceLiteral")
def _replace_literal(pattern: Any, replacement: Any, value: Any) -> str:
    return _replaced(text(pattern), text(value), lambda _: text(replacement))


@add("regexp.Replace")
def _replace(pattern: Any, replacement: Any, value: Any) -> str:
    return substituted(text(pattern), text(replacement), text(value))


def substituted(pattern: str, replacement: str, value: str) -> str:
    """Replace all matches; $1, ${1} and ${name} stand for groups, $$ for a dollar sign."""
    if "$" not in replacement:
        return _replaced(pattern, value, lambda _: replacement)
    matcher = compiled(pattern)

    def expanded(place: tuple[int, int]) -> str:
        def group(reference: re.Match[str]) -> str:
            name = reference.group(1) or reference.group(2)
            if name is None:
                return "$"
            if name == "0":
                return value[place[0] : place[1]]
            return _group(matcher, value, place, name)

        return _GROUP.sub(group, replacement)

    return _replaced(pattern, value, expanded)


def _group(matcher: Matcher, value: str, place: tuple[int, int], name: str) -> str:
    found = matcher.groups(value, *place)
    if found is None:
        raise FunctionError(
            "groups need a simpler regular expression: at most two of * + {} and short matches"
        )
    try:
        return found.group(int(name) if name.isdecimal() else name) or ""
    except IndexError:
        return ""  # as in Go


def _replaced(pattern: str, value: str, expand: Any) -> str:
    out: list[str] = []
    at = 0
    for begin, end in spans(pattern, value):
        new = expand((begin, end))
        checked_size(len(new))
        out.extend((value[at:begin], new))
        at = end
    return "".join((*out, value[at:]))


@add("regexp.Split")
def _split(*arguments: Any) -> list[str]:
    pattern, limit, value = _limited(arguments)
    if limit == 0:
        return []
    if pattern and not value:
        return [""]
    parts: list[str] = []
    at = 0
    for begin, end in spans(pattern, value):
        if limit > 0 and len(parts) == limit - 1:
            break
        if end == 0:
            continue
        parts.append(value[at:begin])
        at = end
    else:
        if at == len(value) and parts and _ends_empty(pattern, value):
            return parts
    return [*parts, value[at:]]


def _ends_empty(pattern: str, value: str) -> bool:
    """Tell whether the last match is the empty one at the end, after which Go adds nothing."""
    last = list(spans(pattern, value))[-1]
    return last == (len(value), len(value))


def glob_matches(pattern: str, name: str) -> bool:
    """Match a shell pattern as Go's `path.Match` does: * and ? stop at a slash."""
    out = ["^"]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[":
            end = pattern.find("]", at + 1)
            if end < 0:
                raise FunctionError("the pattern has a [ without ]")
            out.append("[" + pattern[at:end].replace("[", "\\[") + "]")
            at = end + 1
        else:
            if char == "\\" and at < len(pattern):
                char, at = pattern[at], at + 1
            out.append(re.escape(char) if char.isascii() else char)
    return matches("".join(out) + "$", name)
