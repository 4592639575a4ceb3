"""The phase of a site and the rest of its status: from what was seen, never from what is wanted. Pure.

    what the profile names, or what agents tell  ->  conditions, nodes, parts  ->  phase with reason

Unknown means it cannot be read; Degraded means it was read and is wrong. Neither ever counts as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from nodemanager.api.edge import capabilities
from nodemanager.api.edge.edgecluster import (
    AGENT,
    BOOTSTRAP,
    BRIDGE,
    DEGRADED,
    FRESH,
    MISSING,
    MULTI_NODE,
    RECOVERING,
    REQUIRE,
    SINGLE_NODE,
    UNKNOWN,
    UNPROVEN,
    UPGRADING,
    WELL,
    EdgeCluster,
    EdgeClusterStatus,
    EdgeNode,
    ObservedState,
    PartHealth,
    UsedProfile,
)
from nodemanager.api.edge.edgeprofile import EdgeProfile
from nodemanager.fleet.edge import (
    bridge,
    findings,
    heartbeats,
    membership,
    node_details,
    parts,
    profile_trust,
    profile_versions,
)
from nodemanager.fleet.edge.bridge import BridgeView, Look
from nodemanager.fleet.edge.facts import UNREAD, AgentFacts, BridgeFacts, Sources
from nodemanager.fleet.edge.findings import Findings
from nodemanager.fleet.edge.heartbeats import Limits
from nodemanager.fleet.edge.hosts import site_view
from nodemanager.fleet.edge.hosts.site_view import HostsView
from nodemanager.fleet.edge.node_details import KubernetesNodes
from nodemanager.fleet.edge.parts import NOBODY, SitePartFacts
from nodemanager.kube import conditions, times
from nodemanager.kube.conditions import Condition

_FAULTS: Final = (
    findings.ONE_DAEMON_SET,
    findings.BRIDGE_READABLE,
    findings.STATE_IN_ORDER,
    findings.HEARTBEATS_FRESH,
    findings.NODES_EXPECTED,
    findings.PARTS_HEALTHY,
    findings.BOOTED_ACTIVE,
)
"""The faults that make a site Degraded, the worst first."""


PROFILE_OLDER: Final = "ProfileOlder"
"""Reason: a profile has a lower version than one that the site had before."""


class Verdict(NamedTuple):
    """A phase and its reason."""

    phase: str
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Site:
    """What is known of a site in one look."""

    cluster: EdgeCluster
    profile: EdgeProfile | None
    """None = there is no profile of that name."""
    agents: AgentFacts
    bridge: BridgeFacts = UNREAD
    """Answers for what the profile names; empty where it names nothing or must not be used."""
    parts: SitePartFacts = NOBODY
    """What backends report, if the profile asks for it."""
    kubernetes: KubernetesNodes | None = None
    """The Kubernetes Nodes, if the profile asks for them."""


def usable(cluster: EdgeCluster, profile: EdgeProfile | None, said: Findings) -> UsedProfile | None:
    """Return the usable profile and who signed it, or None; add the reason to the findings."""
    if profile is None:
        said.bad(
            findings.PROFILE_USABLE, "ProfileNotFound", f"there is no EdgeProfile {cluster.spec.profile}"
        )
        return None
    used = UsedProfile(name=profile.metadata.name, version=profile.spec.version)
    asked = cluster.spec.signature
    if asked is not None:
        try:
            used = UsedProfile(
                name=used.name, version=used.version, signed_by=profile_trust.verify(profile, asked.keys).key
            )
            said.good(findings.PROFILE_SIGNED, reason="Signed")
        except profile_trust.Untrusted as error:
            said.bad(findings.PROFILE_SIGNED, "ProfileUntrusted", str(error))
            if asked.policy == REQUIRE:
                said.bad(findings.PROFILE_USABLE, "ProfileUntrusted",
                         f"EdgeProfile {used.name} may not be used: {error}")  # fmt: skip
                return None
    if faults := capabilities.faults(profile.spec.workflows, profile.spec.choices):
        said.bad(findings.PROFILE_USABLE, "ProfileImpossible", "; ".join(faults))
        return None
    if not (newer := profile_versions.newer_one(profile_versions.remembered(cluster), profile)):
        said.good(findings.PROFILE_USABLE)
        return used
    text = (
        f"EdgeProfile {used.name} is version {used.version}, and this site was looked at with {newer} before:"
        " give what is wanted a higher version"
    )
    if asked is not None and asked.policy == REQUIRE:
        said.bad(findings.PROFILE_USABLE, PROFILE_OLDER, text)
        return None
    said.good(findings.PROFILE_USABLE, text, PROFILE_OLDER)
    return used


def decide(site: Site, now: datetime) -> EdgeClusterStatus:
    """Return the status of a site."""
    cluster, before = site.cluster, site.cluster.status
    said = Findings(cluster.metadata.generation)
    used = usable(cluster, site.profile, said)
    trusted = cluster.spec.signature is None or (used is not None and bool(used.signed_by))
    newest = profile_versions.highest(profile_versions.remembered(cluster), used, trusted=trusted)
    before = msgspec.structs.replace(before, newest_profile=newest)
    if used is None or site.profile is None:
        wrong = said.wrong(findings.PROFILE_USABLE)
        verdict = Verdict(UNKNOWN, wrong.reason, wrong.message) if wrong else Verdict(UNKNOWN, "")
        return _unlooked(before, _status(before, said, verdict, now))
    limits, sources = Limits.of(site.profile.spec.thresholds), Sources(site.profile, site.agents, before, now)
    if site.profile.spec.bridge is None:
        seen, there = None, len(site.agents.hosts)
        nodes = membership.hosts(sources, cluster.spec.nodes)
    else:
        seen = bridge.view(Look(site.profile.spec.bridge, site.bridge, before, limits, now), said)
        nodes, there = [membership.told(one, sources) for one in seen.nodes], seen.there
    expected = cluster.spec.nodes
    nodes = [one for one in nodes if one.name in expected or not heartbeats.forgotten(one, limits, now)]
    nodes = node_details.added(nodes, site.parts.storage, site.kubernetes)
    membership.judge(site.profile, cluster, nodes, said, there)
    node_details.judge(nodes, site.kubernetes, said)
    by_hosts = site_view.view(nodes, site.profile.spec, site.agents, said)
    looked = parts.combined(parts.seen(site.parts, site.profile.spec, cluster, nodes), by_hosts.parts)
    whole = parts.combined(seen.parts if seen else {}, looked)
    whole |= parts.unobserved(whole, site.profile.spec, nodes)
    if seen is not None or whole:
        parts.judge(whole, looked, said, parts.required(site.profile.spec))
    status = _status(before, said, _phase(before, seen, nodes, by_hosts, said), now)
    return _with_parts(_detailed(status, nodes, seen, site, used), whole, site, now)


def _phase(
    before: EdgeClusterStatus,
    seen: BridgeView | None,
    nodes: Sequence[EdgeNode],
    by_hosts: HostsView,
    said: Findings,
) -> Verdict:
    unread, unknown = said.wrong(findings.BRIDGE_READABLE), said.wrong(findings.STATE_RECOGNISED)
    if unread is not None and unread.reason != MISSING:
        return Verdict(UNKNOWN, unread.reason, unread.message)
    if unknown is not None and unknown.status == conditions.FALSE:
        return Verdict(UNKNOWN, unknown.reason, unknown.message)
    if (early := _begins(before, seen, nodes)) is not None:
        return early
    if unknown is not None:
        return Verdict(UNKNOWN, unknown.reason, unknown.message)
    fault, lost = said.wrong(*_FAULTS), said.wrong(findings.PARTS_SEEN)
    if fault is not None and not (lost is not None and fault.reason == lost.reason):
        phase = DEGRADED if fault.status == conditions.FALSE else UNKNOWN
        return Verdict(phase, fault.reason, fault.message)
    if lost is not None:
        return Verdict(UNKNOWN, lost.reason, lost.message)
    return _does(seen, nodes, by_hosts)


def _does(seen: BridgeView | None, nodes: Sequence[EdgeNode], by_hosts: HostsView) -> Verdict:
    """Return what a healthy site does."""
    if by_hosts.restoring:
        return Verdict(RECOVERING, "BondRestored", f"the bond is put back on {', '.join(by_hosts.restoring)}")
    # In the first state it does no work, whatever it did before.
    if seen is not None and seen.decoded is not None and seen.decoded.number > 1:
        if seen.decoded.goes_back:
            return Verdict(RECOVERING, "GoesBack", f"it goes back, and is at {seen.decoded.raw}")
        return Verdict(UPGRADING, "StateObserved", f"it is at {seen.decoded.raw}")
    if by_hosts.changing:
        return Verdict(UPGRADING, "BondChanges", f"the bond changes on {', '.join(by_hosts.changing)}")
    return Verdict(SINGLE_NODE if len(nodes) == 1 else MULTI_NODE, "AsObserved")


def _begins(before: EdgeClusterStatus, seen: BridgeView | None, nodes: Sequence[EdgeNode]) -> Verdict | None:
    """Return that a site is still at its beginning; a site that has worked never is again."""
    if before.bootstrapped:
        return None
    if seen is not None and not seen.anything:
        return Verdict(BOOTSTRAP, "NothingSeen", "there is no trace of the DaemonSet yet")
    if not nodes:
        return Verdict(BOOTSTRAP, "NoNodes", "no node has given a sign of life yet")
    if all(one.heartbeat == UNPROVEN for one in nodes):
        return Verdict(BOOTSTRAP, "Unproven", "no node was seen to live yet")
    return None


def _status(before: EdgeClusterStatus, said: Findings, verdict: Verdict, now: datetime) -> EdgeClusterStatus:
    healthy = conditions.TRUE if verdict.phase in WELL else conditions.FALSE
    whole = Condition(
        type=findings.HEALTHY,
        status=conditions.UNKNOWN if verdict.phase == UNKNOWN else healthy,
        reason=verdict.reason or verdict.phase,
        message=verdict.message[:1024],
        observed_generation=said.generation,
    )
    stamp = times.rfc3339(now)
    made: list[Condition] = []
    for one in [*said.found, whole]:  # old values are not kept: they would look like present ones
        old = conditions.get(before.conditions, one.type)
        made.extend(conditions.set_condition([old] if old else [], one, stamp))
    return EdgeClusterStatus(
        observed_generation=said.generation,
        phase=verdict.phase,
        since=before.since if before.phase == verdict.phase and before.since else stamp,
        reason=verdict.reason,
        message=verdict.message[:4096],
        observed_at=stamp,
        newest_profile=before.newest_profile,
        bootstrapped=before.bootstrapped or verdict.phase not in (BOOTSTRAP, UNKNOWN),
        conditions=made,
    )


def _unlooked(before: EdgeClusterStatus, status: EdgeClusterStatus) -> EdgeClusterStatus:
    """Return the status of a site that may not be looked at, with the memory for the next look."""
    nodes = heartbeats.unseen(before, "nobody looked: the profile cannot be used")
    observed = ObservedState(furthest=before.observed.furthest) if before.observed else None
    text = f"0/{len(nodes)}" if nodes else ""
    return msgspec.structs.replace(status, nodes=nodes, nodes_text=text, observed=observed)


def _detailed(
    status: EdgeClusterStatus, nodes: list[EdgeNode], seen: BridgeView | None, site: Site, used: UsedProfile
) -> EdgeClusterStatus:
    fresh = sum(one.heartbeat == FRESH for one in nodes)
    told = msgspec.structs.replace(
        status,
        profile=used,
        source=AGENT if seen is None else BRIDGE,
        nodes=nodes,
        nodes_text=f"{fresh}/{len(nodes)}",
    )
    if seen is None:
        return msgspec.structs.replace(told, inputs=[membership.told_input(nodes)])
    return msgspec.structs.replace(
        told, observed=seen.observed, inputs=seen.inputs, events=list(site.bridge.events)
    )


def _with_parts(
    status: EdgeClusterStatus, whole: Mapping[str, PartHealth], site: Site, now: datetime
) -> EdgeClusterStatus:
    before, asked = site.cluster.status, site.parts.asked().values()
    read = [(one.name, one.content) for one in asked]
    if site.kubernetes is not None:
        read.append((node_details.NAME, node_details.content(site.kubernetes)))
    inputs = [bridge.told_input(name, content, before, now) for name, content in read]
    return msgspec.structs.replace(status, inputs=[*status.inputs, *inputs], **whole)
