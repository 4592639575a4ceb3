"""What agents of edge sites tell, as rows of tables: in short for a site, at length for one host. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from nodemanager.api.common.edge_state import (
    BondChange,
    BondState,
    DrbdPeer,
    DrbdPeerVolume,
    DrbdResource,
    DrbdState,
    DrbdVolume,
    EdgeState,
    VlanState,
)
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.edge.edgecluster import EdgeNode
from nodemanager.api.edge.node_reports import FRESH, STALE, NodeReport, ReportedDrbd
from nodemanager.cli.views import describing, output
from nodemanager.fleet.edge.hosts import replication, reports
from nodemanager.kube.wording import plural

COLUMNS: Final = ["NODE", "TOLD", "BOND", "LINKS", "DRBD", "BOOT", "CHANGE"]
_NONE: Final = "-"


def rows(nodes: Sequence[EdgeNode]) -> list[list[str]]:
    """Return the nodes of a site, if agents tell, or told, of bonds and DRBD; who does not says nothing."""
    if all(one.report is None for one in nodes):
        return []
    return [_row(one.name, one.report) for one in nodes]


def _row(name: str, report: NodeReport | None) -> list[str]:
    shown = output.one_line(name, 63)
    if report is None:
        return [shown, "nothing", *[_NONE] * 5]
    if report.state != FRESH:
        return [shown, report.state, *[_NONE] * 5]
    bond = report.bond
    return [
        shown,
        report.state,
        f"{output.one_line(bond.mode, 20)} {bond.up}/{bond.cards}" if bond is not None else "none",
        f"{report.links_up}/{report.links}",
        _drbd(report.drbd),
        output.one_line(report.boot, 20) or _NONE,
        report.change.phase if report.change is not None else _NONE,
    ]


def _drbd(found: ReportedDrbd | None) -> str:
    if found is None:
        return _NONE
    done = f" {found.done}%" if found.done is not None else ""
    return f"{found.well}/{found.resources}" + (f" sync{done}" if found.syncing else "")


def add_field(report: output.Report, node: ManagedNode, now: datetime) -> None:
    """Add whether it is known how a host of an edge site is; of a silent one, it is not."""
    told, fresh = node.status.edge, reports.freshness(node)
    if told is None:
        return
    if fresh == FRESH:
        report.field("Edge", *_head(told, now))
    else:
        why = "its agent is silent" if fresh == STALE else "its agent is not known to live, or has not spoken"
        report.field("Edge", f"not known: {why}")


def add_tables(report: output.Report, node: ManagedNode, now: datetime) -> None:
    """Add what the agent of a host of an edge site tells of it, unless that may not be so any more."""
    told = reports.current(node)
    if told is None:
        return
    report.table(
        "Bonds",
        ["NAME", "MODE", "STATE", "CARDS", "ACTIVE"],
        [_bond(one) for one in told.bonds],
        describing.ROWS_LIMIT,
    )
    if told.vlans:
        vlans = [_vlan(one) for one in told.vlans]
        report.table("VLANs", ["NAME", "ID", "LINK", "STATE"], vlans, describing.ROWS_LIMIT)
    if told.bond_changes:
        changes = [_change(one, now) for one in told.bond_changes]
        report.table("Changes of bonds", ["BOND", "MODE", "PHASE", "PUT BACK"], changes)
    if told.drbd is not None and told.drbd.resources:
        replicas = [row for one in told.drbd.resources for row in _resource(one)]
        columns = ["RESOURCE", "ROLE", "DISK", "PEER", "CONNECTION", "REPLICATION", "OUT OF SYNC"]
        report.table("DRBD", columns, replicas, describing.ROWS_LIMIT)


def _head(told: EdgeState, now: datetime) -> Iterator[str]:
    yield f"like this since {output.ago(told.changed_at, now)}" if told.changed_at else "just looked at"
    if told.error:
        yield output.one_line(told.error, describing.MESSAGE_LIMIT)
    if told.boot is not None:
        image = f", image {output.one_line(told.boot.version, 60)}" if told.boot.version else ""
        yield f"booted {output.one_line(told.boot.entry, 20) or output.UNKNOWN}{image}"
    if told.drbd is not None and told.drbd.error:
        yield output.one_line(told.drbd.error, describing.MESSAGE_LIMIT)
    if told.drbd is not None and told.drbd.omitted:
        yield f"{plural(told.drbd.omitted, 'more resource')} of DRBD, {_left_out(told.drbd)}"


def _left_out(drbd: DrbdState) -> str:
    if (unwell := replication.omitted_unwell(drbd)) is None:
        return "of which nothing is told"
    return f"of which {unwell} not known to be well" if unwell else "with which nothing is wrong"


def _bond(one: BondState) -> list[str]:
    cards = ", ".join(f"{card.name} {card.mii or output.UNKNOWN}" for card in one.slaves)
    return [one.name, one.mode or output.UNKNOWN, one.state or _NONE, cards or "none", one.active or _NONE]


def _vlan(one: VlanState) -> list[str]:
    return [one.name, str(one.id or output.UNKNOWN), one.link or _NONE, one.state or _NONE]


def _change(one: BondChange, now: datetime) -> list[str]:
    return [one.bond, one.mode, one.phase, output.ahead(one.deadline, now) if one.deadline else _NONE]


def _resource(one: DrbdResource) -> Iterator[list[str]]:
    disks = ", ".join(map(_disk, one.volumes)) or output.UNKNOWN
    here = [output.one_line(one.name, 40), one.role or output.UNKNOWN, disks]
    if not one.peers:
        yield [*here, "none", _NONE, _NONE, _NONE]
    for peer in one.peers:
        yield [*here, *_peer(peer)]


def _disk(volume: DrbdVolume) -> str:
    return (volume.disk or output.UNKNOWN) + (" without quorum" if volume.quorum is False else "")


def _peer(peer: DrbdPeer) -> list[str]:
    said = ", ".join(_replication(volume) for volume in peer.volumes)
    amounts = [volume.out_of_sync for volume in peer.volumes]
    known = [one for one in amounts if one is not None]
    differ = f"{sum(known)} KiB" if amounts and len(known) == len(amounts) else output.UNKNOWN
    return [output.one_line(peer.name, 40), peer.connection or output.UNKNOWN, said or _NONE, differ]


def _replication(volume: DrbdPeerVolume) -> str:
    done = f" {volume.done}%" if volume.done is not None else ""
    return f"{volume.replication or output.UNKNOWN}{done}"
