"""The end of a maintenance that was deleted: hosts are given back, and what we wrote on them is taken off.

Nothing is begun any more, and hosts that were not worked on yet are given back at once (`visiting`). What
runs on a host ends by itself. A Node that stayed cordoned because nobody knew how its host was is given back,
too: nobody else would ever do it, and whoever deletes the maintenance has been told.
"""

from __future__ import annotations

from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.controllers.node_maintenances import observing
from nodemanager.controllers.node_maintenances.ahead import HostsAhead
from nodemanager.controllers.node_maintenances.orders import Orders
from nodemanager.fleet.maintenance.claims import Claim
from nodemanager.kube import errors


async def restore(orders: Orders, maintenance: NodeMaintenance, hosts: HostsAhead) -> bool:
    """Give back hosts whose visits have ended; tell whether there are some whose have not."""
    busy = False
    meta = maintenance.metadata
    for host in hosts.visited_by(meta.uid):
        claim = observing.claim_of(host)
        if not isinstance(claim, Claim) or claim.uid != meta.uid:
            continue
        if claim.holds:
            busy = True
            continue
        try:
            if claim.cordoned:
                await orders.hold(maintenance, host.metadata.name, claim).release()
            await orders.forget(host)
        except errors.NotFound:
            continue
        except errors.Conflict:
            busy = True
    return busy
