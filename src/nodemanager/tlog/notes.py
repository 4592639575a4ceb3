"""Signed notes (C2SP signed-note): a text, and lines with signatures of it by named keys.

text, which ends with a newline
<empty line>
— name base64(4 bytes of the key's hash, signature)
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from nodemanager.native import ed25519

ED25519: Final = 0x01
COSIGNATURE: Final = 0x04
"""Ed25519 with a time (C2SP tlog-cosignature)."""
MAX_NOTE: Final = 1_000_000
MAX_SIGNATURES: Final = 100
_DASH: Final = "— "
_NAME: Final = re.compile(r"[^\s+]+")
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")
_VKEY: Final = re.compile(r"([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)")


class BadNote(ValueError):
    """A text is no signed note, or a key is none; the message says why."""


class NotSigned(BadNote):
    """A note has no signature by the key that is asked for, or a wrong one."""


@dataclass(frozen=True, slots=True)
class Key:
    """A public key and its name."""

    name: str
    public: bytes
    kind: int = ED25519

    @property
    def id(self) -> bytes:
        """Four bytes by which a signature names its key."""
        return _id(self.name, self.kind, self.public)

    def __str__(self) -> str:
        """Return it as tools take it, a vkey: `name+id+base64`."""
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(bytes([self.kind]) + self.public).decode()}"


@functools.lru_cache(64)
def _id(name: str, kind: int, public: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + public).digest()[:4]


def read_key(text: str) -> Key:
    """Return the key that a vkey says; raises BadNote."""
    match = _VKEY.fullmatch(text.strip())
    data = _decoded(match[3]) if match else b""
    if not match or len(data) != 1 + ed25519.PUBLIC_SIZE or data[0] not in (ED25519, COSIGNATURE):
        raise BadNote(
            f"cannot read the key {text[:120]!r}: it is not of the form name+hash+base64 of an Ed25519 key"
        )
    key = Key(match[1], data[1:], data[0])
    if key.id.hex() != match[2]:
        raise BadNote(f"cannot read the key {text[:120]!r}: its hash is {key.id.hex()}, not {match[2]}")
    return key


@dataclass(frozen=True, slots=True)
class Signer:
    """A key that can sign."""

    name: str
    seed: bytes

    def __repr__(self) -> str:
        """Return a form without the secret."""
        return f"Signer({self.name!r})"

    @property
    def key(self) -> Key:
        """The key that checks its signatures."""
        return Key(checked_name(self.name), ed25519.public_key(self.seed))

    def sign(self, text: str) -> NoteSignature:
        """Return its signature of a text."""
        return NoteSignature(self.name, self.key.id, ed25519.sign(self.seed, text.encode()))


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """A signature of a note; whether it is right has to be checked."""

    name: str
    key_id: bytes
    data: bytes

    def __str__(self) -> str:
        """Return its line."""
        return f"{_DASH}{self.name} {base64.b64encode(self.key_id + self.data).decode()}"


@dataclass(frozen=True, slots=True)
class Note:
    """A text with signatures."""

    text: str
    signatures: tuple[NoteSignature, ...] = ()

    def __str__(self) -> str:
        """Return it as it is sent and stored."""
        return "".join([self.text, "\n", *(f"{one}\n" for one in self.signatures)])

    def by(self, key: Key) -> Iterable[NoteSignature]:
        """Return the signatures that say that they are by a key."""
        return [one for one in self.signatures if (one.name, one.key_id) == (key.name, key.id)]

    def verify(self, key: Key) -> None:
        """Raise NotSigned unless the key has signed this text."""
        found = list(self.by(key))
        if not found:
            raise NotSigned(f"cannot trust a note: the key {key.name}+{key.id.hex()} has not signed it")
        text = self.text.encode()
        if not all(ed25519.verify(key.public, text, one.data) for one in found):
            raise NotSigned(f"cannot trust a note: its signature by {key.name}+{key.id.hex()} is wrong")

    def signed_by(self, *signers: Signer) -> Note:
        """Return it with further signatures."""
        return Note(self.text, (*self.signatures, *(one.sign(self.text) for one in signers)))


def read(text: str) -> Note:
    """Return the note that a text is; raises BadNote."""
    if len(text) > MAX_NOTE:
        raise BadNote(f"cannot read a note: it is longer than {MAX_NOTE} characters")
    body, parted, tail = text.rpartition("\n\n")
    if not parted or not tail.endswith("\n"):
        raise BadNote("cannot read a note: it has no empty line before its signatures, or does not end")
    if _CONTROL.search(text):
        raise BadNote("cannot read a note: it has control characters in it")
    lines = tail[:-1].split("\n")
    if len(lines) > MAX_SIGNATURES:
        raise BadNote(f"cannot read a note: it has more than {MAX_SIGNATURES} signatures")
    return Note(body + "\n", tuple(_signature(line) for line in lines))


def _signature(line: str) -> NoteSignature:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    data = _decoded(encoded)
    if not line.startswith(_DASH) or not name or len(data) < 5:
        raise BadNote(f"cannot read a note: {line[:120]!r} is no signature")
    return NoteSignature(checked_name(name), data[:4], data[4:])


def checked_name(name: str) -> str:
    """Return the name of a key if it is one; raises BadNote."""
    if not _NAME.fullmatch(name):
        raise BadNote(f"cannot name a key {name[:120]!r}: a name has no spaces and no +, and is not empty")
    return name


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
