"""Regular expressions as Go understands them, rewritten for Python's `re`.

Kubernetes compiles patterns with Go's `regexp`: no look-around, no back-references, ASCII classes,
`$` means the very end. What Go refuses is refused here in Go's words; what only Go can do (scripts
such as `\\p{Greek}`) is refused by name.
"""

from __future__ import annotations

import functools
import re

from nodemanager.kube.go import regex
from nodemanager.kube.go.regex_syntax import RegexError
from nodemanager.kube.schemas.pattern_classes import (
    PERL_CLASSES,
    ClassReader,
    PatternError,
    escaped,
    unicode_class,
)

MAX_PATTERN = 4096
QUICK_TEXT = 256
QUICK_LOOPS = 2
MAX_REPEAT = 1000
MAX_GROUPS_WORK = 4_000_000
"""How many ways there may be to divide a match among the loops of its pattern."""
_ANCHORS = {"A": r"(?:\A)", "z": r"(?:\Z)", "b": r"(?:\b)", "B": r"(?:\B)"}
_REPEAT = re.compile(r"\{([0-9]+)(,([0-9]*))?\}", re.ASCII)
_NAMED = re.compile(r"\(\?P?<([A-Za-z0-9_]+)>", re.ASCII)
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])", re.ASCII)


class Matcher:
    """Answers like Go's `MatchString`, in time that grows with the text and not with its square.

    Python's `re` is fast but backtracks; it is asked only where both text and pattern are small.
    """

    __slots__ = ("_automaton", "_flat", "_loops", "_quick")

    def __init__(self, automaton: regex.Regex, flat: re.Pattern[str] | None, loops: int) -> None:
        self._automaton = automaton
        self._flat = flat
        self._loops = loops
        self._quick = flat if loops <= QUICK_LOOPS else None

    def search(self, text: str) -> bool:
        """Tell whether the pattern matches anywhere in the text."""
        if self._quick is not None and len(text) <= QUICK_TEXT:
            return self._quick.search(text) is not None
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
    """Return the matcher of a pattern; raise PatternError for what Go refuses."""
    if len(pattern) > MAX_PATTERN:
        raise PatternError("expression too large", pattern[:64])
    translator = _Translator(pattern)
    translated = translator.translate()
    try:
        automaton = regex.compile_pattern(translator.unquoted())
        flat = None if translator.nested else re.compile(translated, re.ASCII)
        return Matcher(automaton, flat, translator.loops)
    except (RegexError, re.error, OverflowError, RecursionError):
        raise PatternError("expression not supported here", pattern) from None


class _Group:
    """An open parenthesis: the flags inside it, and how many flag groups were opened for them."""

    def __init__(self, start: int, flags: str) -> None:
        self.start = start
        self.flags = flags
        self.scopes: list[str] = []


