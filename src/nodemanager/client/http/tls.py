"""TLS contexts from PEM bytes, rebuilt only when the client certificate changes."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import ssl
from asyncio import sslproto
from collections.abc import Iterator
from urllib.parse import urlsplit

from nodemanager.client.auth.config import ClientConfig, TlsIdentity
from nodemanager.kube import errors
from nodemanager.native import authorities

log = logging.getLogger(__name__)
_CERTIFICATE = re.compile(
    rb"-----BEGIN (?:TRUSTED )?CERTIFICATE-----.*?-----END (?:TRUSTED )?CERTIFICATE-----", re.DOTALL
)


def set_buffer_size(size: int = 32 * 1024) -> None:
    """Have asyncio allocate smaller buffers for TLS connections, in the whole process.

    Its own 256 KiB are zeroed for every connection, also for one that carries a bookmark a minute. 32 KiB, of
    which a TLS record takes half, are cheaper to read through, too: they stay in the processor's cache. For
    the composition root.
    """
    sslproto.SSLProtocol.max_size = size


class ContextCache:
    """Keeps one context per identity: building one costs milliseconds, connections are compared by it."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._plain = urlsplit(config.server).scheme != "https"
        self._identity: TlsIdentity | None = None
        self._context: ssl.SSLContext | None = None

    def get(self, identity: TlsIdentity | None) -> ssl.SSLContext | None:
        """Return the context to connect with, None for plain HTTP."""
        if self._plain:
            return None
        if self._context is None:
            self._context = build(self._config, identity)
        elif identity != self._identity:
            self._replace(identity)
        self._identity = identity
        return self._context

    def _replace(self, identity: TlsIdentity | None) -> None:
        """Build a context for a new identity; half a rotation, which cannot be used, leaves the old one."""
        try:
            self._context = build(self._config, identity)
        except errors.ConfigError as error:
            log.warning("%s; going on with the one before", error)


def build(config: ClientConfig, identity: TlsIdentity | None) -> ssl.SSLContext:
    """Return a client context that trusts the configured CA and presents `identity`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif config.ca is None:
        authorities.load(context)
    else:
        _load_ca(context, config)
    if identity is not None:
        _load_identity(context, identity, config.source)
    return context


def _load_ca(context: ssl.SSLContext, config: ClientConfig) -> None:
    blocks = _CERTIFICATE.findall(config.ca or b"")  # without the comments, which may be in any language
    try:
        context.load_verify_locations(cadata=b"\n".join(blocks).decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
        raise errors.ConfigError(
            f"cannot use the certificate authority of {config.source or config.server}: it is not PEM"
        ) from error


def _load_identity(context: ssl.SSLContext, identity: TlsIdentity, source: str) -> None:
    try:
        with _as_file(identity.certificate + b"\n" + identity.key) as path:
            # A password callback keeps OpenSSL from asking on the terminal for an encrypted key.
            context.load_cert_chain(path, password=lambda: b"")
    except (ssl.SSLError, ValueError) as error:
        raise errors.ConfigError(
            f"cannot use the client certificate of {source or 'the kubeconfig'}: certificate and key do not"
            f" fit, are not PEM, or the key is encrypted ({getattr(error, 'reason', None) or error})"
        ) from error


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """Lend bytes as a file name to OpenSSL, which takes nothing else; on Linux without touching a disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("identity", os.MFD_CLOEXEC)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
    else:
        import tempfile  # with all the archive formats it knows; Linux never gets here

        with tempfile.NamedTemporaryFile() as named:  # 0600 by default
            named.write(data)
            named.flush()
            yield named.name
