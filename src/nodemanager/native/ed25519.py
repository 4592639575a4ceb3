"""Ed25519 (RFC 8032): by the OpenSSL of the static program or of this Python, else by a package.

A key is its seed of 32 bytes; public keys have 32 bytes, signatures 64.
"""

from __future__ import annotations

import functools
import sys
from typing import Final, Protocol

from nodemanager.native import host_packages

SEED_SIZE: Final = 32
PUBLIC_SIZE: Final = 32
SIGNATURE_SIZE: Final = 64


class Unavailable(Exception):
    """This Python can neither sign nor check a signature; the message says what to install."""


class _Ed25519(Protocol):
    """What does the work."""

    def public_key(self, seed: bytes, /) -> bytes:
        """Return the public key of a seed."""

    def sign(self, seed: bytes, message: bytes, /) -> bytes:
        """Return the signature of a message."""

    def verify(self, public: bytes, signature: bytes, message: bytes, /) -> bool:
        """Tell whether a signature is right."""


def public_key(seed: bytes) -> bytes:
    """Return the public key of a seed."""
    return _provider().public_key(_checked(seed))


def sign(seed: bytes, message: bytes) -> bytes:
    """Return the signature of a message."""
    return _provider().sign(_checked(seed), message)


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Tell whether a signature is right for this message and this public key."""
    if len(public) != PUBLIC_SIZE or len(signature) != SIGNATURE_SIZE:
        return False
    return _provider().verify(public, signature, message)


def _checked(seed: bytes) -> bytes:
    if len(seed) != SEED_SIZE:
        raise ValueError(f"cannot use the seed of a key: it has {len(seed)} bytes, and needs {SEED_SIZE}")
    return seed


@functools.cache
def _provider() -> _Ed25519:
    if "_sealing" in sys.builtin_module_names:
        import _sealing  # type: ignore[import-not-found]

        built_in: _Ed25519 = _sealing
        return built_in
    from nodemanager.native.openssl import NotThere, OpenSsl  # with ctypes, which the static program has not

    try:
        return OpenSsl()
    except NotThere:
        return _Package()


class _Package:
    """The package cryptography, under the names of the built-in module."""

    def __init__(self) -> None:
        try:
            with host_packages.visible():
                from cryptography.exceptions import InvalidSignature
                from cryptography.hazmat.primitives import serialization
                from cryptography.hazmat.primitives.asymmetric import ed25519
        except ImportError as error:
            raise Unavailable(
                "cannot sign or check signatures: the Python package cryptography is not installed; install"
                " it (on Debian: python3-cryptography), or use the static program"
            ) from error
        self._keys, self._wrong = ed25519, InvalidSignature
        self._public = functools.lru_cache(16)(ed25519.Ed25519PublicKey.from_public_bytes)
        """A key that is used again is quicker than a new one; logs have few, and many signatures."""
        self._raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
        self._try_out()

    def _try_out(self) -> None:
        """Make sure that it may: else each signature would be a wrong one to it, and each seed too short."""
        try:
            self.public_key(bytes(SEED_SIZE))
        except Exception as error:  # of the package's own kinds, another one in each version
            raise Unavailable(
                "cannot sign or check signatures: this host allows no Ed25519, as where FIPS is enforced;"
                " allow it in the configuration of OpenSSL, or use the static program"
            ) from error

    def public_key(self, seed: bytes, /) -> bytes:
        # Not public_bytes_raw: Debian 12 has a version of the package without it.
        return self._keys.Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes(*self._raw)

    def sign(self, seed: bytes, message: bytes, /) -> bytes:
        return self._keys.Ed25519PrivateKey.from_private_bytes(seed).sign(message)

    def verify(self, public: bytes, signature: bytes, message: bytes, /) -> bool:
        try:
            self._public(public).verify(signature, message)
        except (self._wrong, ValueError):  # ValueError: these bytes are no point of the curve
            return False
        return True