class _Translator:
    """Walks over one pattern of Go and collects the same pattern for Python."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.out: list[str] = []
        self.groups = [_Group(0, "")]
        self.repeatable = False
        self.last_repeat = -1
        self.names: set[str] = set()
        self.quoted: list[tuple[int, int]] = []
        self.loops = 0
        self.nested = False  # a loop around a group: backtracking is not cheap then

    def translate(self) -> str:
        handlers = {
            "\\": self._escape, "[": self._class, "(": self._open, ")": self._close, "|": self._bar,
            "*": self._star, "+": self._star, "?": self._star, "{": self._braces, "^": self._caret,
            "$": self._dollar, ".": self._dot,
        }  # fmt: skip
        while self.at < len(self.source):
            handlers.get(self.source[self.at], self._literal)()
        if len(self.groups) > 1:
            raise PatternError("missing closing )", self.source)
        self.out.append(")" * len(self.groups[0].scopes))
        return "".join(self.out)

    def unquoted(self) -> str:
        """Return the pattern with every `\\Q...\\E` written as single escapes."""
        parts, at = [], 0
        for start, end in self.quoted:
            parts += [self.source[at:start], re.escape(self.source[start + 2 : end].removesuffix("\\E"))]
            at = end
        return "".join([*parts, self.source[at:]])

    def _emit(self, text: str, length: int) -> None:
        self.out.append(text)
        self.at += length
        self.repeatable = True

    def _literal(self) -> None:
        self._emit(re.escape(self.source[self.at]), 1)

    def _dot(self) -> None:
        self._emit("[^\\n]" if "s" not in self.groups[-1].flags else "[\\s\\S]", 1)

    def _caret(self) -> None:
        self._emit("(?m:^)" if "m" in self.groups[-1].flags else "(?:\\A)", 1)

    def _dollar(self) -> None:
        self._emit("(?m:$)" if "m" in self.groups[-1].flags else "(?:\\Z)", 1)

    # Groups

    def _open(self) -> None:
        flags = self.groups[-1].flags
        rest = self.source[self.at :]
        self.repeatable = False
        if not rest.startswith("(?"):
            self._push("(", 1, flags)
        elif named := _NAMED.match(rest):
            if named[1] in self.names:
                raise PatternError("duplicate capture group name", named[1])
            self.names.add(named[1])
            # Python wants an identifier; a name that is none can still be used by number
            self._push(f"(?P<{named[1]}>" if named[1].isidentifier() else "(", len(named[0]), flags)
        elif (switch := _FLAGS.match(rest)) and (switch[1] or switch[2] or switch[3] == ":"):
            self._switch(switch)
        elif rest.startswith(("(?P<", "(?<")):
            raise PatternError("invalid named capture", rest.partition(">")[0] + (">" if ">" in rest else ""))
        elif len(rest) == 2:
            raise PatternError("missing argument to repetition operator", "?")
        else:
            raise PatternError("invalid or unsupported Perl syntax", rest[:3])

    def _push(self, text: str, length: int, flags: str) -> None:
        self.groups.append(_Group(self.at, flags))
        self.out.append(text)
        self.at += length

    def _switch(self, switch: re.Match[str]) -> None:
        flags = "".join(sorted((set(self.groups[-1].flags) | set(switch[1])) - set(switch[2] or "")))
        scope = "(?i:" if "i" in flags else "(?-i:"
        if switch[3] == ":":
            self._push(scope, len(switch[0]), flags)
            return
        group = self.groups[-1]
        group.flags = flags
        group.scopes.append(scope)
        self.out.append(scope)
        self.at += len(switch[0])

    def _close(self) -> None:
        if len(self.groups) == 1:
            raise PatternError("unexpected )", self.source)
        group = self.groups.pop()
        self._emit(")" * (len(group.scopes) + 1), 1)

    def _bar(self) -> None:
        self.loops += 1
        # Flags reach over alternatives, scopes of Python do not: close them here and open them again.
        scopes = self.groups[-1].scopes
        self._emit(")" * len(scopes) + "|" + "".join(scopes), 1)
        self.repeatable = False

    # Repetition

    def _star(self) -> None:
        self._repeat(self.source[self.at], 1)

    def _braces(self) -> None:
        written = _REPEAT.match(self.source, self.at)
        if written is None:
            self._literal()
            return
        low = int(written[1][:8])
        high = int(written[3][:8]) if written[3] else low
        if low > MAX_REPEAT or high > MAX_REPEAT or high < low:
            raise PatternError("invalid repeat count", written[0])
        self._repeat(written[0], len(written[0]))

    def _repeat(self, operator: str, length: int) -> None:
        start = self.at
        if not self.repeatable:
            raise PatternError("missing argument to repetition operator", operator)
        self.at += length
        lazy = self.source[self.at : self.at + 1] == "?"
        self.at += lazy
        if self.last_repeat == start:
            began = self.source[: self.at]
            raise PatternError("invalid nested repetition operator", began[self._before(start) :])
        self.nested = self.nested or self.source[start - 1] == ")"  # also (a?){50}: it backtracks as well
        if operator in "*+?" or "," in operator:
            self.loops += 1
        ungreedy = lazy != ("U" in self.groups[-1].flags)
        self.out.append(operator + ("?" if ungreedy else ""))
        self.last_repeat = self.at

    def _before(self, start: int) -> int:
        found = re.search(r"(?:[*+?]|\{[0-9,]+\})\??\Z", self.source[:start])
        return found.start() if found else start

    # Escapes

    def _escape(self) -> None:
        rest = self.source[self.at :]
        if len(rest) == 1:
            raise PatternError("trailing backslash at end of expression", "")
        letter = rest[1]
        if letter in _ANCHORS:
            self._emit(_ANCHORS[letter], 2)
        elif letter == "Q":
            literal, _, _ = rest[2:].partition("\\E")
            length = 2 + len(literal) + (2 if "\\E" in rest[2:] else 0)
            self.quoted.append((self.at, self.at + length))
            for character in literal:
                self._emit(re.escape(character), 0)
            self.at += length
        elif letter in PERL_CLASSES:
            self._emit(rest[:2], 2)
        elif letter in "pP":
            text, length = unicode_class(rest)
            self._emit(f"[{'^' if text[0] == '^' else ''}{text.lstrip('^')}]", length)
        else:
            character, length = escaped(rest)
            self._emit(re.escape(character), length)

    def _class(self) -> None:
        text, length = ClassReader(self.source[self.at :]).read()
        self._emit(text, length)
