"""Asks hosts what an upgrade would do, if a person wants to know: with tasks that change nothing.

The request is an annotation of the maintenance, which is removed after hosts were asked. The answers are in
the status of the tasks. All of it may be done again: the names of tasks follow from the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.maintenance_status import RunState
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_PREVIEW
from nodemanager.controllers.node_maintenances import observing, undertaking
from nodemanager.controllers.node_maintenances.ahead import HostsAhead
from nodemanager.controllers.node_maintenances.inputs import InputReader
from nodemanager.controllers.node_maintenances.orders import Orders, PreviewOrder
from nodemanager.controllers.node_maintenances.status.recording import News
from nodemanager.controllers.node_maintenances.undertaking import MaintenanceSnapshot
from nodemanager.fleet.maintenance import claims, plan, previews
from nodemanager.fleet.maintenance.facts import HostFacts
from nodemanager.fleet.maintenance.plan import MaintenancePlanInput
from nodemanager.fleet.maintenance.previews import PreviewRequest
from nodemanager.kube import errors, wording
from nodemanager.kube.objects import ObjectKey

ASKED = "PreviewAsked"
REFUSED = "PreviewRefused"
TRIES = 3


@dataclass(frozen=True, slots=True)
class Previewer:
    """Asks hosts what a run would do to them."""

    orders: Orders
    hosts: HostsAhead
    reader: InputReader

    async def answer(
        self, seen: MaintenanceSnapshot, run: RunState | None, facts: Mapping[str, HostFacts]
    ) -> News:
        """Make a task on every host that can answer now, and return the text for the person who asked."""
        request = previews.request_of(seen.maintenance.metadata.annotations[ANNOTATION_PREVIEW])
        if request is None:
            return News(REFUSED, f"annotation {ANNOTATION_PREVIEW} is no hash and id: ask again", bad=True)
        work, wrong = undertaking.work_of(seen, run, self.reader) if run is not None else (None, None)
        if run is None or work is None or wrong is not None:
            return News(REFUSED, wrong.message if wrong is not None else "nothing is due", bad=True)
        uids = {host.metadata.name: host.metadata.uid for host in seen.nodes}
        inputs = seen.inputs
        made_of = MaintenancePlanInput(
            seen.maintenance.spec, run.slots, work, inputs.calendar.spec, inputs.groups, uids
        )
        if plan.hash_of(made_of) != request.plan_hash:
            return News(REFUSED, "the plan is another one by now: look at it, and ask again", bad=True)
        steps = previews.steps(work)
        if not steps:
            return News(REFUSED, "no step upgrades packages; nothing else can be told beforehand", bad=True)
        asked = previews.asked(inputs.groups, facts)
        asking = PreviewOrder(request, msgspec.to_builtins(list(steps)), seen.now + previews.LASTS)
        for name in asked.hosts:
            await self._ask(seen, request, asking, name)
        said = f"{wording.plural(len(asked.hosts), 'host')} asked what an upgrade would do"
        rest = len(asked.unfit) + len(asked.beyond)
        return News(ASKED, f"{said}, {rest} not" if rest else said)

    async def _ask(
        self, seen: MaintenanceSnapshot, request: PreviewRequest, asking: PreviewOrder, name: str
    ) -> None:
        meta = seen.maintenance.metadata
        host = self.hosts.get(ObjectKey(meta.namespace, name))
        for _ in range(TRIES):
            claim = observing.claim_of(host) if host is not None else None
            if host is None or (claim is not None and claim.holds):
                return  # the person sees that there is no task, and can ask again
            task = claims.task_name(name, meta.uid, f"preview {request.id}", host.metadata.uid, 0)
            try:
                await self.orders.create_preview(seen.maintenance, host, task, asking, seen.now)
            except errors.Conflict:  # its agent has just written
                host = await self.orders.client.get(MANAGED_NODES, name, meta.namespace)
            except errors.NotFound:
                return
            else:
                return
