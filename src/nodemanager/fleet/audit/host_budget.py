"""How many records a host may cause: what it changes over and over is recorded as it is in the end.

A host writes its labels, the status of its tasks and what its conditions say. Each change of these is a
record, so one that was taken over could fill the log, after which nothing of anybody is recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from nodemanager.api.audit.record import HOST, Record
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.fleet.audit.aspects import LABELS
from nodemanager.fleet.audit.changes import ObjectId
from nodemanager.fleet.audit.observed import ObservedObject

HOUR: Final = timedelta(hours=1)
MAX_AN_HOUR: Final = 600
"""Records that one host causes in an hour, besides those of its own chain; a maintenance makes about ten."""


class HostBudget:
    """Counts what hosts cause, and remembers what they are over with."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        """Is told the name of a host that causes too much, once an hour."""
        self._hour = datetime(1970, 1, 1, tzinfo=UTC)
        self._counts: Counter[str] = Counter()
        self._left: dict[ObjectId, ObservedObject] = {}
        """Objects of which something is not recorded, as they were last seen."""

    def due(self, now: datetime) -> list[tuple[ObjectId, ObservedObject | None]]:
        """Return what is to be looked at again, as another hour has begun."""
        if timedelta(0) <= now - self._hour < HOUR:  # less than nothing: the clock was set back
            return []
        self._hour = now
        self._counts.clear()
        left, self._left = self._left, {}
        return [*left.items()]

    def forget(self) -> None:
        """Take note that all objects are looked at again."""
        self._left.clear()

    def admit(self, which: ObjectId, obj: ObservedObject | None, added: Sequence[Record]) -> list[Record]:
        """Return those of the records of an object that may be written."""
        self._left.pop(which, None)
        found = []
        for one in added:
            if _is_of_host(one):
                self._counts[one.host] += 1
                if self._counts[one.host] > MAX_AN_HOUR:
                    if self._counts[one.host] == MAX_AN_HOUR + 1:
                        self._warn(one.host)
                    if obj is not None:
                        self._left[which] = obj
                    continue
            found.append(one)
        return found


def _is_of_host(record: Record) -> bool:
    """Tell whether a host can cause it by itself, as often as it likes."""
    relabelled = record.object.kind == MANAGED_NODES.kind and record.aspect == LABELS
    return record.actor.known == HOST or relabelled
