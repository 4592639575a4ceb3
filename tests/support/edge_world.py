"""A DaemonSet that exists in a test only: it walks its states, and things go wrong with it.

`EdgeWorld` is the truth; `facts` is what is to be read of it in the API. Time is the world's own.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from nodemanager.api.edge.bridge_parts import Bridge
from nodemanager.api.edge.edgecluster import (
    BOOTSTRAP,
    DEGRADED,
    FRESH,
    HEALTHY,
    MISSING,
    MULTI_NODE,
    RECOVERING,
    REFUSED,
    SINGLE_NODE,
    UNANSWERED,
    UNKNOWN,
    UPGRADING,
    EdgeClusterStatus,
    ObservedState,
)
from nodemanager.fleet.edge.facts import BridgeFacts, Read, SeenDaemonSet
from nodemanager.kube import times
from support import edge_profiles

START = datetime(2026, 3, 1, 4, 0, tzinfo=UTC)
AGE = timedelta(seconds=90)
JUMPS = (0, 0, 0, 0, 0, 0, 0, 0, -3600, -600, 600, 3600)
"""How the clock of the operator is set, in seconds."""
BAD_STATES = (
    '{"state": "Id', "", "[]", '{"state": "Idle", "state": "WaitSync"}', '{"state": 1e9}', "null",
    '{"state": "Dreaming"}', '{"state": ["Idle"]}', "x" * 70000, "[" * 60000,
)  # fmt: skip
"""Cut off, empty, not what was expected, twice, unknown, long, deep."""
DAEMON_SETS: tuple[tuple[str, ...], ...] = (
    (), ("vx-rail-node-init",), ("vx-rail-node-init",), ("vx-rail-node-init", "copy"), ("copy",),
)  # fmt: skip


def bridge() -> Bridge:
    """Return where the DaemonSet of the shipped profile leaves its traces."""
    found = edge_profiles.typed(edge_profiles.shipped("vx-rail")).spec.bridge
    assert found is not None
    return found


@dataclass
class EdgeNodeOfWorld:
    """A node: when it last gave a sign of life, and how wrong its clock is."""

    skew: timedelta = timedelta(0)
    alive: bool = True
    beat: datetime = START


@dataclass
class Troubles:
    """Remembers when something was wrong: for a while after, and not for longer, a site is no better."""

    forget: timedelta
    """How long who vanished is told of."""
    last: datetime = START
    """When something was wrong; in the beginning nobody has been seen to live."""
    looked: datetime = START
    names: frozenset[str] = frozenset()

    def allowed(self, world: EdgeWorld, true: set[str], *, disturbed: bool = False) -> set[str]:
        """Return what may be said at a look: what is true; and that it is not well, soon after it was not.

        `disturbed` is whether something happened to who looks: its clock was set, or its profile lapsed.
        """
        names = frozenset(world.nodes)
        wrong = (
            disturbed
            or bool(true & {DEGRADED, UNKNOWN})
            or names != self.names
            or world.now - self.looked > AGE  # nobody can tell how fresh the last signs of life were
        )
        if wrong:
            self.last = world.now
        self.looked, self.names = world.now, names
        return true | ({DEGRADED, BOOTSTRAP} if self.excused(world) else set())

    def excused(self, world: EdgeWorld) -> bool:
        """Tell whether something was wrong not long ago."""
        return world.now - self.last <= AGE + self.forget


@dataclass
class EdgeWorld:
    """A site and all that may be wrong with it."""

    now: datetime = START
    bridge: Bridge = field(default_factory=bridge)
    nodes: dict[str, EdgeNodeOfWorld] = field(default_factory=lambda: {"a": EdgeNodeOfWorld()})
    number: int = 1
    rollback: bool = False
    state_text: str | None = None
    """In the place of what the DaemonSet would write."""
    state_answer: str = ""
    beats_answer: str = ""
    daemon_sets: tuple[str, ...] = ("vx-rail-node-init",)
    unready: int = 0
    storage: str = "healthy"
    """Its word; empty = none."""

    def pass_time(self, seconds: float) -> None:
        """Let time go by; nodes that live give signs of life every ten seconds."""
        self.now += timedelta(seconds=seconds)
        for node in self.nodes.values():
            if node.alive:
                node.beat = self.now - timedelta(seconds=self.now.second % 10)

    def facts(self) -> BridgeFacts:
        """Return what is to be read in the API now."""
        written = {
            "state": self.bridge.states[self.number - 1],
            "direction": "rollback" if self.rollback else "forward",
            "lockHolder": "a" if self.number > 2 else "",
        }
        text = json.dumps(written) if self.state_text is None else self.state_text
        data = {"state.json": text, "network": "healthy", "virtualisation": "healthy"}
        data |= {"storage": self.storage} if self.storage else {}
        beats = {f"node-{name}": times.rfc3339(one.beat + one.skew) for name, one in self.nodes.items()}
        desired = len(self.nodes)
        return BridgeFacts(
            Read(self.state_answer, message="no") if self.state_answer else Read(data=data),
            Read(self.beats_answer, message="no") if self.beats_answer else Read(data=beats),
            [
                SeenDaemonSet(one, {"app": "vx-rail-node-init"}, desired, max(0, desired - self.unready))
                for one in self.daemon_sets
            ],
        )

    def truth(self, furthest: int, offset: timedelta = timedelta(0)) -> set[str]:
        """Return the phases that would be no lie: of who saw how far it was, and whose clock is so wrong."""
        if self.state_answer or self.state_text is not None:
            return {UNKNOWN, BOOTSTRAP} if self.state_answer == MISSING else {UNKNOWN}
        if self.beats_answer in (REFUSED, UNANSWERED):
            return {UNKNOWN}
        unwell = (
            bool(self.beats_answer)
            or self.daemon_sets != ("vx-rail-node-init",)
            or self.unready
            or self.storage == "split-brain"
            or (self.number < furthest and not self.rollback)
            or not 1 <= len(self.nodes) <= 2
            or any(self.now - one.beat > AGE for one in self.nodes.values())
            or any(one.skew - offset > timedelta(seconds=45) for one in self.nodes.values())
        )
        if unwell:
            return {DEGRADED, BOOTSTRAP}
        if not self.storage:
            return {UNKNOWN}
        if self.rollback and self.number > 1:
            return {RECOVERING}
        if self.number > 1:
            return {UPGRADING}
        return {SINGLE_NODE if len(self.nodes) == 1 else MULTI_NODE}

    def lies(self, status: EdgeClusterStatus) -> list[str]:
        """Return what a status shows as if it were so now, and is not."""
        found = []
        for node in status.nodes:
            true = self.nodes.get(node.name)
            if node.heartbeat == FRESH and (true is None or self.now - true.beat > AGE):
                found.append(f"{node.name} lives")
        seen, readable = status.observed or ObservedState(), self.state_text is None and not self.state_answer
        if (seen.state or seen.number or seen.lock_holder) and not readable:
            found.append(f"{seen} can be read")
        if seen.state and seen.state != self.bridge.states[self.number - 1]:
            found.append(f"it is at {seen.state}")
        if status.storage is not None and status.storage.state == HEALTHY and self.storage != "healthy":
            found.append("the storage is well")
        return found

    def mishap(self, chance: random.Random) -> None:
        """Have something happen, for better or worse: to what it does, what is read, or its nodes."""
        chance.choice([self._goes_on, self._goes_on, self._is_misread, self._nodes_change])(chance)

    def calm_down(self, chance: random.Random) -> None:
        """Have all be well from now on, while the DaemonSet goes on with what it does, either way."""
        self.state_text, self.state_answer, self.beats_answer = None, "", ""
        self.daemon_sets, self.unready, self.storage = ("vx-rail-node-init",), 0, "healthy"
        names = sorted(self.nodes)[:2] or ["a"]
        self.nodes = {name: self.nodes.get(name) or EdgeNodeOfWorld(beat=self.now) for name in names}
        for node in self.nodes.values():
            node.alive, node.skew = True, timedelta(0)
        self.number = self.number % len(self.bridge.states) + chance.choice([0, 1]) or 1
        if self.number == 1:
            self.rollback = chance.random() < 0.3

    def _goes_on(self, chance: random.Random) -> None:
        match chance.randrange(6):
            case 0 | 1 | 2:
                self.number = self.number % len(self.bridge.states) + 1
            case 3:
                self.number = chance.randint(1, len(self.bridge.states))
            case 4:
                self.rollback = not self.rollback
            case _:
                self.storage = chance.choice(["healthy", "healthy", "split-brain", ""])

    def _is_misread(self, chance: random.Random) -> None:
        match chance.randrange(5):
            case 0:
                self.state_text = chance.choice(BAD_STATES)
            case 1 | 2:
                self.state_text, self.state_answer, self.beats_answer = None, "", ""
            case 3:
                self.state_answer = chance.choice(["", MISSING, REFUSED, UNANSWERED])
            case _:
                self.beats_answer = chance.choice(["", MISSING, REFUSED, UNANSWERED])

    def _nodes_change(self, chance: random.Random) -> None:
        name = chance.choice("abc")
        node = self.nodes.get(name)
        match chance.randrange(6):
            case 0:
                self.daemon_sets = chance.choice(DAEMON_SETS)
            case 1 if node:
                self.nodes.pop(name)
            case 2 if node:
                node.alive = not node.alive
            case 3 if node and node.alive:  # one that is dead writes nothing new
                node.skew = timedelta(seconds=chance.choice([0, 0, -7200, 20, 7200]))
            case 4 if self.nodes:
                self.unready = chance.choice([0, 0, 1])
            case _:
                self.nodes.setdefault(name, EdgeNodeOfWorld(beat=self.now))
