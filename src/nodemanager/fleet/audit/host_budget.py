"""How many records a host may cause. What it changes again and again is recorded once an hour.

A host writes its labels, the status of its tasks and its conditions. Each change of these is a
record, so a host that an attacker took over could fill the log, which then has no room for others.
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
"""How many records one host may cause in an hour, besides those of its chain; a maintenance makes about ten.
"""


class HostBudget:
    """Counts the records that hosts cause, and remembers objects of hosts that are over the limit."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        """Called with the name of a host that causes too many records, once an hour."""
        self._hour = datetime(1970, 1, 1, tzinfo=UTC)
        self._counts: Counter[str] = Counter()
        self._left: dict[ObjectId, ObservedObject] = {}
        """Objects with a change that was not recorded, as they were last seen."""

    def due(self, now: datetime) -> list[tuple[ObjectId, ObservedObject | None]]:
        """Return the objects to look at again, because another hour has begun."""
        if timedelta(0) <= now - self._hour < HOUR:  # a negative difference: the clock was set back
            return []
        self._hour = now
        self._counts.clear()
        left, self._left = self._left, {}
        return [*left.items()]

    def forget(self) -> None:
        """Forget the objects that wait, because all objects are looked at again."""
        self._left.clear()

    def admit(self, which: ObjectId, obj: ObservedObject | None, added: Sequence[Record]) -> list[Record]:
        """Return the records of an object that may be written."""
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
    """Tell whether a host can cause a record by itself, as often as it likes."""
    relabelled = record.object.kind == MANAGED_NODES.kind and record.aspect == LABELS
    return record.actor.known == HOST or relabelled
