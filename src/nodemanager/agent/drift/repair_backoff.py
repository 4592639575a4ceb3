"""How long a repair waits when others keep changing a resource, or repairs fail. Pure.

    calm --5 repairs within a minute--> contested --calm for long enough--> calm
                                        each repair doubles the wait before the next: 1 s, 2 s ... 10 min

A failed repair waits in the same way from the first failure on, so that there is no hot loop.
Each resource has a state of its own, so that one that is contested does not slow down the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from nodemanager.plan.resources import ResourceId

LIMIT: Final = 5
"""This number of repairs of one resource..."""
WITHIN: Final = 60.0
"""...within this number of seconds makes it contested."""
FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 600.0


@dataclass(frozen=True, slots=True)
class ContestedResource:
    """A resource that another program keeps changing."""

    resource: ResourceId
    found: str = ""
    """SHA-256 of the content that the other program writes, if everybody may know it."""
    wanted: str = ""
    repairs: int = 0
    """How often it was put back since it was last calm."""
    by: str = ""
    """The program that changed it last, if the host can tell."""

    def __str__(self) -> str:
        known = [f"found {self.found[:12]}, wanted {self.wanted[:12]}"] if self.found else []
        known += [f"last by {self.by}"] if self.by else []
        return f"somebody keeps changing {self.resource}" + (f" ({'; '.join(known)})" if known else "")


@dataclass(slots=True)
class _State:
    """The recent repairs of one resource."""

    stamps: list[float] = field(default_factory=list)
    """The times of its repairs, the newest last; only those that matter."""
    level: int = 0
    """How often the wait was doubled; 0 = not contested."""
    failures: int = 0
    not_before: float = 0.0
    calm_at: float = 0.0
    """When this state is forgotten if no repair comes before."""
    repairs: int = 0
    found: str = ""
    wanted: str = ""
    by: str = ""


class RepairBackoff:
    """Decides when a resource may be repaired again."""

    def __init__(self) -> None:
        self._states: dict[ResourceId, _State] = {}
        self._slow: dict[ResourceId, _State] = {}
        """The contested or failed ones among them: few, even if very many were repaired."""
        self._calm_at = math.inf
        """The earliest time at which a state may be forgotten."""

    def wait(self, resource: ResourceId, now: float) -> float:
        """Return how many seconds a repair has to wait; 0 = none."""
        state = self._states.get(resource)
        return max(state.not_before - now, 0.0) if state else 0.0

    def waiting(self, now: float) -> frozenset[ResourceId]:
        """Return everything that has to wait."""
        return frozenset(one for one, state in self._slow.items() if state.not_before > now)

    def repaired(
        self, resource: ResourceId, now: float, found: str = "", wanted: str = "", by: str = ""
    ) -> bool:
        """Record a repair; tell whether it made the resource contested."""
        state = self._states.setdefault(resource, _State())
        state.failures = 0
        state.found, state.wanted, state.by = found, wanted, by
        state.repairs += 1
        recent = [one for one in state.stamps if one > now - WITHIN]
        state.stamps = [*recent[1 - LIMIT :], now]
        began = not state.level and len(state.stamps) >= LIMIT
        if began or state.level:
            state.level += 1
            self._slow[resource] = state
        else:
            self._slow.pop(resource, None)
        self._rest(state, now, _wait(state.level))
        return began

    def failed(self, resource: ResourceId, now: float) -> float:
        """Record a failed repair; return in how many seconds to try again."""
        state = self._states.setdefault(resource, _State())
        state.failures += 1
        self._slow[resource] = state
        wait = max(_wait(state.failures), _wait(state.level))
        self._rest(state, now, wait)
        return wait

    def _rest(self, state: _State, now: float, wait: float) -> None:
        state.not_before, state.calm_at = now + wait, now + wait + WITHIN
        self._calm_at = min(self._calm_at, state.calm_at)

    def holds(self, resource: ResourceId) -> None:
        """Record that a resource is as declared without a repair, so that an earlier failure is over."""
        state = self._states.get(resource)
        if state is not None and state.failures:
            state.failures = 0
            if not state.level:
                state.not_before = 0.0
                del self._slow[resource]

    def keep_only(self, resources: Iterable[ResourceId]) -> None:
        """Forget what is no longer declared."""
        known = set(resources)
        self._keep({one: state for one, state in self._states.items() if one in known})

    def settle(self, now: float) -> float | None:
        """Forget resources that were calm for long enough; return when to do so again, None = never."""
        if now >= self._calm_at:
            self._keep({one: state for one, state in self._states.items() if state.calm_at > now})
        return self._calm_at if self._states else None

    def _keep(self, states: dict[ResourceId, _State]) -> None:
        self._states = states
        self._slow = {one: state for one, state in self._slow.items() if one in states}
        self._calm_at = min((state.calm_at for state in states.values()), default=math.inf)

    def contested(self) -> tuple[ContestedResource, ...]:
        """Return what is contested, by name."""
        found = (
            ContestedResource(one, state.found, state.wanted, state.repairs, state.by)
            for one, state in self._slow.items()
            if state.level
        )
        return tuple(sorted(found, key=lambda contested: contested.resource))


def _wait(level: int) -> float:
    """Return the wait after so many doublings."""
    return float(min(FIRST_WAIT * 2 ** min(level - 1, 30), LONGEST_WAIT)) if level else 0.0
