"""Cosignatures (C2SP tlog-cosignature): a witness saw a checkpoint, which goes on from those it saw before.

cosignature/v1
time 1679315147
the text of the checkpoint
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nodemanager.native import ed25519
from nodemanager.tlog.notes import COSIGNATURE, Key, Note, NoteSignature, NotSigned, checked_name

_TIME_BYTES: Final = 8
_MAX_TIME: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Cosigner:
    """A key of a witness."""

    name: str
    seed: bytes

    def __repr__(self) -> str:
        """Return a form without the secret."""
        return f"Cosigner({self.name!r})"

    @property
    def key(self) -> Key:
        """The key that checks its cosignatures."""
        return Key(checked_name(self.name), ed25519.public_key(self.seed), COSIGNATURE)

    def sign(self, text: str, seconds: int) -> NoteSignature:
        """Return the cosignature of a checkpoint at a time, in seconds since 1970."""
        signature = ed25519.sign(self.seed, _message(text, seconds))
        return NoteSignature(self.name, self.key.id, seconds.to_bytes(_TIME_BYTES, "big") + signature)


def verify(note: Note, key: Key) -> int:
    """Return when a witness saw a checkpoint, in seconds since 1970; raises NotSigned."""
    for one in note.by(key):
        seconds = int.from_bytes(one.data[:_TIME_BYTES], "big")
        message = _message(note.text, seconds)
        if (
            key.kind == COSIGNATURE
            and seconds <= _MAX_TIME
            and ed25519.verify(key.public, message, one.data[_TIME_BYTES:])
        ):
            return seconds
    raise NotSigned(f"cannot trust a checkpoint: the witness {key.name}+{key.id.hex()} has not cosigned it")


def _message(text: str, seconds: int) -> bytes:
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()
