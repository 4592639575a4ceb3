"""How a site is by the reports of its agents: its parts, work under way, and booted images. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from nodemanager.api.common.edge_state import EdgeState
from nodemanager.api.edge.edgecluster import (
    FRESH,
    HEALTHY,
    NOT_OBSERVED,
    UNHEALTHY,
    UNKNOWN,
    EdgeNode,
    PartHealth,
)
from nodemanager.api.edge.edgeprofile import EdgeProfileSpec
from nodemanager.api.edge.profile_parts import LINSTOR, REPLICATED
from nodemanager.fleet.edge import findings
from nodemanager.fleet.edge.decoding import printable
from nodemanager.fleet.edge.facts import AgentFacts
from nodemanager.fleet.edge.findings import Findings
from nodemanager.fleet.edge.hosts import replication, site_network
from nodemanager.fleet.edge.storage.judging import StorageVerdict

ACTIVE_BOOTS: Final = ("", "active", "livecd")
"""Boots that count as right: there is nothing to choose from, the active image, or an installation."""


@dataclass(frozen=True, slots=True)
class HostsView:
    """The view of a site that its agents give."""

    parts: Mapping[str, PartHealth] = field(default_factory=dict)
    changing: Sequence[str] = ()
    """Nodes whose bond is being changed under a dead-man."""
    restoring: Sequence[str] = ()
    """Nodes whose bond is being put back."""


NOTHING: Final = HostsView()


def view(nodes: Sequence[EdgeNode], spec: EdgeProfileSpec, agents: AgentFacts, said: Findings) -> HostsView:
    """Judge what the agents of these nodes report; add a finding if a node booted a wrong image."""
    tellers = [one for one in nodes if one.report is not None]
    if not tellers:
        return NOTHING
    hosts = {one.name: agents.hosts[one.name] for one in tellers}
    fresh = [one.name for one in tellers if one.report is not None and one.report.state == FRESH]
    told = {name: state for name in fresh if (state := hosts[name].status.edge) is not None}
    silent = [one.name for one in tellers if one.name not in told]
    mute = [one.name for one in nodes if one.report is None]
    _booted(told, said)
    parts = {}
    if spec.network is not None:
        parts["network"] = _part(site_network.judge(told, spec), silent, mute)
    if spec.storage.backend == LINSTOR:
        copies = min(spec.storage.replicas, len(nodes)) if spec.storage.mode == REPLICATED else 1
        drbd = {name: state.drbd for name, state in told.items()}
        verdict = replication.judge(drbd, copies, complete=not silent and not mute)
        parts["storage"] = _part(verdict, silent, mute)
    bond = spec.network.bond if spec.network is not None else ""
    return HostsView(
        parts,
        site_network.under_way(told, bond, site_network.ARMED),
        site_network.under_way(told, bond, site_network.RESTORING),
    )


def _part(verdict: StorageVerdict, silent: Sequence[str], mute: Sequence[str]) -> PartHealth:
    """Return a part with the nodes whose state is unknown: reports of some nodes never count for all."""
    state = verdict.state
    texts = [verdict.text] if verdict.text else []
    if silent:
        state = UNHEALTHY if state == UNHEALTHY else UNKNOWN
        texts.append(f"nobody knows how it is on {', '.join(silent)}")
    elif mute:
        state = NOT_OBSERVED if state == HEALTHY else state
        texts.append(f"nothing is told by {', '.join(mute)}")
    return PartHealth(state=state, said=printable("; ".join(texts)))


def _booted(told: Mapping[str, EdgeState], said: Findings) -> None:
    if not any(state.boot is not None for state in told.values()):
        return
    if wrong := list(_wrong_boots(told)):
        said.bad(findings.BOOTED_ACTIVE, "BootedAnotherImage", "; ".join(wrong))
    else:
        said.good(findings.BOOTED_ACTIVE)


def _wrong_boots(told: Mapping[str, EdgeState]) -> Iterator[str]:
    for name, state in told.items():
        entry = state.boot.entry if state.boot is not None else ""
        if entry not in ACTIVE_BOOTS:
            why = ": the last upgrade failed, and it fell back" if entry == "passive" else ""
            yield f"{name} has booted its {entry} image{why}"
