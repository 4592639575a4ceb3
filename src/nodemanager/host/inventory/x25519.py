"""Key pairs for WireGuard: X25519 (RFC 7748), which the standard library lacks.

Used to make a few keys in the life of a host, never for traffic, so a ladder in Python will do.
"""

from __future__ import annotations

import base64
import secrets
from typing import NamedTuple

_P = 2**255 - 19
_A24 = 121665
_BASE = (9).to_bytes(32, "little")


class KeyPair(NamedTuple):
    """Both halves in base64, as wg prints them."""

    private: str
    public: str

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public!r})"


def generate() -> KeyPair:
    """Return a new key pair."""
    private = _clamped(secrets.token_bytes(32))
    return KeyPair(_text(private), _text(multiply(private, _BASE)))


def public_of(private: str) -> str:
    """Return the public half of a private key; raise ValueError if it is none."""
    data = base64.b64decode(private, validate=True)
    if len(data) != 32:
        raise ValueError("cannot read the private key: it does not have 32 bytes")
    return _text(multiply(_clamped(data), _BASE))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _clamped(scalar: bytes) -> bytes:
    data = bytearray(scalar)
    data[0] &= 248
    data[31] = (data[31] & 127) | 64
    return bytes(data)


def multiply(scalar: bytes, point: bytes) -> bytes:
    """Return the u-coordinate of `scalar` times the point with this u-coordinate."""
    k = int.from_bytes(scalar, "little")
    u = int.from_bytes(point, "little") & (2**255 - 1)
    x2, z2, x3, z3, swap = 1, 0, u, 1, 0
    for bit in reversed(range(255)):
        now = (k >> bit) & 1
        if swap ^ now:
            x2, z2, x3, z3 = x3, z3, x2, z2
        swap = now
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % _P, b * b % _P, d * a % _P, c * b % _P
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % _P, u * (da - cb) ** 2 % _P
        x2, z2 = aa * bb % _P, e * (aa + _A24 * e) % _P
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, _P - 2, _P) % _P).to_bytes(32, "little")
