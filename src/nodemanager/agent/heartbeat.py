"""The sign of life: a Lease that is renewed, so that the status need not be written to say nothing new."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from datetime import datetime
from typing import Final

from nodemanager.api import errors
from nodemanager.api.core import LEASES
from nodemanager.client.http import Client
from nodemanager.client.patches import MergePatch

log = logging.getLogger(__name__)
INTERVAL: Final = 20.0
DURATION: Final = 60
"""Seconds after which a host that has not renewed its Lease counts as silent."""


def lease_name(hostname: str) -> str:
    """Return the name of a host's own Lease: that of its ServiceAccount."""
    return f"nodemanager-{hostname}"


class Heartbeat:
    """Renews the Lease of the host until cancelled."""

    name = "heartbeat"

    def __init__(
        self,
        client: Client,
        namespace: str,
        hostname: str,
        now: Callable[[], datetime],
        unanswered: Callable[[str], None] = lambda _why: None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._hostname = hostname
        self._now = now
        self._unanswered = unanswered
        self._failing = False

    async def run(self) -> None:
        """Beat; an API that does not answer costs one log line, and is tried again with the next beat."""
        while True:
            try:
                async with asyncio.timeout(INTERVAL / 2):
                    await self.beat()
                self._failing = False
            except (errors.KubeError, TimeoutError) as error:
                log.log(
                    logging.DEBUG if self._failing else logging.WARNING, "cannot renew our Lease: %s", error
                )
                self._failing = True
                if isinstance(error, TimeoutError):
                    self._unanswered(f"the API did not answer within {INTERVAL / 2:g} s")
            await asyncio.sleep(INTERVAL * random.uniform(0.9, 1.1))  # noqa: S311 - hosts spread out

    async def beat(self) -> None:
        """Renew the Lease; make it if it is not there."""
        name = lease_name(self._hostname)
        stamp = self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": self._hostname, "leaseDurationSeconds": DURATION, "renewTime": stamp}
        with contextlib.suppress(errors.NotFound):
            await self._client.patch(LEASES, name, self._namespace, MergePatch({"spec": spec}))
            return
        meta = {"name": name, "namespace": self._namespace}
        body = {"metadata": meta, "spec": {**spec, "acquireTime": stamp}}
        with contextlib.suppress(errors.AlreadyExists):
            await self._client.create(LEASES, body, self._namespace)
