"""What the bridge saw of a DaemonSet, judged: its state, its nodes, and what is wrong. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from nodemanager.api.edge.bridge_parts import Bridge, HealthSource, WatchedDaemonSet
from nodemanager.api.edge.edgecluster import (
    FRESH,
    HEALTHY,
    MISSING,
    NOT_OBSERVED,
    STALE,
    UNHEALTHY,
    UNKNOWN,
    UNREADABLE,
    EdgeClusterStatus,
    EdgeInput,
    EdgeNode,
    ObservedState,
    PartHealth,
)
from nodemanager.fleet.edge import decoding, findings, heartbeats
from nodemanager.fleet.edge.decoding import DecodedState, UnreadableText
from nodemanager.fleet.edge.facts import BridgeFacts, Read, SeenDaemonSet
from nodemanager.fleet.edge.findings import Findings
from nodemanager.fleet.edge.heartbeats import Limits
from nodemanager.kube import times


@dataclass(frozen=True, slots=True)
class BridgeView:
    """What was seen."""

    decoded: DecodedState | None
    """The decoded state; None = there is no state that can be read."""
    observed: ObservedState
    nodes: list[EdgeNode]
    inputs: list[EdgeInput]
    parts: Mapping[str, PartHealth] = field(default_factory=dict)
    anything: bool = True
    """Whether there is any trace of the DaemonSet."""
    there: int = 0
    """How many nodes leave signs of life; more than are shown, where a status has no room for all."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at what a profile names."""

    bridge: Bridge
    facts: BridgeFacts
    before: EdgeClusterStatus
    """What the look before this one saw."""
    limits: Limits
    now: datetime


def view(look: Look, said: Findings) -> BridgeView:
    """Judge what was read, and add the good and the bad to the findings."""
    bridge, facts = look.bridge, look.facts
    wanted = bridge.daemon_set
    ours = [one for one in facts.daemon_sets if wanted and _is_ours(wanted, one)]
    if wanted is not None:
        _daemon_sets(look, wanted, ours, said)
    nodes = heartbeats.nodes(bridge, facts.heartbeats, look.before, look.limits, look.now)
    state = _read_state(bridge, facts.state)
    decoded = state if isinstance(state, DecodedState) else None
    at_work = wanted is None or (len(ours) == 1 and ours[0].desired > 0)
    current = at_work and any(one.heartbeat == FRESH for one in nodes)
    observed = _observed(look, decoded, current=current)
    _state(bridge, state, observed, said)
    inputs = _inputs(look, state, ours)
    _readable(inputs, said)
    if bridge.component:  # Events are shown but decide nothing: they are no state
        inputs.append(_input(look, f"Events of {bridge.component}", facts.events_read))
    anything = bool(ours or nodes or facts.state.answer != MISSING)
    parts, there = _parts(look, decoded, current=current), len(heartbeats.names(bridge, facts.heartbeats))
    return BridgeView(decoded, observed, nodes, inputs, parts, anything, there)


def _inputs(look: Look, state: DecodedState | str, ours: list[SeenDaemonSet]) -> list[EdgeInput]:
    bridge, facts = look.bridge, look.facts
    space = bridge.namespace
    found = _input(look, f"ConfigMap {space}/{bridge.state.config_map}", facts.state)
    if isinstance(state, str) and found.state == FRESH:
        found = msgspec.structs.replace(found, state=UNREADABLE, message=state)
    beats = _input(look, f"ConfigMap {space}/{bridge.heartbeats.config_map}", facts.heartbeats)
    if bridge.daemon_set is None:
        return [found, beats]
    sets = _input(look, f"DaemonSet {space}/{bridge.daemon_set.name}", _daemon_read(facts, ours))
    return [found, beats, sets]


def _parts(look: Look, decoded: DecodedState | None, *, current: bool) -> dict[str, PartHealth]:
    if decoded is None:
        return {}
    bridge, data = look.bridge, look.facts.state.data
    named = {"storage": bridge.storage, "network": bridge.network, "virtualisation": bridge.virtualisation}
    return {name: _part(one, data, current=current) for name, one in named.items() if one is not None}


def _is_ours(wanted: WatchedDaemonSet, seen: SeenDaemonSet) -> bool:
    alike = bool(wanted.labels) and wanted.labels.items() <= dict(seen.labels).items()
    return seen.name == wanted.name or alike


def _daemon_sets(look: Look, wanted: WatchedDaemonSet, ours: list[SeenDaemonSet], said: Findings) -> None:
    kind, read = findings.ONE_DAEMON_SET, look.facts.daemon_sets_read
    if read.answer not in (FRESH, MISSING):
        said.untold(kind, read.answer, read.message)
    elif not ours:
        text = f"there is no DaemonSet {look.bridge.namespace}/{wanted.name}: its word is nobody's now"
        said.bad(kind, "NoDaemonSet", text)
    elif len(ours) > 1:
        names = ", ".join(sorted(one.name for one in ours))
        said.bad(kind, "TwoDaemonSets", f"several do the same work: {names}; keep one of them")
    elif ours[0].name != wanted.name:
        said.bad(kind, "AnotherDaemonSet", f"{ours[0].name} is there in the place of {wanted.name}")
    elif not ours[0].desired:
        said.bad(kind, "NoPods", f"{wanted.name} runs on no node: its word is nobody's now")
    elif ours[0].ready < ours[0].desired:
        said.bad(kind, "PodsNotReady", f"{ours[0].ready} of its {ours[0].desired} pods are ready")
    else:
        said.good(kind, f"{ours[0].ready} of its {ours[0].desired} pods are ready")


