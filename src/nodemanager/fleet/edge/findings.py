"""What is said of a site: conditions, and what is wrong, of which the worst decides the phase. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from nodemanager.kube import conditions
from nodemanager.kube.conditions import Condition

PROFILE_USABLE: Final = "ProfileUsable"
"""Condition type: the profile is there, possible, and signed where that is required."""
PROFILE_SIGNED: Final = "ProfileSigned"
"""Condition type: somebody signed the profile whom the site trusts."""
BRIDGE_READABLE: Final = "BridgeReadable"
"""Condition type: all that the profile names could be read."""
STATE_RECOGNISED: Final = "StateRecognised"
"""Condition type: the state of the DaemonSet is one of those of the profile."""
STATE_IN_ORDER: Final = "StateInOrder"
"""Condition type: the state of the DaemonSet did not go back, unless it said so."""
ONE_DAEMON_SET: Final = "OneDaemonSet"
"""Condition type: one DaemonSet does the work: not none, and not two."""
HEARTBEATS_FRESH: Final = "HeartbeatsFresh"
"""Condition type: every node gives signs of life."""
NODES_EXPECTED: Final = "NodesExpected"
"""Condition type: the site has the nodes that it shall have."""
BOOTED_ACTIVE: Final = "BootedActive"
"""Condition type: nodes with several images have booted the one that shall run; absent where none tells."""
PARTS_SEEN: Final = "PartsSeen"
"""Condition type: what is looked at of storage and virtual machines is known."""
NODES_SEEN: Final = "NodesSeen"
"""Condition type: the Nodes of Kubernetes could be read; absent where the profile has none looked at."""
PARTS_HEALTHY: Final = "PartsHealthy"
"""Condition type: nobody says that storage, network or virtual machines are unwell."""
HEALTHY: Final = "Healthy"
"""Condition type: the site does what it shall, and nothing is under way."""

AS_EXPECTED: Final = "AsExpected"


@dataclass(slots=True)
class Findings:
    """What a look found: a condition each, in the order in which they were looked at."""

    generation: int
    found: list[Condition] = field(default_factory=list)

    def good(self, kind: str, message: str = "", reason: str = AS_EXPECTED) -> None:
        """Say that something is as it should be."""
        self._add(kind, conditions.TRUE, reason, message)

    def bad(self, kind: str, reason: str, message: str) -> None:
        """Say that something is wrong."""
        self._add(kind, conditions.FALSE, reason, message)

    def untold(self, kind: str, reason: str, message: str) -> None:
        """Say that nobody knows."""
        self._add(kind, conditions.UNKNOWN, reason, message)

    def _add(self, kind: str, status: str, reason: str, message: str) -> None:
        self.found.append(
            Condition(type=kind, status=status, reason=reason, message=message[:1024],
                      observed_generation=self.generation)
        )  # fmt: skip

    def wrong(self, *kinds: str) -> Condition | None:
        """Return the worst condition that is not True: what is wrong, then what nobody knows, by kinds."""
        bad = [one for one in self.found if one.type in kinds and one.status != conditions.TRUE]
        order = (conditions.FALSE, conditions.UNKNOWN)
        return min(bad, key=lambda one: (order.index(one.status), kinds.index(one.type)), default=None)
