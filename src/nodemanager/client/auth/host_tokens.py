"""Tokens of hosts: requested, and tried before they are used."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from nodemanager.api.rights import host_rights
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.auth.credentials import BearerToken
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.subresources import IssuedToken, request_token
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.objects import Resource, Untyped

MIN_SECONDS: Final = 600
"""The API issues no token for less."""
_REVIEWS: Resource[Untyped] = Resource(
    "authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", dict, namespaced=False
)


async def issue(client: Client, hostname: str, namespace: str, seconds: float) -> IssuedToken:
    """Have a token issued for a host; errors say what to do."""
    account = host_rights.account_name(hostname)
    if seconds < MIN_SECONDS:
        raise errors.ConfigError(
            f"cannot ask for a token of {seconds:g} s: the API issues none for less than {MIN_SECONDS // 60}m"
        )
    what = f"cannot get a token for {hostname}"
    try:
        return await request_token(client, account, namespace, seconds=int(seconds))
    except errors.NotFound as error:
        raise errors.ConfigError(
            f"{what}: there is no ServiceAccount {account} in namespace {namespace}; run nodemanager rbac"
            f" --hostname {hostname} | kubectl apply -f -"
        ) from error
    except errors.Unauthorized as error:
        raise errors.ConfigError(
            f"{what}: the credential that was given is not valid, or has expired; run nodemanager token again"
        ) from error
    except errors.Forbidden as error:
        raise errors.ConfigError(
            f"{what}: the credential that was given may not do that: {error}; use the administrator's, or"
            f" that of {hostname} itself"
        ) from error


async def verify(config: ClientConfig, hostname: str, namespace: str, token: str) -> None:
    """Make sure that a token is good for what it was issued for, before it replaces another."""
    client = Client(HttpTransport(replace(config, credentials=BearerToken(token))))
    try:
        answer = await client.create(_REVIEWS, {"apiVersion": _REVIEWS.api_version, "kind": _REVIEWS.kind})
    finally:
        await client.close()
    who = ((answer.get("status") or {}).get("userInfo") or {}).get("username", "")
    wanted = f"system:serviceaccount:{namespace}:{host_rights.account_name(hostname)}"
    if who != wanted:
        raise errors.ConfigError(
            f"cannot use the new token: the API takes it for {who or 'nobody'}, not {wanted}"
        )
