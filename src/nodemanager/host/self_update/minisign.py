"""Signatures of programs, as this host takes them: what is wrong with one is an error of the host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nodemanager.host.base import HostError
from nodemanager.tlog import minisign
from nodemanager.tlog.minisign import PublicKey, Signature

MAX_BYTES: Final = minisign.MAX_BYTES


class SignatureRefused(HostError):
    """A file has no signature that this host trusts."""


def parse_keys(text: str) -> list[PublicKey]:
    """Return the keys of a file: a line each, beside comments; raises HostError on any other line."""
    try:
        return minisign.parse_keys(text)
    except minisign.UnusableKey as error:
        raise HostError(str(error)) from error


def parse_signature(text: str) -> Signature:
    """Return the signature in a text; raises SignatureRefused if there is none."""
    with _refusing():
        return minisign.parse_signature(text)


def verify(keys: Sequence[PublicKey], found: Signature, digest: bytes) -> Mapping[str, str]:
    """Return what the signed comment of a good signature says, or raise SignatureRefused."""
    with _refusing():
        return minisign.verify(keys, found, digest)


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except minisign.BadSignature as error:
        raise SignatureRefused(str(error)) from error
