"""Delivers notices at least once, and records the progress in the status, so that no process repeats it.

A process that is killed between a delivery and its record delivers once more, with the same id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from nodemanager.api.maintenance.maintenance_status import Delivery
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.client.http.posting import NotDelivered
from nodemanager.client.patches import MergePatch
from nodemanager.controllers.notifications import due as dues
from nodemanager.controllers.notifications import messages, sending
from nodemanager.controllers.notifications.due import Due
from nodemanager.controllers.registration import Caches, ControllerContext, Wake
from nodemanager.kube import errors, wording
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Change
from nodemanager.runtime.controller import Reconcile, ReconcileResult

log = logging.getLogger("nodemanager.operator")
FAILED: Final = "NotificationFailed"
DROPPED: Final = "NotificationDropped"
MAX_FAILURE: Final = 512
DELIVERY_SECONDS: Final = 30.0
"""The limit for one delivery, so that its end is recorded before the whole look is cut off."""


class Notifier:
    """Delivers the notices of each receiver, one at a time."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._events = context.events
        self._renderer = context.renderer
        self._now = context.now
        self._maintenances = context.caches.of(NODE_MAINTENANCES)
        self._written: dict[ObjectKey, tuple[str, Mapping[str, Delivery]]] = {}
        """Our last write, by name and uid: the cache may not have it yet."""
        self._count = context.metrics.counter(
            "nodemanager_notifications_total", "Notices that were delivered, failed or dropped.", ("result",)
        )

    async def reconcile(self, key: ObjectKey) -> ReconcileResult | None:
        """Deliver what is due, and say when there is more."""
        maintenance = self._maintenances.get(key)
        if maintenance is None:
            self._written.pop(key, None)
            return None
        told = self._told(key, maintenance)
        now = self._now()
        found = list(dues.pending(maintenance, told))
        ready = [one for one in found if one.at(now) <= now]
        if not ready:
            ahead = [(one.at(now) - now).total_seconds() for one in found]
            return ReconcileResult(min(ahead)) if ahead else None
        failures = await asyncio.gather(*(self._deliver(maintenance, one) for one in ready))
        for one, failure in zip(ready, failures, strict=True):
            told[one.target.name] = dues.after(one, failure, self._now())
            self._tell(maintenance, one, told[one.target.name])
        await self._write(key, maintenance, told)
        return ReconcileResult(0.0)

    def _told(self, key: ObjectKey, maintenance: NodeMaintenance) -> dict[str, Delivery]:
        uid, written = self._written.get(key, ("", {}))
        return dues.known(maintenance, written if uid == maintenance.metadata.uid else {})

    async def _deliver(self, maintenance: NodeMaintenance, due: Due) -> str:
        """Deliver a notice; return why that failed, or an empty text."""
        namespace = maintenance.metadata.namespace
        try:
            async with asyncio.timeout(DELIVERY_SECONDS):
                to = await sending.address(self._client, namespace, due.target.secret_ref)
                message = messages.message(maintenance, due, await self._rendered(maintenance, due))
                await sending.send(to, message, messages.id_of(maintenance, due))
        except NotDelivered as error:
            return wording.shorten(str(error), MAX_FAILURE)
        except TimeoutError:
            return f"Secret or template took longer than {DELIVERY_SECONDS:g} s; simplify the template"
        return ""

    async def _rendered(self, maintenance: NodeMaintenance, due: Due) -> str | None:
        """Return what the template makes of a notice; empty if there is none, or it cannot be rendered.

        A mistake in a template must not prevent the message that hosts fail.
        """
        if not due.target.template:
            return None
        made = (await self._renderer.render([messages.job(maintenance, due)]))[0]
        if isinstance(made, str):
            return made
        self._events.warning(
            NODE_MAINTENANCES, maintenance, "NotificationTemplateInvalid",
            f"cannot render the {made}; correct spec.notify. The usual text is sent",
        )  # fmt: skip
        return None

    def _tell(self, maintenance: NodeMaintenance, due: Due, after: Delivery) -> None:
        if not after.failure:
            self._count.labels("delivered").inc()
            return
        dropped = after.dropped > due.delivery.dropped
        self._count.labels("dropped" if dropped else "failed").inc()
        said = f"cannot tell {due.target.name} of {due.notice.event}: {after.failure}"
        log.warning("maintenance %s: %s", maintenance.metadata.name, said)
        if dropped:
            said = f"{said}. It is given up after {dues.MAX_TRIES} tries"
            self._events.warning(NODE_MAINTENANCES, maintenance, DROPPED, said)
        elif after.tries == 1:
            self._events.warning(NODE_MAINTENANCES, maintenance, FAILED, said)

    async def _write(
        self, key: ObjectKey, maintenance: NodeMaintenance, told: Mapping[str, Delivery]
    ) -> None:
        """Write the progress of each receiver: only we write it, so other changes do not matter."""
        self._written[key] = maintenance.metadata.uid, told
        said = msgspec.to_builtins([told[name] for name in sorted(told)])
        body = MergePatch({"metadata": {"uid": maintenance.metadata.uid}, "status": {"deliveries": said}})
        try:
            await self._client.patch(NODE_MAINTENANCES, key.name, key.namespace, body, subresource="status")
        except (errors.NotFound, errors.Conflict):  # it is gone, or replaced by another one of its name
            self._written.pop(key, None)


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile of notices."""
    return Notifier(context).reconcile


def on_maintenance(change: Change[NodeMaintenance], _caches: Caches) -> Iterator[Wake]:
    """Wake a maintenance that has a new notice, or a new receiver."""
    old, new = change.old, change.new
    if new is None or old is None or old.status.notices != new.status.notices or old.spec != new.spec:
        yield Wake(change.key)
