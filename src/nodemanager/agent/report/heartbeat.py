"""The heartbeat: a Lease that is renewed, so that the status is written only if it has news.

It also detects another machine with our name, such as a clone of a virtual machine: then another agent
renews the Lease between our own renewals.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from nodemanager.api.rights import host_bounds
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors, times
from nodemanager.kube.core import LEASES
from nodemanager.kube.objects import ObjectKey

log = logging.getLogger(__name__)
INTERVAL: Final = 20.0
DURATION: Final = 60
"""After so many seconds without a renewal, a host counts as silent."""


ANNOTATION_INSTANCE: Final = host_bounds.INSTANCE
"""Annotation of the Lease: the process that renewed it last."""
HURRIED: Final = 4
"""After a failed renewal, the next follows so many times sooner, while that may save the Lease."""
REPEATED: Final = 2
"""So many renewals of ours with foreign ones in between are no accident."""


def lease_name(hostname: str) -> str:
    """Return the name of a host's own Lease: that of its ServiceAccount."""
    return f"nodemanager-{hostname}"


class HeartbeatSender:
    """Renews the Lease of the host until cancelled."""

    name = "heartbeat"

    def __init__(
        self,
        client: Client,
        key: ObjectKey,
        now: Callable[[], datetime],
        *,
        unanswered: Callable[[str], None] = lambda _why: None,
        duplicated: Callable[[bool], None] = lambda _duplicated: None,
    ) -> None:
        self._client = client
        self._namespace, self._hostname = key
        self._now = now
        self._unanswered = unanswered
        """Called when the API did not answer in time, with the reason."""
        self._duplicated = duplicated
        """Called when another machine begins, or stops, to renew our Lease."""
        self._failing = False
        self._failing_since = 0.0
        self._hurry = asyncio.Event()
        self._instance = secrets.token_hex(8)
        self._version = ""
        """The version of the Lease after our last write."""
        self._strangers = 0
        """How often in a row another agent wrote it since."""

    async def run(self) -> None:
        """Renew until cancelled; an API that does not answer costs one log line, and an earlier next try."""
        clock = asyncio.get_running_loop().time
        while True:
            self._hurry.clear()
            try:
                async with asyncio.timeout(INTERVAL / 2):
                    await self.beat()
                self._failing = False
            except (errors.KubeError, TimeoutError) as error:
                log.log(
                    logging.DEBUG if self._failing else logging.WARNING, "cannot renew our Lease: %s", error
                )
                self._failing_since = self._failing_since if self._failing else clock()
                self._failing = True
                if isinstance(error, TimeoutError):
                    self._unanswered(f"the API did not answer within {INTERVAL / 2:g} s")
            hurried = self._failing and clock() < self._failing_since + DURATION
            pause = INTERVAL / HURRIED if hurried else INTERVAL
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause * random.uniform(0.9, 1.1)):  # noqa: S311 - hosts spread out
                    await self._hurry.wait()

    def hurry(self) -> None:
        """Renew the Lease now, if that has failed before: the API is there again."""
        if self._failing:
            self._hurry.set()

    async def beat(self) -> None:
        """Renew the Lease; make it if it is not there."""
        name = lease_name(self._hostname)
        stamp = times.rfc3339_micro(self._now())
        spec = {"holderIdentity": self._hostname, "leaseDurationSeconds": DURATION, "renewTime": stamp}
        mine = {"annotations": {ANNOTATION_INSTANCE: self._instance}}
        with contextlib.suppress(errors.NotFound):
            await self._renew({"metadata": mine, "spec": spec})
            return
        meta = {"name": name, "namespace": self._namespace, **mine}
        body = {"metadata": meta, "spec": {**spec, "acquireTime": stamp}}
        with contextlib.suppress(errors.AlreadyExists):
            made = await self._client.create(LEASES, body, self._namespace)
            self._version = made.metadata.resource_version

    async def _renew(self, body: dict[str, Any]) -> None:
        """Write the Lease as if nobody else did; if somebody does, a conflict tells us for nothing."""
        name = lease_name(self._hostname)
        only = {**body, "metadata": {**body["metadata"], "resourceVersion": self._version}}
        try:
            patch = MergePatch(only if self._version else body)
            written = await self._client.patch(LEASES, name, self._namespace, patch)
            self._judge(stranger=False)
        except errors.Conflict:
            found = await self._client.get(LEASES, name, self._namespace)
            last = found.metadata.annotations.get(ANNOTATION_INSTANCE, self._instance)
            self._judge(stranger=last != self._instance)
            written = await self._client.patch(LEASES, name, self._namespace, MergePatch(body))
        self._version = written.metadata.resource_version

    def _judge(self, *, stranger: bool) -> None:
        before = self._strangers
        self._strangers = min(before + 1, REPEATED) if stranger else 0
        if (before == REPEATED) != (self._strangers == REPEATED):
            self._duplicated(self._strangers == REPEATED)
