"""Selects the records that a query asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from nodemanager.api.audit.record import Record
from nodemanager.kube import times


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """The conditions for a record; an empty field matches anything."""

    host: str = ""
    actor: str = ""
    """A user, a field manager, a host, or a claimed author."""
    object: str = ""
    """A name, or kind/name, in any case."""
    reason: str = ""
    verb: str = ""
    since: datetime | None = None

    def fits(self, record: Record) -> bool:
        """Tell whether a record matches."""
        return (
            self.host in ("", record.host)
            and (not self.actor or self.actor in (record.actor.name, record.actor.claimed))
            and (not self.object or self._is_object(record))
            and self.reason in ("", record.reason)
            and self.verb in ("", record.verb)
            and (self.since is None or self._is_new(record))
        )

    def _is_object(self, record: Record) -> bool:
        kind, parted, name = self.object.rpartition("/")
        return record.object.name == name and (not parted or record.object.kind.lower() == kind.lower())

    def _is_new(self, record: Record) -> bool:
        at = times.parse(record.time)
        return at is not None and self.since is not None and at >= self.since


def found(records: Iterable[Record], question: RecordQuery) -> Iterator[Record]:
    """Return the matching records, in their order."""
    return (one for one in records if question.fits(one))
