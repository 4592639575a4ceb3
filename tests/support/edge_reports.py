"""Hosts of an edge site as their agents tell of them: all is well, but for what a test says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from nodemanager.api.common import node_conditions
from nodemanager.api.common.edge_state import (
    BondChange,
    BondSlave,
    BondState,
    BootState,
    DrbdPeer,
    DrbdPeerVolume,
    DrbdResource,
    DrbdState,
    DrbdVolume,
    EdgeState,
    LinkState,
    VlanState,
)
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.edge.edgecluster import AGENT, EdgeClusterStatus, EdgeNode
from nodemanager.fleet.edge.facts import AgentFacts, SignOfLife
from nodemanager.kube import times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta

BOND, VLAN, CARDS = "bondstor", "bondstor.100", ("data0", "data1")
_SINCE = "2026-03-01T03:00:00Z"


@dataclass(frozen=True)
class ToldHost:
    """One host; the fields are what cases in files may say."""

    alive: str = "True"
    ready: str = "Applied"
    """Reason of its condition Ready."""
    last_seen: str | None = None
    edge: bool = True
    """Whether its agent has --edge."""
    bond: str = BOND
    mode: str = "balance-rr"
    active: str | None = None
    """The card that sends; where nothing is said, the first one, in active-backup."""
    cards: tuple[str, ...] = CARDS
    state: str = "up"
    down: tuple[str, ...] = ()
    """Cards whose link is lost."""
    monitor: int = 100
    vlan: int | None = 100
    mtu: int = 9000
    """Of the bond; 0: nothing is said of it."""
    vlan_mtu: int = 9000
    boot: str = "active"
    change: str = ""
    """Phase of a change of its bond."""
    drbd: bool = True
    resources: tuple[str, ...] = ("r0",)
    disk: str = "UpToDate"
    client: bool | None = None
    """Whether there shall be none."""
    quorum: bool | None = None
    suspended: str = "no"
    peers: int = 1
    peer_disk: str = "UpToDate"
    peer_client: bool | None = None
    connection: str = "Connected"
    replication: str = "Established"
    out_of_sync: int | None = 0
    resync_suspended: str = "no"
    done: int | None = None
    omitted: int = 0
    omitted_unwell: int | None = None
    drbd_error: str = ""
    error: str = ""

    def node(self, name: str) -> ManagedNode:
        """Return its ManagedNode."""
        said = [
            Condition(
                type="Alive",
                status=self.alive,
                reason="Seen",
                message="no sign of life",
                last_transition_time=_SINCE,
            ),
            Condition(type="Ready", status="True", reason=self.ready, last_transition_time=_SINCE),
        ]
        edge = self.told() if self.edge else None
        status = ManagedNodeStatus(
            conditions=said, agent_version="0.9", release="6.1", edge=edge, last_seen=self.last_seen
        )
        return ManagedNode(metadata=ObjectMeta(name=name), status=status)

    def told(self) -> EdgeState:
        """Return what its agent tells of it."""
        links = [
            LinkState(name=one, state="up", carrier=one not in self.down, master=BOND) for one in self.cards
        ]
        slaves = [BondSlave(name=one, mii="down" if one in self.down else "up") for one in self.cards]
        first = self.cards[0] if self.mode == "active-backup" else ""
        bond = BondState(
            name=self.bond, mode=self.mode, state=self.state, monitor=self.monitor, slaves=slaves,
            mtu=self.mtu, active=first if self.active is None else self.active,
        )  # fmt: skip
        return EdgeState(
            changed_at=_SINCE,
            boot=BootState(entry=self.boot) if self.boot else None,
            links=[
                *links,
                *([LinkState(name=self.bond, carrier=True, mtu=self.mtu)] if self.bond else []),
                *([] if self.vlan is None else [LinkState(name=VLAN, carrier=True, mtu=self.vlan_mtu)]),
                LinkState(name="eth0", carrier=True),
            ],
            bonds=[bond] if self.bond else [],
            vlans=[VlanState(name=VLAN, id=self.vlan, state="up")] if self.vlan is not None else [],
            bond_changes=[BondChange(bond=BOND, phase=self.change, mode="balance-rr")] if self.change else [],
            drbd=self._drbd() if self.drbd else None,
            error=self.error,
        )

    def _drbd(self) -> DrbdState:
        there = DrbdPeerVolume(
            replication=self.replication, disk=self.peer_disk, client=self.peer_client,
            out_of_sync=self.out_of_sync, resync_suspended=self.resync_suspended, done=self.done,
        )  # fmt: skip
        peers = [
            DrbdPeer(name=f"peer{number}", node_id=number, connection=self.connection, volumes=[there])
            for number in range(self.peers)
        ]
        found = [
            DrbdResource(name=one, role="Primary", suspended=self.suspended,
                         volumes=[DrbdVolume(disk=self.disk, client=self.client, quorum=self.quorum)],
                         peers=peers)
            for one in self.resources
        ]  # fmt: skip
        return DrbdState(version="8.4.11", resources=found, omitted=self.omitted,
                         omitted_unwell=self.omitted_unwell, error=self.drbd_error)  # fmt: skip


SILENT = ToldHost(alive="False", ready=node_conditions.AGENT_SILENT)


def agents(hosts: Mapping[str, ToldHost | ManagedNode], beat: str = "now", **more: Any) -> AgentFacts:
    """Return what is known of hosts that all gave the same sign of life last; of a silent one, too."""
    signs = dict.fromkeys(hosts, SignOfLife(beat))
    nodes = {name: one.node(name) if isinstance(one, ToldHost) else one for name, one in hosts.items()}
    return AgentFacts(nodes, beats=signs, **more)


def watched(
    names: Iterable[str], now: datetime, before: EdgeClusterStatus | None = None
) -> EdgeClusterStatus:
    """Return a status with what a look saw ten seconds ago: each of these had given another sign of life."""
    stamp = times.rfc3339(now - timedelta(seconds=10))
    seen = [EdgeNode(name=one, source=AGENT, digest="another", changed_at=stamp) for one in names]
    return msgspec.structs.replace(before or EdgeClusterStatus(), observed_at=stamp, nodes=seen)
