"""Whether the write-ahead log that a crash left behind is whole.

SQLite replays such a log up to the first frame that does not fit its checksum, and silently drops the
rest. That is right for the transaction that was being written when the machine stopped. But it is
also what happens when a bit flips in an older one, and then acknowledged changes would vanish. The
two can be told apart: with synchronous=FULL a transaction is on the disk before the next one is
begun, so behind the first bad frame there can be at most one end of a transaction.

The format is in "WAL-mode File Format" of SQLite's documentation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nodemanager.store import files

HEADER = struct.Struct(">8I")
FRAME = struct.Struct(">6I")
MAGIC = 0x377F0682
"""The lowest bit says whether checksums are over big-endian words."""
MASK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class _Frame:
    ends: bool  # it is the last one of a transaction
    salts: tuple[int, int]
    sums: tuple[int, int]
    summed: bytes  # what the sums are over, beside all frames before


def check(path: Path) -> None:
    """Raise StoreCorrupt if the log beside a database, which must not be open, lost acknowledged changes."""
    try:
        with files.beside(path, "-wal").open("rb") as log:
            why = _damage(log)
    except FileNotFoundError:
        return
    if why:
        raise files.corrupt(path, f"its -wal file is damaged: {why}")


def _damage(log: BinaryIO) -> str:
    head = log.read(HEADER.size)
    if len(head) < HEADER.size:
        return ""  # nothing was ever committed to it
    magic, _, page_size, _, salt1, salt2, *sums = HEADER.unpack(head)
    order = ">" if magic & 1 else "<"
    state = _checksum(head[:24], order, (0, 0))
    if magic & ~1 != MAGIC or state != tuple(sums) or not 512 <= page_size <= 65536:
        return "its header does not fit its checksum"
    whole, ends = True, 0
    for frame in _frames(log, page_size):
        if whole:
            state = _checksum(frame.summed, order, state)
            whole = frame.salts == (salt1, salt2) and frame.sums == state
        # Frames with other salts are left from before the log was last emptied.
        if not whole and frame.ends and frame.salts == (salt1, salt2):
            ends += 1
    return f"{ends} transactions are behind a bad frame" if ends > 1 else ""


def _frames(log: BinaryIO, page_size: int) -> Iterator[_Frame]:
    while len(data := log.read(FRAME.size + page_size)) == FRAME.size + page_size:
        _, size, salt1, salt2, sum1, sum2 = FRAME.unpack_from(data)
        yield _Frame(size != 0, (salt1, salt2), (sum1, sum2), data[:8] + data[FRAME.size :])


def _checksum(data: bytes, order: str, state: tuple[int, int]) -> tuple[int, int]:
    """Return SQLite's running checksum after more data."""
    first, second = state
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for even, odd in zip(words, words, strict=True):
        first = (first + even + second) & MASK
        second = (second + odd + first) & MASK
    return first, second
