"""Renews the token of the host long before it expires: across restarts and outages of the API."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nodemanager.api import errors
from nodemanager.client import host_kubeconfig, host_tokens
from nodemanager.client.config import ClientConfig
from nodemanager.client.http import Client
from nodemanager.client.renewed_token import RenewedToken
from nodemanager.host import credential_file
from nodemanager.host.threads import in_thread
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.metrics import Counter, Family, Registry

log = logging.getLogger(__name__)
LOOK: Final = 60.0
"""Seconds after which the clock is looked at again: it may have been set, or the host have slept."""
RETRY: Final = Backoff(base=1.0, maximum=300.0)


@dataclass(slots=True)
class TokenRenewal:
    """Keeps the token in memory and in the kubeconfig good."""

    client: Client
    config: ClientConfig
    token: RenewedToken
    path: Path
    """The kubeconfig of the host, which is replaced whole."""
    hostname: str
    namespace: str
    registry: Registry
    clock: Callable[[], float] = time.time
    name: str = "token renewal"
    _count: Family[Counter] = field(init=False)

    def __post_init__(self) -> None:
        expiry = self.registry.gauge(
            "nodemanager_token_expiry_timestamp_seconds", "When the token of this host expires.", ("node",)
        )
        expiry.labels(self.hostname).set_function(lambda: self.token.life.expires if self.token.life else 0.0)
        self._count = self.registry.counter(
            "nodemanager_token_renewals_total", "Renewals of the token by result.", ("node", "result")
        )

    async def run(self) -> None:
        """Renew whenever it is due, until cancelled; a failure is tried again with growing pauses."""
        failures = 0
        while True:
            wait = self._wait()
            if wait > 0:
                await asyncio.sleep(min(wait, LOOK))
                continue
            try:
                await self.renew()
                failures = 0
                continue
            except (errors.KubeError, OSError) as error:
                failures += 1
                self._count.labels(self.hostname, "error").inc()
                log.warning("cannot renew the token of this host: %s", error)
            await asyncio.sleep(min(RETRY.delay(failures), self._rest() / 10 or LOOK))

    def _wait(self) -> float:
        return self.token.life.due - self.clock() if self.token.life else LOOK

    def _rest(self) -> float:
        return max(1.0, self.token.life.expires - self.clock()) if self.token.life else LOOK

    async def renew(self) -> None:
        """Get a new token for as long as the present one was for, try it, and put it in place."""
        life = self.token.life
        if life is None:
            return
        seconds = max(host_tokens.MIN_SECONDS, round(life.expires - life.issued))
        issued = await host_tokens.issue(self.client, self.hostname, self.namespace, seconds)
        await host_tokens.verify(self.config, self.hostname, self.namespace, issued.token)
        document = host_kubeconfig.kubeconfig(self.config, self.hostname, self.namespace, issued.token)
        await in_thread(lambda: credential_file.write(self.path, document))
        self.token.replace(issued.token)
        self._count.labels(self.hostname, "success").inc()
        log.info("renewed the token of this host, good until %s", issued.expires)
