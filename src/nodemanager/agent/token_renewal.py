"""Renews the token of the host long before it expires: across restarts and outages of the API."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from nodemanager.api import errors
from nodemanager.client import host_kubeconfig, host_tokens
from nodemanager.client.config import ClientConfig
from nodemanager.client.http import Client
from nodemanager.client.renewed_token import Lifetime, RenewedToken
from nodemanager.host import credential_file
from nodemanager.host.threads import in_thread
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.metrics import Counter, Family, Registry

log = logging.getLogger(__name__)
LOOK: Final = 60.0
"""Seconds after which the clock is looked at again: it may have been set, or the host have slept."""
RETRY: Final = Backoff(base=1.0, maximum=300.0)
LATE: Final = 0.9
"""The part of a token's life after which a failure to renew it is told to people, as an Event."""

Tell = Callable[[str, str], None]
"""Told a reason, in one word, and a message: recorded as a warning about this host."""


def publish_expiry(registry: Registry, hostname: str, life: Callable[[], Lifetime | None]) -> None:
    """Tell, as a metric, when the token of a host expires; 0 while there is none."""
    expiry = registry.gauge(
        "nodemanager_token_expiry_timestamp_seconds", "When the token of this host expires.", ("node",)
    )
    expiry.labels(hostname).set_function(lambda: found.expires if (found := life()) else 0.0)


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
    warn: Tell = lambda _reason, _message: None
    clock: Callable[[], float] = time.time
    name: str = "token renewal"
    _count: Family[Counter] = field(init=False)
    _unsaved: bytes | None = None
    """A kubeconfig that is in use, and could not be written yet."""

    def __post_init__(self) -> None:
        publish_expiry(self.registry, self.hostname, lambda: self.token.life)
        self._count = self.registry.counter(
            "nodemanager_token_renewals_total", "Renewals of the token by result.", ("node", "result")
        )

    async def run(self) -> None:
        """Renew whenever it is due, until cancelled; a failure is tried again with growing pauses."""
        failures = 0
        while True:
            wait = self._wait()
            if wait > 0 and self._unsaved is None:
                await asyncio.sleep(min(wait, LOOK))
                continue
            try:
                await (self.renew() if wait <= 0 else self._save())
                failures = 0
                pause = min(LOOK, self._length() / 10)  # our clock may be far from the API's
            except (errors.KubeError, OSError) as error:
                failures += 1
                self._failed(error)
                pause = self._pause(failures)
            await asyncio.sleep(pause)

    async def renew(self) -> None:
        """Get a new token for as long as the present one was for, try it, and put it in place.

        It is used at once, also where it cannot be written: the old one would run out, the disk may be freed.
        """
        seconds = max(host_tokens.MIN_SECONDS, round(self._length()))
        issued = await host_tokens.issue(self.client, self.hostname, self.namespace, seconds)
        await host_tokens.verify(self.config, self.hostname, self.namespace, issued.token)
        self._unsaved = host_kubeconfig.kubeconfig(self.config, self.hostname, self.namespace, issued.token)
        self.token.replace(issued.token)
        log.info("renewed the token of this host, good until %s", issued.expires)
        await self._save()

    async def _save(self) -> None:
        document = self._unsaved
        if document is not None:
            await in_thread(lambda: credential_file.write(self.path, document))
            self._unsaved = None
            self._count.labels(self.hostname, "success").inc()

    def _failed(self, error: Exception) -> None:
        self._count.labels(self.hostname, "error").inc()
        log.warning("cannot renew the token of this host: %s", error)
        life = self.token.life
        if life is not None and self.clock() >= life.issued + LATE * (life.expires - life.issued):
            until = datetime.fromtimestamp(life.expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            self.warn("TokenRenewalFailing", f"the token of this host expires at {until}: {error}")

    def _wait(self) -> float:
        """Return the seconds until the token is due."""
        return self.token.life.due - self.clock() if self.token.life else LOOK

    def _length(self) -> float:
        """Return for how many seconds the token was issued."""
        return self.token.life.expires - self.token.life.issued if self.token.life else LOOK

    def _pause(self, failures: int) -> float:
        """Return when to try again: sooner the less time is left, and unhurriedly once it is over."""
        rest = self.token.life.expires - self.clock() if self.token.life else 0.0
        return min(RETRY.delay(failures), max(1.0, rest / 10)) if rest > 0 else LOOK
