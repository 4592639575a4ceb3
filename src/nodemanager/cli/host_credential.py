"""A credential for a host, as a kubeconfig: what `token` prints and `bootstrap` puts in place."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

import click

from nodemanager.api.audit.actors import TOKEN_ISSUED, TOKENS
from nodemanager.api.rights import host_rights
from nodemanager.cli.maintenance import identity
from nodemanager.cli.settings import connect
from nodemanager.cli.views import waiting
from nodemanager.client.auth import host_kubeconfig, host_tokens, renewed_token
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.auth.credentials import BearerToken
from nodemanager.client.calls import WriteOptions
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.patches import MergePatch
from nodemanager.client.subresources import IssuedToken
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import SERVICE_ACCOUNTS


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
    except errors.Unreachable as error:
        raise errors.Unreachable(f"{error}{_hint(config.server) if tried else ''}") from error
    finally:
        await client.close()
    if tried:
        await host_tokens.verify(config, hostname, settings.namespace, issued.token)
    return host_kubeconfig.kubeconfig(config, hostname, settings.namespace, issued.token), issued


def _hint(server: str) -> str:
    """Return what may be wrong with an address that the host itself cannot reach."""
    host = urlsplit(server).hostname or ""
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if not loopback:
        return ""
    return f"; {host} is this host itself: let nodemanager token use a kubeconfig with the address of the API"


async def tell(settings: connect.Settings, hostname: str, issued: IssuedToken) -> str:
    """Note on the account of a host that a user has a token of it, for the audit log; return why that failed.

    The API keeps nothing of a token that it issues.
    """
    async with connect.connect(settings) as client:
        try:
            user = await identity.whoami(client, "tell who issued the token")
        except click.ClickException:  # an old API: that somebody did is told all the same
            user = ""
        note = {"metadata": {"annotations": {TOKEN_ISSUED: f"{issued.expires} {user}".strip()}}}
        account, options = host_rights.account_name(hostname), WriteOptions(field_manager=TOKENS)
        try:
            await client.patch(
                SERVICE_ACCOUNTS, account, settings.namespace, MergePatch(note), options=options
            )
        except errors.KubeError as error:
            return str(error)
    return ""


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
