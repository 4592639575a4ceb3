"""A site of which nobody tells but its agents, and an operator that is away at times. In a test only.

`ToldWorld` is the truth, `ToldSite` what operators make of it, one after another: the mark of liveness in the
ManagedNodes, and the status of the site. Both are kept as the API keeps them; all else of an operator is gone
with it. Time is the world's own, and Leases are judged by the code that judges them in earnest.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec

from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.edge.edgecluster import (
    FRESH,
    HEALTHY,
    MULTI_NODE,
    SINGLE_NODE,
    EdgeCluster,
    EdgeClusterSpec,
    EdgeClusterStatus,
)
from nodemanager.api.edge.edgeprofile import EdgeProfile
from nodemanager.controllers.liveness import marks
from nodemanager.controllers.liveness.heartbeats import Heartbeats
from nodemanager.fleet.edge import deciding
from nodemanager.fleet.edge.deciding import Site
from nodemanager.fleet.edge.facts import AgentFacts, SignOfLife
from nodemanager.kube.objects import ObjectMeta
from support import edge_profiles
from support.edge_reports import ToldHost
from support.edge_world import START

PROFILE: Final = edge_profiles.typed(edge_profiles.shipped("vx-rail", "", {"bridge": None}))
LOOK: Final = 10
"""Seconds between looks."""
WRITE: Final = 40
"""Seconds after which a status is written that has no news, a little less than it may be."""
WELL: Final = ToldHost()
WORDS: Final = (WELL, WELL, WELL, ToldHost(mode="active-backup"), ToldHost(disk="Inconsistent"))


@dataclass
class AgentOfWorld:
    """An agent: it renews its Lease, and tells how its host is, as long as it lives."""

    lasts: int = 60
    alive: bool = True
    host: ToldHost = WELL
    renewed: datetime = START

    @property
    def limit(self) -> timedelta:
        """How long after its last sign of life it may pass for alive."""
        return timedelta(seconds=max(90.0, 1.5 * self.lasts) + LOOK)


@dataclass
class ToldWorld:
    """Hosts, and what is so on them."""

    now: datetime = START
    agents: dict[str, AgentOfWorld] = field(
        default_factory=lambda: {"a": AgentOfWorld(), "b": AgentOfWorld()}
    )

    def pass_time(self, seconds: int) -> None:
        """Let time go by; who lives renews its Lease every third of it."""
        self.now += timedelta(seconds=seconds)
        for one in self.agents.values():
            if one.alive and self.now - one.renewed >= timedelta(seconds=one.lasts / 3):
                one.renewed = self.now

    def mishap(self, chance: random.Random) -> None:
        """Have something happen to a host: what happens to one that is dead is not told of."""
        one = chance.choice(list(self.agents.values()))
        match chance.randrange(4):
            case 0 | 1:
                one.alive = not one.alive
            case 2:
                one.host = chance.choice(WORDS)
            case _ if one.alive:  # it is started anew, with another Lease
                one.renewed = self.now
                one.lasts = chance.choice([10, 60, 60, 600])

    def calm_down(self) -> None:
        """Have all be well from now on."""
        for one in self.agents.values():
            one.alive, one.host, one.lasts = True, WELL, 60

    def lies(self, status: EdgeClusterStatus) -> list[str]:
        """Return what a status shows as if it were so now, and nobody can know."""
        found = []
        for node in status.nodes:
            one = self.agents[node.name]
            gone = self.now - one.renewed > one.limit
            if gone and FRESH in (node.heartbeat, node.report.state if node.report else ""):
                found.append(f"{node.name} lives, of which nothing was heard since {one.renewed}")
            if node.heartbeat == FRESH and node.changed_at is None:
                found.append(f"{node.name} was seen to live at no time")
        silent = [name for name, one in self.agents.items() if self.now - one.renewed > one.limit]
        if silent and status.phase in (SINGLE_NODE, MULTI_NODE):
            found.append(f"all is well, though nothing is heard of {silent}")
        told = [one.host for one in self.agents.values() if one.alive]
        wrong = any(one.disk != WELL.disk for one in told) or len({one.mode for one in told}) > 1
        if wrong and status.phase in (SINGLE_NODE, MULTI_NODE):
            found.append("all is well, though agents that live tell otherwise")
        parts = [one for one in (status.network, status.storage) if one is not None and one.state == HEALTHY]
        return [*found, *(f"a part is well, though nothing is heard of {silent}" for _ in parts if silent)]


@dataclass
class ToldSite:
    """What an operator makes of it; `restart` has another one go on."""

    world: ToldWorld
    profile: EdgeProfile = PROFILE
    nodes: dict[str, ManagedNode] = field(default_factory=dict)
    """In the API: what agents told, with the marks of operators."""
    stored: EdgeClusterStatus = field(default_factory=EdgeClusterStatus)
    """In the API, where it is written when it is news, and now and then."""
    status: EdgeClusterStatus = field(default_factory=EdgeClusterStatus)
    """What this operator saw last."""
    heartbeats: Heartbeats = field(default_factory=Heartbeats)
    written: datetime = START
    lies: list[str] = field(default_factory=list)
    """What any operator has shown that nobody could know."""

    def restart(self) -> None:
        """Have another operator go on: it knows what is in the API, and nothing else."""
        self.heartbeats, self.status = Heartbeats(), self.stored

    def tell(self) -> None:
        """Have agents that live write how their hosts are; the mark in it is the operator's."""
        for name, one in self.world.agents.items():
            known = self.nodes.get(name)
            if not one.alive and known is not None:
                continue
            before = known.status if known is not None else ManagedNodeStatus()
            alive = [mark for mark in before.conditions if mark.type == "Alive"]
            told = one.host.node(name).status
            said = [*alive, *(mark for mark in told.conditions if mark.type != "Alive")]
            status = msgspec.structs.replace(told, conditions=said, last_seen=before.last_seen)
            self.nodes[name] = ManagedNode(metadata=ObjectMeta(name=name), status=status)

    def look(self) -> EdgeClusterStatus:
        """Have the operator judge who lives, and look at the site."""
        world = self.world
        clock = (world.now - START).total_seconds()
        for name, one in world.agents.items():
            self.heartbeats.saw(name, str(one.renewed), one.lasts, clock)
            node, judgement = self.nodes[name], self.heartbeats.judge(name, clock)
            status = marks.marked(node, judgement, world.now)
            self.nodes[name] = msgspec.structs.replace(node, status=status)
        signs = {
            name: SignOfLife(str(one.renewed), timedelta(seconds=one.lasts))
            for name, one in world.agents.items()
        }
        cluster = EdgeCluster(spec=EdgeClusterSpec(profile="vx-rail"), status=self.status)
        site = Site(cluster, self.profile, AgentFacts(self.nodes, beats=signs))
        self.status = deciding.decide(site, world.now)
        self.lies += [f"{world.now:%H:%M:%S}: {one}" for one in world.lies(self.status)]
        news = (self.status.phase, self.status.message) != (self.stored.phase, self.stored.message)
        if news or world.now - self.written >= timedelta(seconds=WRITE):
            text = msgspec.json.encode(self.status)
            self.stored = msgspec.json.decode(text, type=EdgeClusterStatus)
            self.written = world.now
        return self.status

    def go_on(self, seconds: int, *, watched: bool = True) -> list[EdgeClusterStatus]:
        """Let time go by, with an operator that looks all the while or with none; return what it saw."""
        seen = []
        for _ in range(seconds // LOOK):
            self.world.pass_time(LOOK)
            self.tell()
            seen += [self.look()] if watched else []
        return seen


def watched_site(**agents: AgentOfWorld) -> ToldSite:
    """Return a site that was seen to be well for a while."""
    world = ToldWorld(agents=agents or {"a": AgentOfWorld(), "b": AgentOfWorld()})
    site = ToldSite(world)
    assert site.go_on(max(one.lasts for one in world.agents.values()) + 60)[-1].phase == MULTI_NODE
    return site
