"""Renews the token of the host long before it expires: across restarts and outages of the API."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nodemanager.api.common.node_conditions import CREDENTIAL_GOOD, CREDENTIAL_RENEWED, RENEWAL_FAILING
from nodemanager.api.rights.host_bounds import MAX_TOKEN_SECONDS
from nodemanager.client.auth import host_kubeconfig, host_tokens
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.auth.renewed_token import Lifetime, RenewedToken
from nodemanager.client.verbs import Client
from nodemanager.host.process.threads import in_thread
from nodemanager.host.state import credential_file
from nodemanager.kube import conditions, errors, times
from nodemanager.kube.conditions import Condition
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.metrics import Counter, Family, Registry

log = logging.getLogger(__name__)
LOOK: Final = 60.0
"""How often to look at the clock: it may have been set, or the host may have slept."""
RETRY: Final = Backoff(base=1.0, maximum=300.0)
REPEATED: Final = 5
"""After so many failures in a row, about half a minute, status and Event report them."""
LATE: Final = 0.9
"""The part of a token's life after which every failure to renew it is reported."""


@dataclass(frozen=True, slots=True)
class TokenReporter:
    """Reports about the token."""

    registry: Registry
    warn: Callable[[str, str], None] = lambda _reason, _message: None
    """Takes a one-word reason and a message, and records an Event about this host."""
    changed: Callable[[], None] = lambda: None
    """Called when there is something new to say in the status."""


def publish_expiry(registry: Registry, hostname: str, life: Callable[[], Lifetime | None]) -> None:
    """Tell, as a metric, when the token of a host expires; 0 while there is none."""
    expiry = registry.gauge(
        "nodemanager_token_expiry_timestamp_seconds", "When the token of this host expires.", ("node",)
    )
    expiry.labels(hostname).set_function(lambda: found.expires if (found := life()) else 0.0)


@dataclass(slots=True)
class TokenRenewal:
    """Keeps the token in memory and in the kubeconfig valid."""

    client: Client
    config: ClientConfig
    token: RenewedToken
    path: Path
    """The kubeconfig of the host, which is replaced as a whole."""
    hostname: str
    namespace: str
    reporter: TokenReporter
    clock: Callable[[], float] = time.time
    name: str = "token renewal"
    _count: Family[Counter] = field(init=False)
    _unsaved: bytes | None = None
    """A kubeconfig that is in use, but could not be written yet."""
    _failures: int = 0
    """How often renewal failed since it last succeeded."""
    _trouble: str = ""
    """Why renewal fails, after repeated failures."""

    def __post_init__(self) -> None:
        publish_expiry(self.reporter.registry, self.hostname, lambda: self.token.life)
        self._count = self.reporter.registry.counter(
            "nodemanager_token_renewals_total", "Renewals of the token by result.", ("node", "result")
        )

    async def run(self) -> None:
        """Renew whenever it is due, until cancelled; a failure is tried again with growing pauses."""
        while True:
            wait = self._wait()
            if wait > 0 and self._unsaved is None:
                await asyncio.sleep(min(wait, LOOK))
                continue
            try:
                await self._step(wait)
                pause = min(LOOK, self._length() / 10)  # our clock may be far from the API's
            except (errors.KubeError, OSError) as error:
                self._failed(error)
                pause = self._pause()
            await asyncio.sleep(pause)

    async def _step(self, wait: float) -> None:
        if wait > 0:
            await self._save()
        else:
            await self.renew()

    def condition(self) -> Condition:
        """Return what to say in the status: the same words as long as nothing happens."""
        until = times.rfc3339_unix(self.token.life.expires) if self.token.life else "an unknown time"
        if not self._trouble:
            return Condition(
                type=CREDENTIAL_RENEWED,
                status=conditions.TRUE,
                reason=CREDENTIAL_GOOD,
                message=f"good until {until}",
            )
        return Condition(
            type=CREDENTIAL_RENEWED, status=conditions.FALSE, reason=RENEWAL_FAILING,
            message=f"good until {until}, and cannot be renewed: {self._trouble}",
        )  # fmt: skip

    async def renew(self) -> None:
        """Get a new token for as long as the present one was for, a year at most; try it, put it in place.

        It is used at once, also where it cannot be written: the old one would run out, the disk may be freed.
        """
        seconds = min(max(host_tokens.MIN_SECONDS, round(self._length())), MAX_TOKEN_SECONDS)
        issued = await host_tokens.issue(self.client, self.hostname, self.namespace, seconds)
        await host_tokens.verify(self.config, self.hostname, self.namespace, issued.token)
        self._unsaved = host_kubeconfig.kubeconfig(self.config, self.hostname, self.namespace, issued.token)
        self.token.replace(issued.token)
        log.info("renewed the token of this host, good until %s", issued.expires)
        await self._save()

    def replaced(self) -> None:
        """Take note that the token in memory and in the kubeconfig is another one, and not by us."""
        self._unsaved = None
        self._succeeded()

    async def _save(self) -> None:
        document = self._unsaved
        if document is not None:
            await in_thread(lambda: credential_file.write(self.path, document))
            self._unsaved = None
            self._count.labels(self.hostname, "success").inc()
            self._succeeded()

    def _succeeded(self) -> None:
        self._failures, self._trouble = 0, ""
        self.reporter.changed()

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        self._count.labels(self.hostname, "error").inc()
        log.warning("cannot renew the token of this host: %s", error)
        life = self.token.life
        late = life is not None and self.clock() >= life.issued + LATE * (life.expires - life.issued)
        if life is not None and (late or self._failures == REPEATED):
            message = f"the token of this host expires at {times.rfc3339_unix(life.expires)}: {error}"
            self.reporter.warn("TokenRenewalFailing", message)
        if (late or self._failures >= REPEATED) and str(error) != self._trouble:
            self._trouble = str(error)
            self.reporter.changed()

    def _wait(self) -> float:
        """Return the seconds until the token is due."""
        return self.token.life.due - self.clock() if self.token.life else LOOK

    def _rest(self) -> float:
        """Return for how many seconds the token can still be used."""
        return self.token.life.last - self.clock() if self.token.life else 0.0

    def _length(self) -> float:
        """Return for how many seconds the token was issued."""
        return self.token.life.expires - self.token.life.issued if self.token.life else LOOK

    def _pause(self) -> float:
        """Return when to try again: sooner the less time is left, and unhurriedly once it is over."""
        rest = self._rest()
        least = min(
            1.0, self._length() / host_tokens.MIN_SECONDS
        )  # an API may issue shorter ones than asked for
        if rest <= 0:
            return LOOK * least
        return min(RETRY.delay(self._failures), max(least, rest / 10))
