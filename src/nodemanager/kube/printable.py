"""Texts of others, without what could pass for something else.

No end of a line where none belongs, nothing that steers a terminal or turns the direction of what follows.
"""

from __future__ import annotations

import re
from typing import Final

_UNSAFE: Final = "\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE_TEXT: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSAFE}]")
_UNSAFE_LINE: Final = re.compile(f"[\x00-\x1f{_UNSAFE}]")


def text(said: str) -> str:
    """Return a text of several lines without what could pass for something else."""
    return said if is_plain(said) else _UNSAFE_TEXT.sub("?", said)


def line(said: str) -> str:
    """Return a text as one line."""
    return said if is_plain(said) else _UNSAFE_LINE.sub("?", said)


def is_plain(said: str) -> bool:
    """Tell whether it is one line of printable ASCII, as nearly everything is."""
    return said.isascii() and said.isprintable()
