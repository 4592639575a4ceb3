"""What the agent of a node reported, while that is still true: a silent node has no valid report. Pure.

A living agent looks at its host every few seconds, so its last report is true now. An agent that was silent
may come back on a host that booted meanwhile: until it has reported again, its status is the one from
before.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from nodemanager.api.common import managednode, node_conditions
from nodemanager.api.common.edge_state import BondState, DrbdState, EdgeState
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.edge.edgeprofile import EdgeProfileSpec
from nodemanager.api.edge.node_reports import (
    FRESH,
    STALE,
    UNPROVEN,
    NodeReport,
    ReportedBond,
    ReportedDrbd,
)
from nodemanager.fleet.edge import decoding
from nodemanager.fleet.edge.hosts import replication
from nodemanager.kube import conditions, times

UP: Final = "up"
MOST: Final = 2**63 - 1
"""The API accepts no larger number, and would refuse the whole status because of one."""


def freshness(host: ManagedNode) -> str:
    """Return whether the last report of a host is still true."""
    said = host.status.conditions
    if managednode.is_silent(host):
        return STALE
    ready = conditions.get(said, conditions.READY)
    spoke = ready is None or ready.reason != node_conditions.AGENT_SILENT
    return FRESH if conditions.is_true(said, node_conditions.ALIVE) and spoke else UNPROVEN


def current(host: ManagedNode) -> EdgeState | None:
    """Return what a host reports about bonds and DRBD, if that is still true."""
    return host.status.edge if freshness(host) == FRESH else None


def bond(state: EdgeState, spec: EdgeProfileSpec) -> BondState | None:
    """Return the bond that the profile names; if it names none, the first one."""
    wanted = spec.network.bond if spec.network is not None else ""
    return next((one for one in state.bonds if wanted in ("", one.name)), None)


def report(
    host: ManagedNode, life: str, spec: EdgeProfileSpec, before: NodeReport | None, now: datetime
) -> NodeReport | None:
    """Return what to show of what a host tells; None where it tells nothing, and never values of before.

    `life` is what is known of the life of its agent: whose Alive=True may be old is not believed.
    """
    edge, state = host.status.edge, freshness(host)
    state = life if state == FRESH else state
    if edge is None:
        return None
    if state != FRESH:
        changed = before.changed_at if before is not None else None
        return NodeReport(state=state, changed_at=changed, digest=before.digest if before else "")
    digest = decoding.digest(msgspec.json.encode(edge).decode())
    same = before is not None and before.digest == digest
    changed = before.changed_at if before is not None and same and before.changed_at else times.rfc3339(now)
    found = bond(edge, spec)
    others = {one.name for one in edge.bonds} | {one.name for one in edge.vlans}
    cards = [one for one in edge.links if one.name not in others]
    changes = [one for one in edge.bond_changes if found is None or one.bond == found.name]
    return NodeReport(
        state=FRESH,
        changed_at=changed,
        digest=digest,
        bond=_bond(found) if found is not None else None,
        links=len(cards),
        links_up=sum(one.carrier for one in cards),
        drbd=_drbd(edge.drbd) if edge.drbd is not None and not edge.drbd.error else None,
        boot=edge.boot.entry if edge.boot is not None else "",
        change=changes[0] if changes else None,
    )


def is_up(bond: BondState, name: str) -> bool:
    """Tell whether a card of a bond is up; if the bond does not monitor its cards, it reports all as up."""
    return next((one.mii == UP for one in bond.slaves if one.name == name), False)


def _bond(found: BondState) -> ReportedBond:
    up = sum(is_up(found, one.name) for one in found.slaves)
    return ReportedBond(name=found.name, mode=found.mode, active=found.active, cards=len(found.slaves), up=up)


def _drbd(found: DrbdState) -> ReportedDrbd:
    syncs = [one for one in found.resources if replication.syncing(one)]
    done = [part for one in syncs for part in replication.progress(one)]
    amounts = [volume.out_of_sync for one in found.resources for peer in one.peers for volume in peer.volumes]
    known = [amount for amount in amounts if amount is not None]
    unwell = replication.omitted_unwell(found)
    others = found.omitted - (found.omitted if unwell is None else unwell)
    return ReportedDrbd(
        resources=min(len(found.resources) + found.omitted, MOST),
        well=min(others + sum(replication.is_well(one) for one in found.resources), MOST),
        syncing=len(syncs),
        done=min(done, default=None),
        out_of_sync=min(sum(known), MOST) if len(known) == len(amounts) and unwell == 0 else None,
    )
