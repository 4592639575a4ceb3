"""Regular expressions as Go understands them, written for Python's `re` where that is quick.

Kubernetes compiles patterns with Go's `regexp`: no look-around, no back-references, ASCII classes,
`$` means the very end. What Go refuses is refused in Go's words (`kube/go/regex_syntax.py`); what only Go
can do (scripts such as `\\p{Greek}`) is refused by name.
"""

from __future__ import annotations

import functools
import re

from nodemanager.kube.go import regex, regex_syntax
from nodemanager.kube.go.regex_syntax import Tree

QUICK_TEXT = 256
QUICK_LOOPS = 2
MAX_GROUPS_WORK = 4_000_000
"""How many ways there may be to divide a match among the loops of its pattern."""
_ASSERTIONS = {
    "begin": r"(?:\A)", "end": r"(?:\Z)", "begin-line": "(?m:^)", "end-line": "(?m:$)", "word": r"(?:\b)",
    "not-word": r"(?:\B)",
}  # fmt: skip


class Matcher:
    """Answers like Go's `MatchString`, in time that grows with the text and not with its square.

    Python's `re` is fast but backtracks; it is asked only where both text and pattern are small. It compiles
    slowly, which waits for the first text.
    """

    def __init__(self, automaton: regex.Regex, python: str | None, loops: int) -> None:
        self._automaton = automaton
        self._python = python
        self._loops = loops

    @functools.cached_property
    def _flat(self) -> re.Pattern[str] | None:
        return None if self._python is None else re.compile(self._python, re.ASCII)

    def search(self, text: str) -> bool:
        """Tell whether the pattern matches anywhere in the text."""
        if self._loops <= QUICK_LOOPS and len(text) <= QUICK_TEXT and self._flat is not None:
            return self._flat.search(text) is not None
        return self._automaton.search(text)

    def find(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """Return where the leftmost match begins and ends; raise TooMuchWork when that takes too long."""
        return self._automaton.find(text, start)

    def groups(self, text: str, begin: int, end: int) -> re.Match[str] | None:
        """Return the groups of a match that `find` found, or None where backtracking could be expensive."""
        if self._flat is None or (end - begin + 1) ** self._loops > MAX_GROUPS_WORK:
            return None
        found = self._flat.match(text, begin, end)
        return found if found is not None and found.end() == end else None


@functools.lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Matcher:
    """Return the matcher of a pattern; raise RegexError for what Go refuses."""
    tree = regex_syntax.parse(pattern)
    python = None if _is_nested(tree) else _python(tree)
    return Matcher(regex.compile_pattern(pattern), python, _loops(tree))


def _is_nested(tree: Tree) -> bool:
    """Tell whether there is a loop around a group: backtracking is not cheap then, not even in (a?){50}."""
    if tree[0] == "repeat":
        return tree[1][0] not in ("set", "assert")
    return any(map(_is_nested, _parts(tree)))


def _loops(tree: Tree) -> int:
    """Return how many times there is a choice between going on and going elsewhere."""
    if tree[0] == "repeat":
        return int(tree[2] != tree[3]) + _loops(tree[1])
    more = len(tree[1]) - 1 if tree[0] == "alt" else 0
    return more + sum(map(_loops, _parts(tree)))


def _parts(tree: Tree) -> tuple[Tree, ...]:
    if tree[0] in ("cat", "alt"):
        parts: tuple[Tree, ...] = tree[1]
        return parts
    return (tree[1],) if tree[0] == "group" else ()


def _python(tree: Tree) -> str:
    """Return a pattern for Python's `re`."""
    match tree:
        case "cat", parts:
            return "".join(map(_python, parts))
        case "alt", parts:
            return f"(?:{'|'.join(map(_python, parts))})"
        case "group", part, name:  # a group whose name is no identifier can still be used by number
            return f"({f'?P<{name}>' if name.isidentifier() else ''}{_python(part)})"
        case "repeat", part, least, most, greedy:
            return f"{_python(part)}{{{least},{'' if most is None else most}}}{'' if greedy else '?'}"
        case "set", ranges:
            return _characters(ranges)
    return _ASSERTIONS[tree[1]]


def _characters(ranges: regex_syntax.Ranges) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return re.escape(chr(ranges[0][0]))
    others = regex_syntax.negate(ranges)
    if not others:
        return r"[\s\S]"
    mark, shorter = ("^", others) if len(others) <= len(ranges) or not ranges else ("", ranges)
    written = "".join(rf"\U{low:08x}-\U{high:08x}" for low, high in shorter)
    return f"[{mark}{written}]"
