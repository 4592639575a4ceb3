"""Checkpoints (C2SP tlog-checkpoint): size and root of a log, as the text of a signed note."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

from nodemanager.tlog.merkle import HASH_SIZE
from nodemanager.tlog.notes import BadNote

_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A log at one time."""

    origin: str
    """Which log: unique in the world, without spaces or plus signs."""
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the text that is signed."""
        root = base64.b64encode(self.root).decode()
        return "".join(f"{line}\n" for line in (self.origin, str(self.size), root, *self.extensions))


def read(text: str) -> Checkpoint:
    """Return the checkpoint that the text of a note is; raises BadNote."""
    lines = text.split("\n")
    if len(lines) < 4 or lines[-1] != "" or not lines[0] or "" in lines[3:-1]:
        raise BadNote("cannot read a checkpoint: it has not the three lines origin, size and root hash")
    if not _SIZE.fullmatch(lines[1]):
        raise BadNote(
            f"cannot read a checkpoint: its size {lines[1][:40]!r} is no number without leading zeros"
        )
    try:
        root = base64.b64decode(lines[2], validate=True)
    except (binascii.Error, ValueError):
        root = b""
    if len(root) != HASH_SIZE or base64.b64encode(root).decode() != lines[2]:
        raise BadNote(f"cannot read a checkpoint: its root {lines[2][:80]!r} is not the base64 of 32 bytes")
    return Checkpoint(lines[0], int(lines[1]), root, tuple(lines[3:-1]))
