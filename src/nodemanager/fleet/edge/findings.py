"""The findings about a site: conditions and faults, of which the worst decides the phase. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from nodemanager.kube import conditions
from nodemanager.kube.conditions import Condition

PROFILE_USABLE: Final = "ProfileUsable"
"""Condition type: the profile is there, possible, and signed where that is required."""
PROFILE_SIGNED: Final = "ProfileSigned"
"""Condition type: the profile is signed by a key that the site trusts."""
BRIDGE_READABLE: Final = "BridgeReadable"
"""Condition type: everything that the profile names could be read."""
STATE_RECOGNISED: Final = "StateRecognised"
"""Condition type: the state of the DaemonSet is one of those of the profile."""
STATE_IN_ORDER: Final = "StateInOrder"
"""Condition type: the state of the DaemonSet did not go back, unless the DaemonSet said so."""
ONE_DAEMON_SET: Final = "OneDaemonSet"
"""Condition type: exactly one DaemonSet does the work."""
HEARTBEATS_FRESH: Final = "HeartbeatsFresh"
"""Condition type: every node sends heartbeats."""
NODES_EXPECTED: Final = "NodesExpected"
"""Condition type: the site has exactly the nodes that it should have."""
BOOTED_ACTIVE: Final = "BootedActive"
"""Condition type: nodes with several images booted the one that should run; absent where none reports it."""
PARTS_SEEN: Final = "PartsSeen"
"""Condition type: the state of the storage and virtual machines that are looked at is known."""
NODES_SEEN: Final = "NodesSeen"
"""Condition type: the Kubernetes Nodes could be read; absent where the profile does not ask for them."""
PARTS_HEALTHY: Final = "PartsHealthy"
"""Condition type: no source reports that storage, network or virtual machines are unwell."""
HEALTHY: Final = "Healthy"
"""Condition type: the site does what it should, and no work is under way."""

AS_EXPECTED: Final = "AsExpected"


@dataclass(slots=True)
class Findings:
    """The findings of a look: one condition for each question, in the order of the questions."""

    generation: int
    found: list[Condition] = field(default_factory=list)

    def good(self, kind: str, message: str = "", reason: str = AS_EXPECTED) -> None:
        """Record that something is as it should be."""
        self._add(kind, conditions.TRUE, reason, message)

    def bad(self, kind: str, reason: str, message: str) -> None:
        """Record that something is wrong."""
        self._add(kind, conditions.FALSE, reason, message)

    def untold(self, kind: str, reason: str, message: str) -> None:
        """Record that something is not known."""
        self._add(kind, conditions.UNKNOWN, reason, message)

    def _add(self, kind: str, status: str, reason: str, message: str) -> None:
        self.found.append(
            Condition(type=kind, status=status, reason=reason, message=message[:1024],
                      observed_generation=self.generation)
        )  # fmt: skip

    def wrong(self, *kinds: str) -> Condition | None:
        """Return the worst condition that is not True: faults first, then what is unknown, by kinds."""
        bad = [one for one in self.found if one.type in kinds and one.status != conditions.TRUE]
        order = (conditions.FALSE, conditions.UNKNOWN)
        return min(bad, key=lambda one: (order.index(one.status), kinds.index(one.type)), default=None)
