"""Credentials in files that another program rotates: tokens and client certificates."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from nodemanager.client.auth import credentials
from nodemanager.client.auth.config import Headers, TlsIdentity
from nodemanager.kube.errors import ConfigError

MAX_CREDENTIAL_BYTES = 1024 * 1024
"""Larger files are no token and no certificate."""
REREAD_SECONDS = 60.0
"""How long a token file is believed; kubelets renew tokens minutes before the old one ends."""
RECENT_SECONDS = 10.0
"""A credential that changed so recently is worth another try: requests in flight still had the old one."""

Clock = Callable[[], float]
_log = logging.getLogger(__name__)


class TokenFile:
    """A token that another program rotates: read again every minute, and at once after a 401.

    While the file is missing or empty, as it may be for a moment during rotation, the last
    good token stays in use; `initial` is the token to use until the file has one.
    """

    def __init__(self, path: Path, *, initial: str = "", clock: Clock = time.monotonic):
        self._path = path
        self._clock = clock
        self._token = initial
        self._headers = credentials.bearer_headers(initial, "the kubeconfig") if initial else {}
        self._reread_at = -float("inf")
        self._changed_at = -float("inf")
        self._problem = ""

    def prime(self) -> None:
        """Read the file now, so that a wrong path is reported when the configuration is loaded."""
        self._reread()
        if not self._token:
            raise ConfigError(self._problem)

    async def headers(self) -> Headers:
        """Return the token, read again if it is older than a minute."""
        if self._clock() >= self._reread_at:
            self._reread()
        if not self._token:
            raise ConfigError(self._problem)
        return self._headers

    async def tls_identity(self) -> TlsIdentity | None:
        """Return no certificate."""
        return None

    async def refresh(self) -> bool:
        """Read the file at once; trying again helps if the token is another one than a moment ago."""
        self._reread()
        return self._clock() - self._changed_at < RECENT_SECONDS

    def _reread(self) -> None:
        try:
            token = read_credential(self._path, "the token file").decode("utf-8", "replace").strip()
            if not token:
                raise ConfigError(f"cannot use the token file {self._path}: it is empty")
            headers = credentials.bearer_headers(token, f"the token file {self._path}")
        except ConfigError as error:
            if self._token and not self._problem:
                _log.warning("%s; going on with the token read before", error)
            self._problem = str(error)
            return  # and try again with the next request: rotation takes an instant, not a minute
        now = self._clock()
        self._problem = ""
        self._reread_at = now + REREAD_SECONDS
        if token != self._token:
            self._changed_at = now
            self._token, self._headers = token, headers


class PemSource(Protocol):
    """Where one PEM text comes from: inline in a kubeconfig, or a file."""

    def signature(self) -> object:
        """Return something that differs when the text may have changed."""

    def read(self) -> bytes:
        """Return the text, or raise ConfigError."""


class PemInline:
    """PEM that is written in the kubeconfig itself."""

    def __init__(self, data: bytes):
        self._data = data

    def signature(self) -> object:
        """Return a constant."""
        return None

    def read(self) -> bytes:
        """Return the text."""
        return self._data


class PemFile:
    """PEM in a file that may be replaced at any time."""

    def __init__(self, path: Path, what: str):
        self._path = path
        self._what = what

    def signature(self) -> object:
        """Return what tells one version of the file from the next, without reading it."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        # The time of change cannot be set: a copy may have the time of its original, and on ext4 the number
        # of the file that it replaces.
        return (found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev)

    def read(self) -> bytes:
        """Return the text."""
        return read_credential(self._path, self._what)


class ClientCertificate:
    """A client certificate and key; files are read again when they change.

    A pair that cannot be read, as in the middle of a rotation, leaves the last good one in use.
    """

    def __init__(
        self,
        certificate: PemSource,
        key: PemSource,
        *,
        source: str = "the kubeconfig",
        clock: Clock = time.monotonic,
    ):
        self._sources = (certificate, key)
        self._source = source
        self._clock = clock
        self._signature: object = None
        self._identity: TlsIdentity | None = None
        self._changed_at = -float("inf")

    def prime(self) -> None:
        """Read the pair now, so that a wrong one is reported when the configuration is loaded."""
        self._load()

    async def headers(self) -> Headers:
        """Return no headers: the certificate speaks during the TLS handshake."""
        return {}

    async def tls_identity(self) -> TlsIdentity | None:
        """Return the pair, read again if a file changed."""
        if self._identity is None:
            self._load()
        elif self._signature != self._current_signature():
            self._try_load()
        return self._identity

    async def refresh(self) -> bool:
        """Read the files at once; trying again helps if the pair is another one than a moment ago."""
        self._try_load()
        return self._clock() - self._changed_at < RECENT_SECONDS

    def _current_signature(self) -> object:
        return tuple(source.signature() for source in self._sources)

    def _try_load(self) -> None:
        try:
            self._load()
        except ConfigError:
            if self._identity is None:
                raise

    def _load(self) -> None:
        # Signature first: a file that changes while it is read is then read again.
        signature = self._current_signature()
        certificate, key = (source.read() for source in self._sources)
        check_certificate(certificate, f"the client certificate of {self._source}")
        check_key(key, f"the client key of {self._source}")
        self._signature = signature
        identity = TlsIdentity(certificate, key)
        if self._identity is not None and identity != self._identity:
            self._changed_at = self._clock()
        self._identity = identity


def read_credential(path: Path, what: str) -> bytes:
    """Return the content of a small regular file, or raise ConfigError that says `what` it was for."""
    try:
        # O_NONBLOCK: a FIFO in this place must be an error, not a hanging event loop.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(f"cannot read {what} {path}: it is not a regular file")
            data = file.read(MAX_CREDENTIAL_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {what} {path}: {error.strerror or error}") from error
    except ValueError as error:  # a NUL byte or a lone surrogate in the path
        raise ConfigError(f"cannot read {what} {str(path)!r}: the path is malformed: {error}") from None
    if len(data) > MAX_CREDENTIAL_BYTES:
        raise ConfigError(f"cannot read {what} {path}: it is larger than {MAX_CREDENTIAL_BYTES} bytes")
    return data


def check_certificate(pem: bytes, what: str) -> None:
    """Raise ConfigError unless the text has a PEM certificate in it."""
    if b"-----BEGIN CERTIFICATE-----" not in pem and b"-----BEGIN TRUSTED CERTIFICATE-----" not in pem:
        raise ConfigError(
            f"cannot use {what}: there is no PEM certificate in it (-----BEGIN CERTIFICATE-----)"
        )


def check_key(pem: bytes, what: str) -> None:
    """Raise ConfigError unless the text has a PEM private key that can be used unattended."""
    if b"PRIVATE KEY-----" not in pem:
        raise ConfigError(f"cannot use {what}: there is no PEM private key in it")
    if b"ENCRYPTED" in pem:
        raise ConfigError(
            f"cannot use {what}: it is encrypted and nobody is there to type the pass phrase;"
            " decrypt it (openssl pkey -in FILE) or use another credential"
        )
