"""Our identity for a LINSTOR controller: with TLS, the client certificate in a Secret. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodemanager.backends.errors import Unusable
from nodemanager.client.auth.config import Anonymous, ClientConfig, TlsIdentity

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
AUTHORITY: Final = "ca.crt"


class SecretIdentity(Anonymous):
    """A client certificate from a Secret."""

    def __init__(self, identity: TlsIdentity) -> None:
        self._identity = identity

    async def tls_identity(self) -> TlsIdentity | None:
        """Return the certificate."""
        return self._identity


def config(url: str, name: str = "", secret: Mapping[str, bytes] | None = None) -> ClientConfig:
    """Return how to reach a controller; `secret` has the keys that Piraeus writes into linstor-client-tls."""
    if secret is None:
        return ClientConfig(url, source=f"the LINSTOR controller {url}")
    lacking = [key for key in (CERTIFICATE, KEY, AUTHORITY) if not secret.get(key)]
    if lacking:
        raise Unusable(f"cannot use Secret {name}: it has no {lacking[0]}; name one like linstor-client-tls")
    identity = TlsIdentity(secret[CERTIFICATE], secret[KEY])
    return ClientConfig(
        url, ca=secret[AUTHORITY], credentials=SecretIdentity(identity), source=f"Secret {name}"
    )
