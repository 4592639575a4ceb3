"""The credential that an agent uses: read from a kubeconfig, told whose it is, and followed on disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nodemanager.agent.link import credential_watch
from nodemanager.agent.link.credential_watch import CredentialWatch, Stamps
from nodemanager.agent.options import OwnCredential, OwnToken
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.rights import host_rights
from nodemanager.cli.settings import connect
from nodemanager.client.auth import incluster, kubeconfig
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.auth.credentials import BearerToken
from nodemanager.client.auth.renewed_token import RenewedToken
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from nodemanager.kube.objects import Resource, Untyped

_REVIEWS: Resource[Untyped] = Resource(
    "authorization.k8s.io",
    "v1",
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    dict,
    namespaced=False,
)


@dataclass(frozen=True, slots=True)
class AgentCredential:
    """What was read at the start of an agent."""

    settings: connect.Settings
    seen: Stamps
    read: ClientConfig
    """The credential as it is on disk."""
    token: RenewedToken | None
    """What it is used as, if it is a token that can be replaced."""
    hostname: str
    """The present name of this host."""
    host: str
    """Which host the agent can be with this credential."""

    @property
    def config(self) -> ClientConfig:
        """What to make a client of."""
        return self.read if self.token is None else replace(self.read, credentials=self.token)

    def of(
        self, client: Client, begin_anew: Callable[[str], None], accept: Callable[[], None]
    ) -> OwnCredential:
        """Return what the agent does about its credential; `accept` takes note that it is ours after all."""
        namespace = self.settings.namespace

        async def is_ours() -> bool:
            allowed = await _may_be(self.read, self.hostname, namespace)
            if allowed:
                accept()
            return allowed

        foreign = self.host != self.hostname
        watch = CredentialWatch(
            _files(self.settings), self.seen, self.read, lambda: connect.client_config(self.settings),
            self.token, begin_anew, is_ours if foreign else None,
        )  # fmt: skip
        if self.token is None or foreign or not self.settings.kubeconfig:
            return OwnCredential(None, watch)
        if not is_own(self.token, self.hostname, namespace):
            return OwnCredential(None, watch)
        path = Path(os.path.realpath(self.settings.kubeconfig))  # once; links are followed now
        return OwnCredential(OwnToken(client, self.config, self.token, path), watch)


def load(settings: connect.Settings, hostname: str, *, shared: bool) -> AgentCredential:
    """Load the credential; `shared`: the API lets a host of this name use it, under any account name."""
    seen = credential_watch.stamps(_files(settings))
    config = connect.client_config(settings)
    if not isinstance(config.credentials, BearerToken):
        return AgentCredential(settings, seen, config, None, hostname, hostname)
    token = RenewedToken(config.credentials.token)
    host = host_rights.host_of_account(token.subject, settings.namespace)
    if shared or host in ("", hostname):
        return AgentCredential(settings, seen, config, token, hostname, hostname)
    token.withheld = (
        f"this credential is of {host}, and this host is called {hostname};"
        f" run with --hostname {host}, or bootstrap anew"
    )
    return AgentCredential(settings, seen, config, token, hostname, host)


def is_own(token: RenewedToken, hostname: str, namespace: str) -> bool:
    """Tell whether a token is the host's own: only that is renewed, and only its kubeconfig is rewritten."""
    return token.life is not None and host_rights.host_of_account(token.subject, namespace) == hostname


def _files(settings: connect.Settings) -> list[Path]:
    if settings.kubeconfig:
        return [Path(settings.kubeconfig)]
    in_pod = not settings.environ.get("KUBECONFIG") and incluster.available(settings.environ)
    return [] if in_pod else kubeconfig.candidates(settings.environ)


async def _may_be(config: ClientConfig, hostname: str, namespace: str) -> bool:
    """Ask the API whether our present identity may report as a host."""
    wanted = {
        "group": MANAGED_NODES.group, "resource": MANAGED_NODES.plural, "subresource": "status",
        "verb": "patch", "namespace": namespace, "name": hostname,
    }  # fmt: skip
    body = {"apiVersion": _REVIEWS.api_version, "kind": _REVIEWS.kind, "spec": {"resourceAttributes": wanted}}
    client = Client(HttpTransport(config))
    try:
        answer: dict[str, Any] = await client.create(_REVIEWS, body)
    finally:
        await client.close()
    return bool((answer.get("status") or {}).get("allowed"))
