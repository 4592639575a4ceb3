"""The end of a maintenance: when its time is over, and how hosts are given back after its deletion.

Nothing is begun any more, and hosts that were not worked on yet are given back at once (`visiting`). What
runs on a host ends by itself. A Node that stayed cordoned because nobody knew how its host was is given back,
too: no other program would ever do it, and the user who deletes the maintenance was warned.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from nodemanager.api.maintenance.maintenance_status import NodeMaintenanceStatus
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.api.maintenance.operations import ONE_SHOT
from nodemanager.controllers.node_maintenances import observing
from nodemanager.controllers.node_maintenances.ahead import HostsAhead
from nodemanager.controllers.node_maintenances.orders import Orders
from nodemanager.controllers.node_maintenances.undertaking import MaintenanceSnapshot
from nodemanager.fleet.maintenance import runs
from nodemanager.fleet.maintenance.claims import Claim
from nodemanager.kube import errors, times

_ENDS: Final = ("Succeeded", "Failed")


def is_over(seen: MaintenanceSnapshot) -> bool:
    """Tell whether a maintenance of one-shots ended so long ago that it asks to be deleted itself."""
    maintenance = seen.maintenance
    spec, status, meta = maintenance.spec, maintenance.status, maintenance.metadata
    if spec.ttl_seconds_after_finished is None or any(one.type != ONE_SHOT for one in spec.operations):
        return False
    if status.phase not in _ENDS or status.run is not None or status.observed_generation != meta.generation:
        return False
    done = {one.name: one.done for one in status.operations}
    if not all(runs.has_ended(meta.uid, one, done.get(one.name, "")) for one in spec.operations):
        return False
    ended = _ended(seen, status)
    return ended is not None and seen.now - ended >= timedelta(seconds=spec.ttl_seconds_after_finished)


def _ended(seen: MaintenanceSnapshot, status: NodeMaintenanceStatus) -> datetime | None:
    """Return when it ended; its history may be too short to tell."""
    said = [*(run.ended_at for run in status.history), *(one.last_run for one in status.operations)]
    found = [times.parse(one) for one in said] + [observing.ended_at(task, seen.now) for task in seen.tasks]
    return max((one for one in found if one is not None), default=None)


async def restore(orders: Orders, maintenance: NodeMaintenance, hosts: HostsAhead) -> bool:
    """Give back hosts whose visits have ended; return whether visits are still going on."""
    busy = False
    meta = maintenance.metadata
    for host in hosts.visited_by(meta.uid):
        claim = observing.claim_of(host)
        if not isinstance(claim, Claim):  # for the type: it is found by the uid in its claim
            continue
        if claim.holds:
            busy = True
            continue
        try:
            if claim.cordoned:
                await orders.hold(maintenance, host.metadata.name, claim).release()
            await orders.forget(host)
        except errors.NotFound:
            pass  # the host is gone
        except errors.Conflict:
            busy = True
    return busy
