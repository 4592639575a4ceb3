"""Signatures of minisign: who signed a file, and what the signature says about it.

A public key is two bytes that name the algorithm, eight that name the key, and the key itself, in base64. A
signature is a comment that nobody signed, the signature of the file's BLAKE2b digest, a comment that is
signed, and the signature of the two before.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from nodemanager.native import ed25519

MAX_BYTES: Final = 8192
"""A file of keys, or a signature: both have a few lines."""
_ALGORITHM: Final = b"Ed"
_PREHASHED: Final = b"ED"
_ID: Final = slice(2, 10)
_KEY_SIZE: Final = 2 + 8 + ed25519.PUBLIC_SIZE
_SIGNATURE_SIZE: Final = 2 + 8 + ed25519.SIGNATURE_SIZE
_UNTRUSTED: Final = "untrusted comment:"
_TRUSTED: Final = "trusted comment: "


class UnusableKey(Exception):
    """A text is no public key of minisign."""


class BadSignature(Exception):
    """A file has no trusted signature, or is not what was signed."""


class PublicKey(NamedTuple):
    """A key that signatures are checked with."""

    id: bytes
    key: bytes

    @property
    def name(self) -> str:
        """How minisign calls it."""
        return key_name(self.id)


class Signature(NamedTuple):
    """A signature of a file."""

    key_id: bytes
    signature: bytes
    comment: str
    """What is signed together with the file."""
    of_comment: bytes


def key_name(key_id: bytes) -> str:
    """Return how minisign calls a key: by a number in hexadecimal, without zeros in front."""
    return f"{int.from_bytes(key_id, 'little'):X}"


def parse_keys(text: str) -> list[PublicKey]:
    """Return the keys of a file: a line each, beside comments; raises UnusableKey on any other line."""
    lines = (line.strip() for line in text.splitlines())
    return [_key(line) for line in lines if line and not line.startswith((_UNTRUSTED, "#"))]


def parse_signature(text: str) -> Signature:
    """Return the signature in a text; raises BadSignature if there is none."""
    lines = text.splitlines()
    try:
        if len(lines) < 4 or not lines[0].startswith(_UNTRUSTED) or not lines[2].startswith(_TRUSTED):
            raise ValueError("it has not the four lines of minisign")
        signed, of_comment = (base64.b64decode(lines[place], validate=True) for place in (1, 3))
        if len(signed) != _SIGNATURE_SIZE or len(of_comment) != ed25519.SIGNATURE_SIZE:
            raise ValueError("its length is wrong")
        if signed[:2] != _PREHASHED:
            raise ValueError("it is of another algorithm, or by a minisign before 0.10: sign the file again")
    except (ValueError, binascii.Error) as error:
        raise BadSignature(f"cannot read the signature: {error}") from error
    return Signature(signed[_ID], signed[10:], lines[2].removeprefix(_TRUSTED), of_comment)


def verify(keys: Sequence[PublicKey], found: Signature, digest: bytes) -> Mapping[str, str]:
    """Return what the signed comment of a good signature says, such as `version`.

    `digest` is that of the file, as BLAKE2b of 64 bytes. Raises BadSignature if it is not a good one.
    """
    key = next((one for one in keys if hmac.compare_digest(one.id, found.key_id)), None)
    if key is None:
        theirs = key_name(found.key_id)
        ours = ", ".join(one.name for one in keys) or "none"
        raise BadSignature(f"it is signed with key {theirs}, which is not trusted (trusted: {ours})")
    try:
        good = ed25519.verify(key.key, digest, found.signature)
        whole = ed25519.verify(key.key, found.signature + found.comment.encode(), found.of_comment)
    except ed25519.Unavailable as error:
        raise BadSignature(str(error)) from error
    if not good:
        raise BadSignature(f"its signature is not that of key {key.name}: the file was changed")
    if not whole:
        raise BadSignature("the comment of its signature was changed")
    parts = (part.partition(":") for part in found.comment.split("\t"))
    return {name: value for name, colon, value in parts if colon}


def _key(line: str) -> PublicKey:
    try:
        data = base64.b64decode(line, validate=True)
    except (ValueError, binascii.Error):
        data = b""
    if len(data) != _KEY_SIZE or data[:2] != _ALGORITHM:
        raise UnusableKey(
            f"cannot read the public key {line[:80]!r}: it is none of minisign; see minisign -G"
        )
    return PublicKey(data[_ID], data[10:])
