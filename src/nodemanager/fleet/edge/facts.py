"""What the bridge read, unchanged: none of it is trusted yet. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.edge.edgecluster import FRESH, UNANSWERED, EdgeClusterStatus, EdgeEvent
from nodemanager.api.edge.edgeprofile import EdgeProfile
from nodemanager.api.edge.node_reports import NodeWork

MAX_VALUE: Final = 65536
"""Longer values of a ConfigMap are not looked at: a state has a few words."""
MAX_LISTED: Final = 10_000
"""Objects of one kind that a site may have: more would keep the operator from everything else."""


@dataclass(frozen=True, slots=True)
class Read:
    """The object that was asked for: `answer` is FRESH, or why there is none."""

    answer: str = FRESH
    data: Mapping[str, str] = field(default_factory=dict)
    message: str = ""


@dataclass(frozen=True, slots=True)
class SeenDaemonSet:
    """The parts of a DaemonSet that matter here."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    desired: int = 0
    ready: int = 0


@dataclass(frozen=True, slots=True)
class BridgeFacts:
    """Everything that one look read."""

    state: Read
    heartbeats: Read
    daemon_sets: Sequence[SeenDaemonSet] = ()
    daemon_sets_read: Read = field(default_factory=Read)
    events: Sequence[EdgeEvent] = ()
    events_read: Read = field(default_factory=Read)


_NOTHING: Final = Read(UNANSWERED)
UNREAD: Final = BridgeFacts(_NOTHING, _NOTHING, daemon_sets_read=_NOTHING)
"""No look was made."""


@dataclass(frozen=True, slots=True)
class SignOfLife:
    """The Lease of an agent."""

    renewed: str
    """Its renewTime: only compared, never read as a time."""
    lasts: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """What agents report about the hosts of a site."""

    hosts: Mapping[str, ManagedNode] = field(default_factory=dict)
    tasks: Mapping[str, int] = field(default_factory=dict)
    """How many tasks of a host have not ended."""
    work: Mapping[str, NodeWork] = field(default_factory=dict)
    """And which one of them it is at."""
    beats: Mapping[str, SignOfLife] = field(default_factory=dict)
    steady: bool = True
    """Whether every change since the look before was seen when it came: the API was not out of reach."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What nodes are told of with."""

    profile: EdgeProfile
    agents: AgentFacts
    before: EdgeClusterStatus
    """What the look before has seen."""
    now: datetime
