"""RE2 patterns -> trees. What RE2 does not have (backreferences, lookaround) is refused in RE2's words.

A tree is made of tuples: ("cat", parts), ("alt", parts), ("set", ranges), ("assert", kind), ("group", part,
name) for what is captured, and ("repeat", part, least, most or None, greedy). Ranges are pairs of code
points, both included.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

MAX_PATTERN = 4096
MAX_REPEAT = 1000
MAX_DEPTH = 60

Ranges = tuple[tuple[int, int], ...]
Tree = tuple[Any, ...]

_LAST = 0x10FFFF
_DIGIT: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Ranges = ((9, 10), (12, 13), (32, 32))
_UPPER: Ranges = ((65, 90),)
_LOWER: Ranges = ((97, 122),)
_PERL = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_POSIX: dict[str, Ranges] = {
    "alnum": _DIGIT + _UPPER + _LOWER, "alpha": _UPPER + _LOWER, "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)), "cntrl": ((0, 31), (127, 127)), "digit": _DIGIT, "graph": ((33, 126),),
    "lower": _LOWER, "print": ((32, 126),), "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)), "upper": _UPPER, "word": _WORD, "xdigit": (*_DIGIT, (65, 70), (97, 102)),
}  # fmt: skip
_CONTROL = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_ASSERTIONS = {"A": "begin", "z": "end", "b": "word", "B": "not-word"}
_NAMED = re.compile(r"\(\?P?<([A-Za-z0-9_]+)>")
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_HEX = re.compile(r"([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,8})\}")
_CATEGORY = re.compile(r"([A-Za-z])|\{(\^?)([A-Za-z_]+)\}")
_REPEAT = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
_EMPTY: Tree = ("cat", ())
_unicode_ranges: dict[str, Ranges] = {}


class RegexError(ValueError):
    """RE2 refuses the pattern; the text is RE2's."""


def refusal(why: str, part: str) -> RegexError:
    """Return why RE2 refuses a pattern, because of one part of it."""
    return RegexError(f"error parsing regexp: {why}: `{part}`")


def parse(pattern: str) -> Tree:
    """Return the tree of a pattern; raise RegexError for what RE2 refuses."""
    if len(pattern) > MAX_PATTERN:
        raise refusal("expression too large", pattern[:64])
    parser = _Parser(pattern)
    tree = parser.alternatives()
    if parser.at < len(pattern):
        raise refusal("unexpected )", pattern)
    return tree


