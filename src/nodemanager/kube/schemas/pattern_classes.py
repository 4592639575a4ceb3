"""Single characters and sets of characters in regular expressions of Go, for Python's `re`."""

from __future__ import annotations

import functools
import re
import sys
import unicodedata

PERL_CLASSES = "dDsSwW"
_LETTER_ESCAPES = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t\x20", "digit": "0-9",
    "cntrl": r"\x00-\x1f\x7f", "graph": r"!-~", "lower": "a-z", "print": r"\x20-~", "upper": "A-Z",
    "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r\x20", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_NOT_POSIX = {
    "alnum": r"\x00-/:-@\[-`{-\U0010ffff", "alpha": r"\x00-@\[-`{-\U0010ffff", "digit": r"\x00-/:-\U0010ffff",
    "space": r"\x00-\x08\x0e-\x1f!-\U0010ffff", "upper": r"\x00-@\[-\U0010ffff",
    "lower": r"\x00-`{-\U0010ffff", "word": r"\x00-/:-@\[-\^`{-\U0010ffff",
}  # fmt: skip


class PatternError(ValueError):
    """A regular expression that Go would refuse; the text is Go's."""

    def __init__(self, why: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {why}: `{part}`")


def escaped(rest: str) -> tuple[str, int]:
    """Return the character that an escape stands for, and the length of the escape."""
    letter = rest[1]
    if letter in _LETTER_ESCAPES:
        return _LETTER_ESCAPES[letter], 2
    if letter == "x" and (found := re.match(r"\\x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,8})\})", rest)):
        code = int(found[1] or found[2], 16)
        if code <= sys.maxunicode:
            return chr(code), len(found[0])
    if found := re.match(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})", rest):
        return chr(int(found[1], 8)), len(found[0])
    if letter.isascii() and not letter.isalnum():
        return letter, 2
    raise PatternError("invalid escape sequence", rest[:2])


def unicode_class(rest: str) -> tuple[str, int]:
    """Return the ranges of `\\pL` or `\\p{Lu}`, with ^ in front if it is negated, and its length."""
    found = re.match(r"\\([pP])(?:([A-Za-z])|\{(\^?)([A-Za-z_]+)\})", rest)
    if found is None:
        raise PatternError("invalid character class range", rest[:3])
    ranges = _category(found[2] or found[4])
    if not ranges:
        raise PatternError("invalid character class range", found[0])
    negated = (found[1] == "P") != (found[3] == "^")
    return ("^" if negated else "") + ranges, len(found[0])


@functools.lru_cache(maxsize=64)
def _category(name: str) -> str:
    spans: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        if name == "Any" or unicodedata.category(chr(code)).startswith(name):
            if spans and spans[-1][1] == code - 1:
                spans[-1][1] = code
            else:
                spans.append([code, code])
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in spans)


class ClassReader:
    """Reads one bracket expression."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.negated = source.startswith("[^")
        self.at = 2 if self.negated else 1
        self.out: list[str] = []

    def read(self) -> tuple[str, int]:
        """Return the expression for Python, and the length that it had for Go."""
        first = True
        while self.at < len(self.source):
            if self.source[self.at] == "]" and not first:
                return f"[{'^' if self.negated else ''}{''.join(self.out)}]", self.at + 1
            first = False
            self._item()
        raise PatternError("missing closing ]", self.source)

    def _item(self) -> None:
        rest = self.source[self.at :]
        if posix := re.match(r"\[:(\^?)(.*?):\]", rest):
            ranges = (_NOT_POSIX if posix[1] else _POSIX).get(posix[2])
            if ranges is None:
                raise PatternError("invalid character class range", posix[0])
            self._add(ranges, len(posix[0]))
        elif len(rest) > 1 and rest[0] == "\\" and rest[1] in PERL_CLASSES:
            self._add(rest[:2], 2)
        elif rest.startswith(("\\p", "\\P")):
            ranges, length = unicode_class(rest)
            if ranges.startswith("^"):
                raise PatternError("negated Unicode class inside brackets not supported here", rest[:length])
            self._add(ranges, length)
        else:
            self._range(rest)

    def _add(self, text: str, length: int) -> None:
        self.out.append(text)
        self.at += length

    def _range(self, rest: str) -> None:
        low, length = _one(rest)
        after = rest[length:]
        if len(after) < 2 or after[0] != "-" or after[1] == "]":
            self._add(re.escape(low), length)
            return
        high, more = _one(after[1:])
        written = rest[: length + 1 + more]
        if low > high:
            raise PatternError("invalid character class range", written)
        self._add(f"{re.escape(low)}-{re.escape(high)}", len(written))


def _one(rest: str) -> tuple[str, int]:
    if rest[0] != "\\":
        return rest[0], 1
    if len(rest) == 1:
        raise PatternError("trailing backslash at end of expression", "")
    return escaped(rest)
