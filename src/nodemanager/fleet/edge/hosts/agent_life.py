"""Whether the agent of a node is known to live, by its Lease: as signs of life of a DaemonSet are judged.
Pure.

The condition Alive of a ManagedNode says who is silent. It does not say who lives: an operator that was away
finds it as it was, and leaves it so until it has watched for as long as a Lease lasts. So it is believed only
while somebody saw the Lease change not long ago, and a change counts from the look before the one that saw
it. That is in the status of the site, where another operator goes on from.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from nodemanager.api.common import managednode, node_conditions
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.edge.edgecluster import AGENT, FRESH, STALE, UNPROVEN, EdgeNode
from nodemanager.fleet.edge import decoding
from nodemanager.fleet.edge.facts import SignOfLife, Sources
from nodemanager.fleet.edge.heartbeats import Limits
from nodemanager.kube import conditions, times

PATIENCE: Final = 1.5
"""Durations of its Lease after which an agent that was not seen to renew it is not known to live."""


@dataclass(frozen=True, slots=True)
class AgentLife:
    """What is known of the life of one agent."""

    word: str
    """FRESH, STALE or UNPROVEN."""
    why: str = ""
    digest: str = ""
    """Of its last sign of life."""
    changed_at: str | None = None
    """When it gave that: never later than it really was."""


def judge(host: ManagedNode, sources: Sources) -> AgentLife:
    """Say whether the agent of a host lives."""
    sign = sources.agents.beats.get(host.metadata.name)
    digest = decoding.digest(sign.renewed) if sign is not None and sign.renewed else ""
    changed = _changed(host.metadata.name, digest, sources)
    stamp = times.rfc3339(changed) if changed else None
    alive = conditions.get(host.status.conditions, node_conditions.ALIVE)
    if managednode.is_silent(host):
        return AgentLife(STALE, alive.message if alive else "", digest, host.status.last_seen or stamp)
    if alive is None or alive.status != conditions.TRUE:
        return AgentLife(UNPROVEN, alive.message if alive else "", digest, stamp)
    if changed is None:
        return AgentLife(UNPROVEN, "no new sign of life was seen yet", digest)
    if not timedelta(0) <= sources.now - changed <= _limit(sign, sources):
        return AgentLife(UNPROVEN, f"no new sign of life was seen since {stamp}", digest, stamp)
    return AgentLife(FRESH, "", digest, stamp)


def _limit(sign: SignOfLife | None, sources: Sources) -> timedelta:
    age = Limits.of(sources.profile.spec.thresholds).age
    return max(age, PATIENCE * sign.lasts) if sign is not None else age


def _changed(name: str, digest: str, sources: Sources) -> datetime | None:
    """Return when a host gave its last sign of life at the earliest; None where nobody has seen it change."""
    before = next((one for one in sources.before.nodes if one.name == name), None)
    was, changed_at = _remembered(before) if before is not None else ("", None)
    looked = times.parse(sources.before.observed_at)
    # If our clock was set back, nobody knows for how long nothing was seen.
    if not was or not digest or looked is None or sources.now < looked:
        return None
    seen = times.parse(changed_at)
    if was == digest or not sources.agents.steady:  # what changed unseen is no older than what was before
        return seen
    return looked


def _remembered(node: EdgeNode) -> tuple[str, str | None]:
    if node.source == AGENT:
        return node.digest, node.changed_at
    return node.agent_digest, node.agent_changed_at