def _daemon_read(facts: BridgeFacts, ours: list[SeenDaemonSet]) -> Read:
    read = facts.daemon_sets_read
    if read.answer != FRESH:
        return read
    return Read(data={one.name: f"{one.ready}/{one.desired}" for one in ours}) if ours else Read(MISSING)


def _read_state(bridge: Bridge, read: Read) -> DecodedState | str:
    """Return the state, or why there is none."""
    if read.answer != FRESH:
        return read.message or "its ConfigMap is not there"
    if bridge.state.key not in read.data:
        return f"its ConfigMap has no key {bridge.state.key}"
    try:
        return decoding.state(bridge.state, bridge.states, read.data[bridge.state.key])
    except UnreadableText as error:
        return str(error)


def _observed(look: Look, decoded: DecodedState | None, *, current: bool) -> ObservedState:
    before, states = look.before.observed or ObservedState(), look.bridge.states
    if decoded is None:
        return ObservedState(furthest=before.furthest)
    # Compare by name: an older profile may have had other states, or another order.
    was = states.index(before.furthest) + 1 if before.furthest in states else 0
    # In the first state it does no work: the next work begins from there.
    furthest = decoded.number if decoded.number == 1 else max(was, decoded.number)
    same = before.raw_state == decoded.raw and before.since
    known = current and decoded.number > 0
    return ObservedState(
        state=states[decoded.number - 1] if known else "",
        raw_state=decoded.raw,
        since=before.since if same else times.rfc3339(look.now),
        number=decoded.number if known else 0,
        furthest=states[furthest - 1] if furthest else before.furthest,
        direction=decoded.direction if current else "",
        lock_holder=decoded.lock_holder if current else "",
    )


def _state(bridge: Bridge, state: DecodedState | str, observed: ObservedState, said: Findings) -> None:
    if isinstance(state, str):
        said.untold(findings.STATE_RECOGNISED, "StateUnreadable", f"its state cannot be read: {state}")
        said.untold(findings.STATE_IN_ORDER, "StateUnreadable", "")
        return
    if not state.number:
        said.bad(findings.STATE_RECOGNISED, "StateUnrecognised",
                 f"{state.raw!r} is none of the {len(bridge.states)} states of the profile")  # fmt: skip
        said.untold(findings.STATE_IN_ORDER, "StateUnrecognised", "")
        return
    said.good(findings.STATE_RECOGNISED)
    if state.number < bridge.states.index(observed.furthest) + 1 and not state.goes_back:
        text = (
            f"it is at {state.raw}, and was at {observed.furthest} before; it does not say that it goes back"
        )
        said.bad(findings.STATE_IN_ORDER, "StateRegressed", text)
    else:
        said.good(findings.STATE_IN_ORDER)


def _input(look: Look, name: str, read: Read) -> EdgeInput:
    return told_input(name, read, look.before, look.now)


def told_input(name: str, read: Read, before: EdgeClusterStatus, now: datetime) -> EdgeInput:
    """Return how a look at something went, and since when it shows its present content."""
    if read.answer != FRESH:
        return EdgeInput(name=name, state=read.answer, message=read.message)
    digest = decoding.digest(repr(sorted(read.data.items())))
    old = next((one for one in before.inputs if one.name == name), None)
    same = old is not None and old.digest == digest and old.changed_at
    changed = old.changed_at if old is not None and same else times.rfc3339(now)
    return EdgeInput(name=name, state=FRESH, digest=digest, changed_at=changed)


def _readable(inputs: list[EdgeInput], said: Findings) -> None:
    wrong = [one for one in inputs if one.state not in (FRESH, STALE)]
    if not wrong:
        said.good(findings.BRIDGE_READABLE)
        return
    # Unreadable is worse than missing: then nothing is known.
    worst = min(wrong, key=lambda one: (one.state == MISSING, one.state == UNREADABLE, one.name))
    texts = "; ".join(f"{one.name}: {one.message or one.state}" for one in wrong)
    said.bad(findings.BRIDGE_READABLE, worst.state, texts)


def _part(source: HealthSource, data: Mapping[str, str], *, current: bool) -> PartHealth:
    if source.key not in data:
        return PartHealth(state=NOT_OBSERVED)
    word = decoding.printable(data[source.key].strip())
    if not current:
        return PartHealth(state=UNKNOWN, said=word)
    return PartHealth(state=HEALTHY if word in source.healthy else UNHEALTHY, said=word)
