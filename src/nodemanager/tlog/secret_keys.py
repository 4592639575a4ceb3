"""Keys that sign, as tools for signed notes keep them: `PRIVATE+KEY+name+hash+base64(kind, seed)`."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from nodemanager.native import ed25519
from nodemanager.tlog.cosignatures import Cosigner
from nodemanager.tlog.notes import COSIGNATURE, ED25519, BadNote, Key, checked_name

_SECRET: Final = re.compile(r"PRIVATE\+KEY\+([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)")


def encode(cosigner: Cosigner) -> str:
    """Return the key of a witness as a text, which is a secret."""
    data = base64.b64encode(bytes([COSIGNATURE]) + cosigner.seed).decode()
    return f"PRIVATE+KEY+{checked_name(cosigner.name)}+{cosigner.key.id.hex()}+{data}"


def read_cosigner(text: str) -> Cosigner:
    """Return the key of a witness; one that signs notes is taken, too, and cosigns. Raises BadNote.

    What is read is a secret, so no message repeats it.
    """
    match = _SECRET.fullmatch(text.strip())
    try:
        data = base64.b64decode(match[3], validate=True) if match else b""
    except (binascii.Error, ValueError):
        data = b""
    if not match or len(data) != 1 + ed25519.SEED_SIZE or data[0] not in (ED25519, COSIGNATURE):
        raise BadNote("cannot read a secret key: it is not PRIVATE+KEY+name+hash+base64 of an Ed25519 key")
    found = Cosigner(match[1], data[1:])
    if Key(found.name, found.key.public, data[0]).id.hex() != match[2]:
        raise BadNote("cannot read a secret key: its hash is not that of its name and key")
    return found
