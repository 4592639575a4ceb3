"""What an evil author has up her sleeve, whatever the language: texts, numbers, patterns and formats."""

from __future__ import annotations

import random
from typing import Final

CANARY: Final = "canary-7f3a"
"""In the environment of the parent, and nowhere that a template may see."""
ODD: Final = (
    "", " ", "a", "ab", "\u00e9", "\u0130", "\u01c3", "\U0001f600", "e\u0301", "\u202e", "\u2028", "\x00",
    "\x85", "{{", "}}", "{%", "{#", "*/", "%", "%s%d", "../../etc/passwd", "/etc/shadow", "-", "=", "\n",
    "\r\n", "\t", "nan", "inf", "1e999", "-0", "0x", "true", "null", "~", "___", "https://[::1",
    "10.0.0.0/8", "::/0", "0.0.0.0/0", "YWJj", "a.b.c",
)  # fmt: skip
NUMBERS: Final = (
    0, 1, 2, 3, 5, 8, 30, 64, 100, 1000, 5000, 9999, 10_000, 65_536, 100_000, 1_000_000, 2**31, 2**62,
    2**63, 10**30, -1, -2, -100, -(2**63),
)  # fmt: skip
PATTERNS: Final = (
    "a", "(a+)+$", "(a|a)*b", "(.*)*x", "((a{1,50}){1,50}){1,50}", "(?:)*", ".*.*.*.*=", "[a-z]{1,1000}",
    "(((((a)))))", "(?i)[\\w-]+", "\\pL+", "^(?:a?){30}a{30}$", "(", "[", "\\", "(?P<n>a)(?P=n)", "(?=a)",
    "a{100000}", "\\b", "|||", "(?s).*", "x*", "[^\\x00]",
)  # fmt: skip
FORMATS: Final = (
    "%d", "%s", "%v", "%+v", "%#v", "%q", "%x", "%9999d", "%09999s", "%.9999f", "%[3]*.[2]*[1]f", "%*d",
    "%-9999v", "%c", "%U", "%t", "%T", "%p", "%b", "%e", "%%", "%!", "%999999d", "%.s", "% x",
    "%[1]d%[1]d%[1]d",
)  # fmt: skip
OPENERS: Final = (
    "[", "{a: ", "- ", "? ", "a:\n ", "!!set {", "&a [", "*a ", "<<: ", "|\n ", "'", '"', "[a]\n", "a.a.",
    "a = [", "a={", "[[a]]\n", "a.b = 1\n", '{"a":', "[1,", '"\\', ",", ": ", "#", "\t", "%TAG ! x\n",
    "--- ", "? - : ", "key: 1\n", "a,b\n", '"a""', "a" * 100, "ab ", "\u0130",
)  # fmt: skip
"""Beginnings that parsers have to remember; said many times over."""
ESCAPES: Final = (
    "__class__", "__mro__", "__subclasses__", "__globals__", "__init__", "__builtins__", "__import__",
    "__dict__", "__getattribute__", "__reduce__", "__code__", "gi_frame", "f_globals", "func_globals",
    "im_func", "mro", "format", "format_map", "__self__", "__module__", "__call__", "__doc__", "environ",
    "popen", "_meter", "weight", "find", "_known", "__gotemplate_lookup__", "_Undefined__",
    "_undefined_exception", "__wrapped__", "_function",
)  # fmt: skip


class Words:
    """Draws of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one_in(self, many: int) -> bool:
        """Tell, once in so many times, that it is so."""
        return self.random.randrange(many) == 0

    def text(self) -> str:
        """Return a text that is odd, long, or a parser's nightmare."""
        draw = self.random
        match draw.randrange(6):
            case 0 | 1:
                return draw.choice(ODD)
            case 2:
                return draw.choice(OPENERS) * draw.choice((1, 3, 40, 60, 400))
            case 3:
                return "".join(draw.choice((*ODD, *OPENERS)) for _ in range(draw.randrange(1, 6)))
            case 4:
                return draw.choice(ESCAPES)
        return draw.choice(PATTERNS + FORMATS)

    def times(self) -> int:
        """Return how often something is repeated."""
        large = (5000, 20_000, 100_000, 900_000)
        return self.random.choice(large if self.one_in(6) else (1, 2, 3, 10, 50, 51, 200, 1000, 1025))
