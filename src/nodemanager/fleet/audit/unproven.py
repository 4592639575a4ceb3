"""The records since the last checkpoint: hashed as they come, and decoded only if needed.

A signed root over their bytes proves them all. Their numbers and links are looked at where no root does:
behind the last checkpoint, and to tell which record was bent when a root is another one than was signed.
"""

from __future__ import annotations

from typing import Final

import msgspec

from nodemanager.fleet.audit.diagnosing import ChainLink

MAX_RECORDS: Final = 16_384
MAX_BYTES: Final = 32 << 20
"""How many bytes are kept to find the altered record while no checkpoint comes."""
ROTATE: Final = "rotate"
"""Verb of the record that hands over from one key to the next one, which is in its `to`."""
HANDS_OVER: Final = b'"verb":"rotate"}'
"""The end of its line: the verb is the last of the keys that a record can have."""


class _Place(msgspec.Struct, frozen=True, gc=False):
    """The parts of a record that show its place."""

    sequence: int = -1
    previous: str = ""


_DECODE: Final = msgspec.json.Decoder(_Place).decode


class Unproven:
    """Consecutive records for which no checkpoint was seen yet."""

    def __init__(self) -> None:
        self.begin(0, b"")

    def begin(self, number: int, leaf: bytes | None) -> None:
        """Begin anew; `leaf` is the hash of the record before the one of this number, if it is known."""
        self.first = self.at = number
        """The number of the first record, and of the next one to come."""
        self.before = self.leaf = leaf
        """Hash of the record before them, and of the last one; None = it is not known."""
        self.bytes = 0
        self._lines: list[bytes] = []
        self._leaves: list[bytes] = []
        """Lines that were not decoded yet, and their hashes; not as pairs, as making these takes time."""
        self._links: list[ChainLink] = []
        self._odd = False

    def __len__(self) -> int:
        return self.at - self.first

    @property
    def is_much(self) -> bool:
        """Whether there are more records than should be kept in memory."""
        return len(self) >= MAX_RECORDS or self.bytes >= MAX_BYTES

    def add(self, lines: list[bytes], leaves: list[bytes]) -> None:
        """Take records, and their hashes."""
        self._lines += lines
        self._leaves += leaves
        self.bytes += sum(map(len, lines))
        self.at += len(lines)
        self.leaf = leaves[-1]

    @property
    def is_odd(self) -> bool:
        """Whether a number or a link is wrong."""
        self._decode()
        return self._odd

    @property
    def links(self) -> list[ChainLink]:
        """The parts of each record that show its place."""
        self._decode()
        return self._links

    def _decode(self) -> None:
        number = self.first + len(self._links)
        last = self._links[-1].leaf if self._links else self.before
        for line, leaf in zip(self._lines, self._leaves, strict=True):
            place = place_of(line)
            if place.sequence != number or (last is not None and place.previous != last.hex()):
                self._odd = True
            self._links.append(ChainLink(place.sequence, place.previous, leaf))
            last, number = leaf, number + 1
        self._lines, self._leaves = [], []


def place_of(line: bytes) -> _Place:
    """Return the parts of a record that show its place; the number -1 = it cannot be read."""
    try:
        return _DECODE(line)
    except (msgspec.DecodeError, RecursionError):
        return _Place()
