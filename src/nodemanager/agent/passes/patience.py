"""How long a resource may wait for objects that others create before that counts as a failure.

An operator gives a new host its Secrets within seconds, and people create a ConfigSet and its Secret one
after the other: neither is worth a warning. What is still missing after a minute is, and says what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.plan.resources import ResourceId

SECONDS: Final = 60.0


@dataclass(slots=True)
class Patience:
    """Knows since when each resource waits."""

    limit: float = SECONDS
    _since: dict[ResourceId, float] = field(default_factory=dict)

    def judged(self, results: Sequence[Result], now: float, *, whole: bool = False) -> list[Result]:
        """Return the results, where those that waited for too long count as held back.

        `whole` says that they are all that needed something: what is not among them does not wait.
        """
        waiting = {one.id for one in results if one.awaits}
        gone = self._since.keys() - waiting if whole else {one.id for one in results} - waiting
        for resource in gone:
            self._since.pop(resource, None)
        for resource in waiting:
            self._since.setdefault(resource, now)
        return [
            replace(one, outcome=ResourceOutcome.BLOCKED)
            if one.awaits and self._left(one.id, now) <= 0
            else one
            for one in results
        ]

    def due_in(self, now: float) -> float | None:
        """Return the seconds until the next of those that wait has waited for too long; None = none will."""
        return min((left for one in self._since if (left := self._left(one, now)) > 0), default=None)

    def _left(self, resource: ResourceId, now: float) -> float:
        return self._since[resource] + self.limit - now
