"""A credential for a host, as a kubeconfig: what `token` prints and `bootstrap` puts in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nodemanager.api.rights import host_rights
from nodemanager.cli.settings import connect
from nodemanager.cli.views import waiting
from nodemanager.client.auth import host_kubeconfig, host_tokens, renewed_token
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.auth.credentials import BearerToken
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.subresources import IssuedToken
from nodemanager.client.verbs import Client
from nodemanager.kube import errors


async def issue(
    settings: connect.Settings,
    hostname: str,
    ttl: float,
    *,
    tried: bool,
    labels: Mapping[str, str] | None = None,
) -> tuple[bytes, IssuedToken]:
    """Return a kubeconfig with a new token of a host, and its labels, if it has any.

    `tried`: only after the API has taken that token.
    """
    config = replace(connect.client_config(settings), labels=labels or {})
    client = Client(waiting.TellingTransport(HttpTransport(config), config.server))
    try:
        issued = await host_tokens.issue(client, hostname, settings.namespace, ttl)
    except errors.ConfigError as error:
        if isinstance(error.__cause__, errors.Forbidden):
            check_whose(config, hostname, settings.namespace)
        raise
    finally:
        await client.close()
    if tried:
        await host_tokens.verify(config, hostname, settings.namespace, issued.token)
    return host_kubeconfig.kubeconfig(config, hostname, settings.namespace, issued.token), issued


def check_whose(config: ClientConfig, hostname: str, namespace: str) -> None:
    """Raise if the credential that was refused is that of another host: one of the two names is wrong."""
    if not isinstance(config.credentials, BearerToken):
        return
    other = host_rights.host_of_account(renewed_token.subject(config.credentials.token), namespace)
    if other not in ("", hostname):
        raise errors.ConfigError(
            f"cannot get a token for {hostname}: the credential that was given may not do that: it is that of"
            f" {other}; if this host is {other}, add --hostname {other}, otherwise use the administrator's,"
            f" or that of {hostname} itself"
        )
