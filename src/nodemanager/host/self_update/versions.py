"""Which of two versions of our program is older: precedence as semantic versioning has it.

Ours are written 1.2.3rc1 (as Python does), those of others may be 1.2.3-rc.1: both come before 1.2.3.
"""

from __future__ import annotations

import re
from typing import Final

_VERSION: Final = re.compile(r"v?([0-9]+(?:\.[0-9]+)*)(-?)([^+]*)")
_PIECES: Final = re.compile(r"[0-9]+|[^0-9.]+")
Precedence = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


def is_older(version: str, than: str) -> bool:
    """Tell whether a version comes before another; one that is no version at all comes before all others."""
    return _precedence(version) < _precedence(than)


def _precedence(version: str) -> Precedence:
    found = _VERSION.match(version)
    if found is None:
        return (), False, ()
    numbers = [int(part) for part in found[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:  # 1.2 is 1.2.0
        numbers.pop()
    # Behind a dash, identifiers are between dots; as Python writes it, a number follows its word: rc10 is not
    # before rc9. What comes after a plus says how it was built, and nothing about age.
    pieces = found[3].split(".") if found[2] else _PIECES.findall(found[3])
    return tuple(numbers), not pieces, tuple(map(_identifier, pieces))


def _identifier(text: str) -> tuple[bool, int, str]:
    """Return a sort key: numbers by value and before words, words in alphabetical order."""
    number = text.isascii() and text.isdigit()
    return not number, int(text) if number else 0, "" if number else text
