"""A credential for a host, as a kubeconfig: what `token` prints and `bootstrap` puts in place."""

from __future__ import annotations

from nodemanager.cli import connect, waiting
from nodemanager.client import host_kubeconfig, host_tokens
from nodemanager.client.http import Client
from nodemanager.client.subresources import IssuedToken
from nodemanager.client.transport import HttpTransport


async def issue(
    settings: connect.Settings, hostname: str, ttl: float, *, tried: bool
) -> tuple[bytes, IssuedToken]:
    """Return a kubeconfig with a new token of a host; `tried`: only after the API has taken that token."""
    config = connect.client_config(settings)
    client = Client(waiting.TellingTransport(HttpTransport(config), config.server))
    try:
        issued = await host_tokens.issue(client, hostname, settings.namespace, ttl)
    finally:
        await client.close()
    if tried:
        await host_tokens.verify(config, hostname, settings.namespace, issued.token)
    return host_kubeconfig.kubeconfig(config, hostname, settings.namespace, issued.token), issued
