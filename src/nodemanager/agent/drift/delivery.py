"""Reports every drift once and in order: as an Event of its own; only then the status shows it, too.

    log on disk -> Event, named after the drift -> the log knows -> a status is asked for

A name that is taken means that the Event exists. So a crash between two of these steps reports no drift
twice, and drifts that waited during an outage are not dropped for being too many at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from nodemanager.agent.drift.drift_log import DriftLog
from nodemanager.agent.link.api_reachability import ApiReachability
from nodemanager.agent.report.node_object import NodeObject
from nodemanager.api.common import reported
from nodemanager.api.common.declarations import ESCALATE, IN_TURN
from nodemanager.api.common.managednode import MANAGED_NODES, DriftRecord, ManagedNode
from nodemanager.api.rights.host_rights import MAX_EVENT_HOST
from nodemanager.client.verbs import Client
from nodemanager.kube import core, errors
from nodemanager.kube.objects import ObjectMeta
from nodemanager.runtime.backoff import Backoff

log = logging.getLogger(__name__)
COMPONENT: Final = "nodemanager"
RETRY: Final = Backoff(base=0.5, maximum=60.0)
_REASONS: Final = {
    "repaired": ("Normal", "DriftRepaired"),
    "observed": ("Warning", "DriftObserved"),
    "failed": ("Warning", "DriftNotRepaired"),
}
_LEFT: Final = {IN_TURN: ("Warning", "DriftWaiting"), ESCALATE: ("Warning", "DriftEscalated")}
"""The text about drifts that wait, by policy."""
_HOPELESS: Final = (errors.Invalid, errors.BadRequest, errors.TooLarge)


class DriftDelivery:
    """A part of the agent."""

    name = "delivery of drifts"

    def __init__(
        self,
        client: Client,
        drifts: DriftLog,
        node: NodeObject,
        reachability: ApiReachability,
        reported: Callable[[], None],
    ) -> None:
        self._client = client
        self._drifts = drifts
        self._node = node
        self._reachability = reachability
        self._reported = reported
        """Asks for a status that shows which drifts are reported."""
        self._back = asyncio.Event()
        self._complaint = ""
        """The last complaint; empty = reporting works."""
        reachability.subscribe(self._back.set)

    async def run(self) -> None:
        """Report recorded drifts until cancelled."""
        failures = 0
        while True:
            if failures == 0:
                await self._drifts.stored()
            try:
                await self.deliver()
                failures = 0
                self._recover()
            except errors.KubeError as error:
                failures += 1
                if not self._reachability.offline:
                    self._complain(error)
                await self._pause(failures, error)

    def _complain(self, error: errors.KubeError) -> None:
        """Log why drifts wait: once per reason, because a missing right may be missing for weeks."""
        known, self._complaint = str(error) == self._complaint, str(error)
        log.log(
            logging.DEBUG if known else logging.WARNING,
            "cannot report drifts, which go on waiting: %s", error,
        )  # fmt: skip

    def _recover(self) -> None:
        if self._complaint:
            log.info("drifts are reported again, after: %s", self._complaint)
            self._complaint = ""

    async def deliver(self) -> None:
        """Report all waiting drifts; raises KubeError, and continues there the next time."""
        node, before = None, self._drifts.reported_sequence
        try:
            for record in self._drifts.waiting():
                node = node or await self._own()
                await self._report_missing(node, record)
                await self._create(node, record)
                self._drifts.reported(record.sequence)
        finally:  # once for all of them: many drifts cause only one status
            if self._drifts.reported_sequence != before:
                self._reported()

    async def _own(self) -> ManagedNode:
        key = self._node.key
        if (known := self._node.known()) is not None:
            return known
        return await self._client.get(MANAGED_NODES, key.name, key.namespace)

    async def _report_missing(self, node: ManagedNode, record: DriftRecord) -> None:
        """Report drifts that were too many to keep, under the name of the last of them."""
        missing = record.sequence - self._drifts.reported_sequence - 1
        if missing > 0:
            said = f"too many drifts to keep until they could be reported: {missing} before this are lost"
            lost = DriftRecord(sequence=record.sequence - 1, time=record.time, message=said)
            log.warning("%s", said)
            await self._create(node, lost, reason="DriftsNotReported")

    async def _create(self, node: ManagedNode, record: DriftRecord, reason: str = "") -> None:
        kind, usual = _REASONS.get(record.outcome, ("Warning", ""))
        if record.outcome == "observed":
            kind, usual = _LEFT.get(record.policy, (kind, usual))
        said = f"{record.resource}: {record.message}" if record.resource else record.message
        said += f" ({record.took})" if record.took else ""
        said += f", by {record.by}" if record.by else ""
        host, uid = self._node.key.name, node.metadata.uid
        name = f"{host[:MAX_EVENT_HOST]}.{uid[:8]}-{record.sequence:08x}"
        event = core.Event(
            metadata=ObjectMeta(name=name, namespace=self._node.key.namespace),
            involved_object=core.ObjectReference(
                api_version=MANAGED_NODES.api_version, kind=MANAGED_NODES.kind, uid=uid, name=host,
                namespace=self._node.key.namespace,
            ),
            type=kind,
            reason=reason or usual,
            message=core.event_message(reported.text(said)),
            source=core.EventSource(component=COMPONENT, host=host),
            count=1,
            first_timestamp=record.time,
            last_timestamp=record.time,
            reporting_component=COMPONENT,
            reporting_instance=host,
        )  # fmt: skip
        try:
            with contextlib.suppress(errors.AlreadyExists):
                await self._client.create(core.EVENTS, event, self._node.key.namespace)
        except _HOPELESS as error:
            log.warning("drift %d is reported in the status only: %s", record.sequence, error)

    async def _pause(self, failures: int, error: errors.KubeError) -> None:
        """Wait before the next try: for the API to come back, or as long as it demands."""
        self._back.clear()
        if self._reachability.offline:
            await self._back.wait()
            return
        asked = error.retry_after if isinstance(error, errors.StatusError) else None
        await asyncio.sleep(max(asked or 0.0, RETRY.delay(failures)))
