"""RE2 patterns -> trees. What RE2 does not have (backreferences, lookaround) is refused in RE2's words.

A tree is made of tuples: ("cat", parts), ("alt", parts), ("set", ranges), ("assert", kind) and
("repeat", part, least, most or None, greedy). Ranges are pairs of code points, both included.
"""

from __future__ import annotations

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
_EMPTY: Tree = ("cat", ())
_unicode_ranges: dict[str, Ranges] = {}


class RegexError(Exception):
    """RE2 refuses the pattern; the text is RE2's."""


def parse(pattern: str) -> Tree:
    """Return the tree of a pattern; raise RegexError for what RE2 refuses."""
    if len(pattern) > MAX_PATTERN:
        raise RegexError("error parsing regexp: expression too large")
    parser = _Parser(pattern)
    tree = parser.alternatives()
    if parser.at < len(pattern):
        raise parser.error("unexpected )")
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

    def error(self, what: str) -> RegexError:
        return RegexError(f"error parsing regexp: {what}: `{self.pattern}`")

    def peek(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def accept(self, text: str) -> bool:
        if not self.peek(text):
            return False
        self.at += len(text)
        return True

    def take(self) -> str:
        if self.at >= len(self.pattern):
            raise self.error("trailing backslash or missing argument")
        self.at += 1
        return self.pattern[self.at - 1]

    def alternatives(self) -> Tree:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error("expression nests too deeply")
        parts = [self.sequence()]
        while self.accept("|"):
            parts.append(self.sequence())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else ("alt", tuple(parts))

    def sequence(self) -> Tree:
        parts: list[Tree] = []
        while self.at < len(self.pattern) and not self.peek("|") and not self.peek(")"):
            if self.accept(r"\Q"):
                parts.extend(self.quoted())
                continue
            atom = self.atom()
            parts.append(atom if atom is _EMPTY else self.repeated(atom))
        return ("cat", tuple(parts))

    def quoted(self) -> list[Tree]:
        end = self.pattern.find(r"\E", self.at)
        text = self.pattern[self.at : end if end >= 0 else None]
        self.at = end + 2 if end >= 0 else len(self.pattern)
        return [self.characters(((ord(char), ord(char)),)) for char in text]

    def repeated(self, atom: Tree) -> Tree:
        count = self.quantifier()
        if count is None:
            return atom
        least, most = count
        greedy = not self.accept("?")
        if "U" in self.flags:
            greedy = not greedy
        before = self.at
        if self.quantifier() is not None:
            raise self.error(f"invalid nested repetition operator: `{self.pattern[before - 1 : self.at]}`")
        return ("repeat", atom, least, most, greedy)

    def quantifier(self) -> tuple[int, int | None] | None:
        for mark, count in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.accept(mark):
                return count
        end = self.pattern.find("}", self.at)
        if not self.peek("{") or end < 0:
            return None
        least, comma, most = self.pattern[self.at + 1 : end].partition(",")
        if not least.isdecimal() or (most and not most.isdecimal()) or not (least + most).isascii():
            return None  # as in RE2, a brace without a count stands for itself
        self.at = end + 1
        low = int(least[:6])
        high = (int(most[:6]) if most else None) if comma else low
        if low > MAX_REPEAT or (high is not None and (high > MAX_REPEAT or high < low)):
            raise self.error("invalid repeat count")
        return low, high

    def atom(self) -> Tree:
        char = self.take()
        match char:
            case "(":
                return self.group()
            case "[":
                return self.characters(self.bracket())
            case ".":
                return ("set", ((0, _LAST),) if "s" in self.flags else negate(((10, 10),)))
            case "^":
                return ("assert", "begin-line" if "m" in self.flags else "begin")
            case "$":
                return ("assert", "end-line" if "m" in self.flags else "end")
            case "\\":
                return self.escape()
            case "*" | "+" | "?":
                raise self.error(f"missing argument to repetition operator: `{char}`")
        return self.characters(((ord(char), ord(char)),))

    def group(self) -> Tree:
        saved = self.flags
        if self.accept("?"):
            if self.peek("=") or self.peek("!") or self.peek("<=") or self.peek("<!"):
                raise self.error("invalid or unsupported Perl syntax: `(?`")
            if self.accept("P<") or self.accept("<"):
                self.name()
            elif self.set_flags():
                return _EMPTY
        inner = self.alternatives()
        if not self.accept(")"):
            raise self.error("missing closing )")
        self.flags = saved
        return ("cat", (inner,))

    def name(self) -> None:
        end = self.pattern.find(">", self.at)
        name = self.pattern[self.at : end] if end >= 0 else ""
        if not name.isascii() or not name.replace("_", "a").isalnum():
            raise self.error("invalid named capture")
        self.at = end + 1

    def set_flags(self) -> bool:
        """Read flags; True when they hold for the rest, as in (?i), and not for a group."""
        flags, negative = set(self.flags), False
        while True:
            char = self.take()
            if char in ":)":
                self.flags = frozenset(flags)
                return char == ")"
            if char == "-" and not negative:
                negative = True
            elif char in "imsU":
                (flags.discard if negative else flags.add)(char)
            else:
                raise self.error("invalid or unsupported Perl syntax: `(?`")

    def characters(self, ranges: Ranges) -> Tree:
        return ("set", _fold(ranges) if "i" in self.flags else ranges)

    def escape(self) -> Tree:
        char = self.pattern[self.at : self.at + 1]
        if char in _ASSERTIONS and char:
            self.at += 1
            return ("assert", _ASSERTIONS[char])
        return self.characters(self.escaped())

    def escaped(self) -> Ranges:
        char = self.take()
        if char in "pP":
            return self.unicode(negative=char == "P")
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
            raise self.error(f"invalid escape sequence: `\\{char}`")
        return ((code, code),)

    def octal(self, digits: str) -> int:
        while len(digits) < 3 and self.pattern[self.at : self.at + 1] in set("01234567"):
            digits += self.take()
        return int(digits, 8)

    def hexadecimal(self) -> int:
        if self.accept("{"):
            end = self.pattern.find("}", self.at)
            digits = self.pattern[self.at : max(end, self.at)]
            self.at = end + 1
        else:
            digits = self.pattern[self.at : self.at + 2].rjust(2, "?")
            self.at += 2
        if not digits or len(digits) > 8 or set(digits) - set("0123456789abcdefABCDEF"):
            raise self.error("invalid escape sequence: `\\x`")
        code = int(digits, 16)
        if code > _LAST:
            raise self.error("invalid escape sequence: `\\x`")
        return code

    def unicode(self, *, negative: bool) -> Ranges:
        name = self.take()
        if name == "{":
            end = self.pattern.find("}", self.at)
            name = self.pattern[self.at : max(end, self.at)]
            self.at = end + 1
        if name.startswith("^"):
            negative, name = not negative, name[1:]
        ranges = _category(name)
        if not ranges:
            raise self.error("invalid character class range")
        return negate(ranges) if negative else ranges

    def bracket(self) -> Ranges:
        negative = self.accept("^")
        ranges: list[tuple[int, int]] = []
        first = True
        while first or not self.peek("]"):
            first = False
            if self.at >= len(self.pattern):
                raise self.error("missing closing ]")
            ranges.extend(self.bracket_item())
        self.at += 1
        found = _fold(tuple(ranges)) if "i" in self.flags else tuple(ranges)
        return negate(found) if negative else found

    def bracket_item(self) -> Ranges:
        if self.peek("[:") and (end := self.pattern.find(":]", self.at)) >= 0:
            name = self.pattern[self.at + 2 : end]
            self.at = end + 2
            ranges = _POSIX.get(name.removeprefix("^"))
            if ranges is None:
                raise self.error("invalid character class range")
            return negate(ranges) if name.startswith("^") else ranges
        low = self.bracket_end()
        if not self.peek("-") or self.pattern[self.at + 1 : self.at + 2] in ("]", "") or len(low) != 1:
            return low
        if low[0][0] != low[0][1]:
            return low
        self.at += 1
        high = self.bracket_end()
        if len(high) != 1 or high[0][1] < low[0][0]:
            raise self.error("invalid character class range")
        return ((low[0][0], high[0][1]),)

    def bracket_end(self) -> Ranges:
        char = self.take()
        return self.escaped() if char == "\\" else ((ord(char), ord(char)),)


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
