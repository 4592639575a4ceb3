"""Rewrites the actions of a Go template into what our Go template library can parse.

Two things it cannot read: gomplate's namespaces (`strings.ToUpper`), and the square brackets of the Go
project's documentation (`.Node.Labels["role"]`), which Go itself refuses too. Both are replaced by
what means the same; no line is added or removed, so that errors name the right one.
"""

from __future__ import annotations

import re
from typing import Final

DOT: Final = "\u01c3"
"""Stands for the dot in the name of a function; to the library it is a letter like any other."""

_OPEN = "{{"
_TOKEN: Final = re.compile(
    r'(?P<text>"(?:[^"\\\n]|\\.)*"|`[^`]*`|\'(?:[^\'\\\n]|\\.)*\')'
    r"|(?P<close>\}\})"
    r"|(?P<space>[ \t\r\n]+)"
    r"|(?P<function>[A-Za-z_]\w*\.[A-Za-z_]\w*)"
    r"|(?P<operand>\$\w*|[.]\w*|\))"
    r"|(?P<word>\w+)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_COMMENT = re.compile(r"(?:- |-\t|-\n|-\r)?/\*")


def function_name(written: str) -> str:
    """Return the name under which a function of the template is known to the library."""
    return written.replace(".", DOT)


def readable(text: str) -> str:
    """Return a text of the library with the names that people wrote."""
    return text.replace(DOT, ".")


def rewrite(source: str) -> str:
    """Return the template with its actions in the library's own words."""
    out: list[str] = []
    at = 0
    while True:
        start = source.find(_OPEN, at)
        if start < 0:
            out.append(source[at:])
            return "".join(out)
        start += len(_OPEN)
        out.append(source[at:start])
        if _COMMENT.match(source, start):
            end = source.find("*/", start)
            at = len(source) if end < 0 else end
            out.append(source[start:at])
            continue
        action = _Action(source, start)
        at = action.rewrite()
        out.extend("(index " * action.wraps.get(place, 0) + text for place, text in enumerate(action.out))


class _Action:
    """One action, token by token, and where the operand began that a bracket may follow."""

    def __init__(self, source: str, start: int) -> None:
        self.source = source
        self.at = start
        self.out: list[str] = []
        self.wraps: dict[int, int] = {}
        self.opened: list[int] = []
        self.operand: int | None = None
        self.brackets = 0

    def rewrite(self) -> int:
        """Read the action; return where the template goes on."""
        while self.at < len(self.source):
            token = _TOKEN.match(self.source, self.at)
            if token is None:  # cannot be: the last alternative matches anything
                break
            kind = token.lastgroup or "other"
            self.at = token.end()
            if kind == "close":
                self.out.append(token.group())
                break
            self._take(kind, token.group())
        return self.at

    def _take(self, kind: str, text: str) -> None:
        if kind == "operand":
            self._operand(text)
            return
        if text == "[" and self.operand is not None:
            self.wraps[self.operand] = self.wraps.get(self.operand, 0) + 1
            self.out.append(" ")
            self.opened.append(self.operand)
            self.brackets += 1
            self.operand = None
            return
        if text == "]" and self.brackets:
            self.out.append(")")
            self.brackets -= 1
            self.operand = self.opened.pop()
            return
        if text == "(":
            self.opened.append(len(self.out))
        self.out.append(function_name(text) if kind == "function" else text)
        self.operand = None

    def _operand(self, text: str) -> None:
        if text == ")":
            self.operand = self.opened.pop() if self.opened else None
        elif text.startswith("$") or self.operand is None:
            self.operand = len(self.out)
        self.out.append(text)