def negate(ranges: Ranges) -> Ranges:
    """Return all characters that are not in the ranges."""
    result: list[tuple[int, int]] = []
    start = 0
    for low, high in sorted(ranges):
        if low > start:
            result.append((start, low - 1))
        start = max(start, high + 1)
    if start <= _LAST:
        result.append((start, _LAST))
    return tuple(result)


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0
        self.flags: frozenset[str] = frozenset()
        self.names: set[str] = set()

    def peek(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def accept(self, text: str) -> bool:
        if not self.peek(text):
            return False
        self.at += len(text)
        return True

    def take(self) -> str:
        if self.at >= len(self.pattern):
            raise refusal("trailing backslash at end of expression", "")
        self.at += 1
        return self.pattern[self.at - 1]

    def alternatives(self) -> Tree:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise refusal("expression nests too deeply", self.pattern)
        parts = [self.sequence()]
        while self.accept("|"):
            parts.append(self.sequence())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else ("alt", tuple(parts))

    def sequence(self) -> Tree:
        parts: list[Tree] = []
        while self.at < len(self.pattern) and not self.peek("|") and not self.peek(")"):
            *before, atom = self.quoted() if self.accept(r"\Q") else [self.atom()]
            parts += [*before, atom if atom is _EMPTY else self.repeated(atom)]
        return ("cat", tuple(parts))

    def quoted(self) -> list[Tree]:
        end = self.pattern.find(r"\E", self.at)
        text = self.pattern[self.at : end if end >= 0 else None]
        self.at = end + 2 if end >= 0 else len(self.pattern)
        return [self.characters(((ord(char), ord(char)),)) for char in text] or [_EMPTY]

    def repeated(self, atom: Tree) -> Tree:
        start = self.at
        count = self.quantifier()
        if count is None:
            return atom
        greedy = self.accept("?") == ("U" in self.flags)
        if self.quantifier() is not None:
            self.accept("?")
            raise refusal("invalid nested repetition operator", self.pattern[start : self.at])
        return ("repeat", atom, *count, greedy)

    def quantifier(self) -> tuple[int, int | None] | None:
        for mark, count in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.accept(mark):
                return count
        written = _REPEAT.match(self.pattern, self.at)
        if written is None:
            return None  # as in RE2, a brace without a count stands for itself
        self.at = written.end()
        low = int(written[1][:6])
        high = (int(written[3][:6]) if written[3] else None) if written[2] else low
        if low > MAX_REPEAT or (high is not None and (high > MAX_REPEAT or high < low)):
            raise refusal("invalid repeat count", written[0])
        return low, high

    def atom(self) -> Tree:
        start = self.at
        if self.quantifier() is not None:
            raise refusal("missing argument to repetition operator", self.pattern[start : self.at])
        char = self.take()
        match char:
            case "(":
                return self.group()
            case "[":
                return ("set", self.bracket())
            case ".":
                return ("set", ((0, _LAST),) if "s" in self.flags else negate(((10, 10),)))
            case "^":
                return ("assert", "begin-line" if "m" in self.flags else "begin")
            case "$":
                return ("assert", "end-line" if "m" in self.flags else "end")
            case "\\":
                return self.escape()
        return self.characters(((ord(char), ord(char)),))

    def group(self) -> Tree:
        saved, rest = self.flags, self.pattern[self.at - 1 :]
        named, switch = _NAMED.match(rest), _FLAGS.match(rest)
        if named:
            if named[1] in self.names:
                raise refusal("duplicate capture group name", named[1])
            self.names.add(named[1])
            self.at += len(named[0]) - 1
        elif switch and switch[0] != "(?)":
            self.flags = (self.flags | set(switch[1])) - set(switch[2] or "")
            self.at += len(switch[0]) - 1
            if switch[3] == ")":  # it holds for the rest, and is no group
                return _EMPTY
        elif rest.startswith("(?"):
            raise _strange_group(rest)
        inner = self.alternatives()
        if not self.accept(")"):
            raise refusal("missing closing )", self.pattern)
        self.flags = saved
        return ("cat", (inner,)) if switch else ("group", inner, named[1] if named else "")

    def characters(self, ranges: Ranges) -> Tree:
        return ("set", _fold(ranges) if "i" in self.flags else ranges)

    def escape(self) -> Tree:
        char = self.pattern[self.at : self.at + 1]
        if char in _ASSERTIONS and char:
            self.at += 1
            return ("assert", _ASSERTIONS[char])
        return self.characters(self.escaped())

    def escaped(self) -> Ranges:
        start = self.at - 1
        char = self.take()
        if char in "pP":
            return self.unicode(start, negative=char == "P")
        if char.lower() in _PERL:
            ranges = _PERL[char.lower()]
            return ranges if char.islower() else negate(ranges)
        code = _CONTROL.get(char)
        if char == "x":
            code = self.hexadecimal()
        elif char == "0" or (char in "1234567" and self.pattern[self.at : self.at + 1] in set("01234567")):
            code = self.octal(char)
        elif code is None and not char.isalnum() and char.isascii():
            code = ord(char)
        if code is None:
            raise refusal("invalid escape sequence", self.pattern[start : start + 2])
        return ((code, code),)

    def octal(self, digits: str) -> int:
        while len(digits) < 3 and self.pattern[self.at : self.at + 1] in set("01234567"):
            digits += self.take()
        return int(digits, 8)

    def hexadecimal(self) -> int | None:
        found = _HEX.match(self.pattern, self.at)
        code = int(found[1] or found[2], 16) if found else _LAST + 1
        if found is None or code > _LAST:
            return None
        self.at = found.end()
        return code

    def unicode(self, start: int, *, negative: bool) -> Ranges:
        found = _CATEGORY.match(self.pattern, self.at)
        if found is None:
            raise refusal("invalid character class range", self.pattern[start : start + 3])
        self.at = found.end()
        ranges = _category(found[1] or found[3])
        if not ranges:
            raise refusal("invalid character class range", self.pattern[start : self.at])
        return ranges if negative == bool(found[2]) else negate(ranges)

    def bracket(self) -> Ranges:
        start = self.at - 1
        negative = self.accept("^")
        ranges: list[tuple[int, int]] = []
        first = True
        while first or not self.peek("]"):
            first = False
            if self.at >= len(self.pattern):
                raise refusal("missing closing ]", self.pattern[start:])
            ranges.extend(self.bracket_item())
        self.at += 1
        found = _fold(tuple(ranges)) if "i" in self.flags else tuple(ranges)
        return negate(found) if negative else found

    def bracket_item(self) -> Ranges:
        if self.peek("[:") and (end := self.pattern.find(":]", self.at)) >= 0:
            name = self.pattern[self.at + 2 : end]
            ranges = _POSIX.get(name.removeprefix("^"))
            if ranges is None:
                raise refusal("invalid character class range", f"[:{name}:]")
            self.at = end + 2
            return negate(ranges) if name.startswith("^") else ranges
        start = self.at
        low = self.bracket_end()
        if not self.peek("-") or self.pattern[self.at + 1 : self.at + 2] in ("]", "") or len(low) != 1:
            return low
        if low[0][0] != low[0][1]:
            return low
        self.at += 1
        here = self.at
        high = self.bracket_end()
        if len(high) != 1 or high[0][0] != high[0][1]:
            raise refusal("invalid escape sequence", self.pattern[here : here + 2])
        if high < low:
            raise refusal("invalid character class range", self.pattern[start : self.at])
        return ((low[0][0], high[0][1]),)

    def bracket_end(self) -> Ranges:
        char = self.take()
        return self.escaped() if char == "\\" else ((ord(char), ord(char)),)


def _strange_group(rest: str) -> RegexError:
    if rest.startswith(("(?P<", "(?<")):
        return refusal("invalid named capture", rest[: rest.find(">") + 1] or rest)
    if len(rest) == 2:
        return refusal("missing argument to repetition operator", "?")
    return refusal("invalid or unsupported Perl syntax", rest[:3])


def _fold(ranges: Ranges) -> Ranges:
    folded = list(ranges)
    for low, high in ranges:
        for code in range(low, min(high, low + 2000) + 1):
            char = chr(code)
            folded.extend(
                (ord(other), ord(other)) for other in {char.lower(), char.upper()} if len(other) == 1
            )
    return tuple(folded)


def _category(name: str) -> Ranges:
    """Return the characters of a general category such as L or Lu; none for scripts, which we lack."""
    if name == "Any":
        return ((0, _LAST),)
    if len(name) not in (1, 2) or not name.isascii():
        return ()
    if name not in _unicode_ranges:
        found: list[tuple[int, int]] = []
        for code in range(_LAST + 1):
            if unicodedata.category(chr(code)).startswith(name):
                if found and found[-1][1] == code - 1:
                    found[-1] = (found[-1][0], code)
                else:
                    found.append((code, code))
        _unicode_ranges[name] = tuple(found)
    return _unicode_ranges[name]
