"""Clients for tests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from nodemanager.client.auth.config import Anonymous, ClientConfig, Headers, TlsIdentity
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from support.apiserver import ApiServer


class Certificate(Anonymous):
    """Credentials that are one client certificate."""

    def __init__(self, identity: TlsIdentity) -> None:
        self._identity = identity

    async def tls_identity(self) -> TlsIdentity | None:
        return self._identity


class Tokens(Anonymous):
    """Credentials that hand out the next token after every refresh."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.refreshes = 0

    async def headers(self) -> Headers:
        return {"authorization": f"Bearer {self.tokens[0]}"}

    async def refresh(self) -> bool:
        self.refreshes += 1
        if len(self.tokens) > 1:
            self.tokens.pop(0)
            return True
        return False


@contextlib.asynccontextmanager
async def connected(config: ClientConfig) -> AsyncIterator[Client]:
    """A client that is closed at the end."""
    client = Client(HttpTransport(config))
    try:
        yield client
    finally:
        await client.close()


def as_user(api: ApiServer, name: str, *groups: str) -> ClientConfig:
    """Return the configuration of a user with a certificate of that server's CA."""
    leaf = api.ca.issue_cert("user.test", common_name=name, organization_name=groups[0] if groups else None)
    identity = TlsIdentity(leaf.cert_chain_pems[0].bytes(), leaf.private_key_pem.bytes())
    return ClientConfig(api.server, ca=api.ca.cert_pem.bytes(), credentials=Certificate(identity))


def as_admin(api: ApiServer) -> ClientConfig:
    """Return the configuration of the one who may do everything."""
    return as_user(api, "admin", "system:masters")
