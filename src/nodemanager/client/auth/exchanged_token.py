"""The token of a host, got with the token of the pod that runs on it: no file, and no secret to hand out.

All pods of a DaemonSet have one ServiceAccount, and a host has one of its own. What tells the pods apart is
the node that each pod's token names; the admission policy lets it get the token of that host and no other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from nodemanager.client.auth import host_tokens
from nodemanager.client.auth.config import ClientConfig, Headers, TlsIdentity
from nodemanager.client.auth.credentials import bearer_headers
from nodemanager.client.auth.renewed_token import Lifetime, lifetime
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from nodemanager.kube import errors

log = logging.getLogger(__name__)
SECONDS: Final = 3600.0
"""How long a host's token is good for; the pod can get another at any time, so it need not be long."""
PAUSE: Final = 5.0
"""Seconds in which a refusal is believed, so that many requests do not become many refusals."""


class ExchangedToken:
    """Credentials of a host that are got, and got anew after 80 % of their life, with those of its pod."""

    def __init__(
        self, pod: ClientConfig, hostname: str, namespace: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._pod = pod
        self._hostname = hostname
        self._namespace = namespace
        self._clock = clock
        self._headers: Headers = {}
        self.life: Lifetime | None = None
        """From when to when the present token is good."""
        self._asking = asyncio.Lock()
        self._refusal: errors.KubeError | None = None
        self._refused_until = -float("inf")

    async def headers(self) -> Headers:
        """Return the token of the host; one that has expired is never sent."""
        async with self._asking:
            if self._is_due():
                await self._exchange()
            return self._headers

    async def tls_identity(self) -> TlsIdentity | None:
        """Return no certificate."""
        return None

    async def refresh(self) -> bool:
        """Drop a token that the API does not take any more."""
        self.life = None
        return True

    def _is_due(self) -> bool:
        return self.life is None or self._clock() >= self.life.due

    def _is_good(self) -> bool:
        return self.life is not None and self._clock() < self.life.expires

    async def _exchange(self) -> None:
        """Get a token; a failure is only logged while the old token is good."""
        if self._refusal is None or self._clock() >= self._refused_until:
            try:
                await self._ask()
            except errors.KubeError as error:
                log.warning("%s", error)
                self._refusal, self._refused_until = error, self._clock() + PAUSE
        if self._refusal is not None and not self._is_good():
            raise self._refusal

    async def _ask(self) -> None:
        client = Client(HttpTransport(self._pod))
        try:
            issued = await host_tokens.issue(client, self._hostname, self._namespace, SECONDS)
        except errors.ConfigError as error:
            raise errors.ConfigError(
                f"cannot become host {self._hostname} with the token of this pod: {error.__cause__ or error};"
                f" let it in: nodemanager rbac -n {self._namespace} --hostname {self._hostname}"
                " --kubernetes-node --daemonset | kubectl apply -f -"
            ) from error
        finally:
            await client.close()
        self._headers = bearer_headers(issued.token, "this host")
        self.life = lifetime(issued.token)
        self._refusal = None
        log.info("got the token of host %s, good until %s", self._hostname, issued.expires)
