"""The certificate authorities that the system trusts, even if our OpenSSL looks for them in another place."""

from __future__ import annotations

import os
import ssl
from typing import Final

_BUNDLES: Final = (
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
)
"""Where Fedora and RHEL, their descendants, openSUSE and older FreeBSD keep all authorities in one file."""


def load(context: ssl.SSLContext) -> None:
    """Trust the authorities of the system, or those in the variables that all programs with OpenSSL read.

    If one of the variables is set, it decides alone: a missing file does not add other authorities.
    """
    context.load_default_certs()
    known = ssl.get_default_verify_paths()
    named = known.openssl_cafile_env in os.environ or known.openssl_capath_env in os.environ
    if named or known.cafile:
        return
    for path in _BUNDLES:
        if os.path.exists(path):  # noqa: PTH110 - pathlib is slow to import
            context.load_verify_locations(path)
            return


def client_context() -> ssl.SSLContext:
    """Return how a client of HTTP connects to servers that the system trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    load(context)
    return context
