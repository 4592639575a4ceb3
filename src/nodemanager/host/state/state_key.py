"""The key of Secrets on disk, accepted only from places that other users cannot read or write."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import sys
from pathlib import Path
from typing import Final, Protocol

from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.native import host_packages

MAX_BYTES: Final = 4096
MIN_BYTES: Final = 32
_OTHERS: Final = 0o077
_OTHERS_OF_CREDENTIAL: Final = 0o037
"""systemd may let the user of a service in by an ACL, whose mask shows as a right of the group to read."""


class KeyRefused(HostError):
    """The key cannot be used, or is not safe."""


class Cipher(Protocol):
    """Authenticated encryption."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Return the data so that only the key opens it."""

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Return the data again; raises if anything was changed."""


def cipher_of(path: str, credentials: str = "") -> Cipher:
    """Return what a key file encrypts with; a name without a slash is one of systemd's `credentials`.

    At least 32 bytes that nobody can guess, in any form; the whole file is the key, up to 4096 of
    them.
    """
    others = _OTHERS
    if "/" not in path:
        if not credentials:
            raise KeyRefused(
                f"cannot use key {path}: it has no slash, so it should be a credential of systemd, and there"
                " are none; name a file, or add LoadCredential= to the unit"
            )
        path, others = f"{credentials}/{path}", _OTHERS_OF_CREDENTIAL
    key = read_guarded(path, others).strip()
    if len(key) < MIN_BYTES:
        raise KeyRefused(
            f"cannot use the key {path}: it has less than {MIN_BYTES} bytes; make one with:"
            " head -c 32 /dev/urandom | base64"
        )
    return _aes_gcm(hashlib.sha256(b"nodemanager state key\n" + key).digest())


def read_guarded(path: str, others: int, limit: int = 0) -> bytes:
    """Return a file of ours or root's on which others have none of these rights; what is checked is read.

    One with more than `limit` bytes is refused. Without a limit, its beginning is the key: hosts may have a
    longer one, by which their state is sealed.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with contextlib.closing(Tree("/")) as tree:
            place = tree.place(str(Path(path).absolute()))  # follows no link that others may have planted
            descriptor = os.open(place.name, flags, dir_fd=place.folder)
        try:
            _check(path, os.fstat(descriptor), others)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                found = file.read(limit + 1 if limit else MAX_BYTES)
        finally:
            os.close(descriptor)
    except KeyRefused:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise KeyRefused(
                f"cannot use the key {path}: it is a symbolic link; name the file that it points to"
            ) from error
        raise KeyRefused(f"cannot read the key {path}: {error.strerror or error}") from error
    if limit and len(found) > limit:
        raise KeyRefused(f"cannot use the key {path}: it has more than {limit // 1024} KiB")
    return found


def _check(path: str, found: os.stat_result, others: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise KeyRefused(f"cannot use the key {path}: it is not a regular file; name one")
    if found.st_uid not in (0, os.geteuid()):
        raise KeyRefused(
            f"cannot use the key {path}: user {found.st_uid} owns it, and may know or change it; make a new"
            " one that belongs to root"
        )
    if found.st_mode & others:
        raise KeyRefused(
            f"cannot use the key {path}: others than its owner may use it (mode"
            f" {stat.S_IMODE(found.st_mode):04o}); run chmod 0400 {path}, or make a new one if they may have"
            " read it"
        )


class _BuiltIn:
    """The cipher of the OpenSSL that the static program is linked with."""

    def __init__(self, key: bytes) -> None:
        import _sealing  # type: ignore[import-not-found]

        self._key, self._openssl = key, _sealing

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        sealed: bytes = self._openssl.encrypt(self._key, nonce, data, associated_data or b"")
        return sealed

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        opened: bytes = self._openssl.decrypt(self._key, nonce, data, associated_data or b"")
        return opened


def _aes_gcm(key: bytes) -> Cipher:
    """Return the cipher of a package that is large, and only needed with a key."""
    if "_sealing" in sys.builtin_module_names:
        return _BuiltIn(key)
    try:
        with host_packages.visible():
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise KeyRefused(
            "cannot encrypt: the Python package cryptography is not installed; install it (on Debian:"
            " python3-cryptography), or remove --state.key-file"
        ) from error
    return AESGCM(key)
