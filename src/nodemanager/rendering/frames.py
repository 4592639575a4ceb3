"""Messages on a stream: four bytes of length, then the message."""

from __future__ import annotations

from typing import Final

HEAD: Final = 4
REQUEST_MAX: Final = 256 * 1024 * 1024
"""Bytes of a request; what is in it came from an API that bounds its objects."""


def framed(message: bytes) -> bytes:
    """Return a message with its length before it."""
    return len(message).to_bytes(HEAD, "big") + message


def length(head: bytes, limit: int) -> int:
    """Return how long the message after this head is; raise ValueError if that is too long."""
    size = int.from_bytes(head, "big")
    if size > limit:
        raise ValueError(f"a message of {size} bytes is longer than {limit}")
    return size
