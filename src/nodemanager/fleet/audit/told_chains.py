"""What a log says about the chains of hosts, for a check: which ends were reported, which alarms are open."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from datetime import datetime

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import BadRecord, Record
from nodemanager.api.common.audit_chain import AuditChain
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.fleet.audit.chain_merging import ACCEPT, Alarm, ChainMemory
from nodemanager.fleet.audit.changes import ObjectId
from nodemanager.fleet.audit.observed import SeenObject

_OF_CHAINS = b'"chain":{'
_OF_HOSTS = b'"ManagedNode"'
_DELETED = b'"verb":"delete"}'
"""The end of the line of such a record: the verb is the last of the keys that a record can have."""


class ToldChains:
    """Reads the records about chains of hosts from the lines of a log while these pass by."""

    def __init__(self, host: str = "") -> None:
        self._host = host
        self._memory = ChainMemory()
        self.ends: list[AuditChain] = []
        """The ends that the host reported since a person last accepted a change of its chain."""

    def passing(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Return the same lines, after reading those about chains."""
        for line in lines:
            if _OF_CHAINS in line or (line.endswith(_DELETED) and _OF_HOSTS in line):
                with contextlib.suppress(BadRecord):  # the verifier names it
                    self._note(records.decode(line))
            yield line

    def _note(self, record: Record) -> None:
        self._memory.note((record,))
        if record.object.kind != MANAGED_NODES.kind or record.object.name != self._host:
            return
        entry = record.chain
        if entry is None or record.verb == ACCEPT:  # deleted, or accepted as another chain from here on
            self.ends = []
        elif entry.index >= 0:
            self.ends.append(AuditChain(entry.id, entry.index + 1, entry.digest, entry.first_kept))

    def compare(self, hosts: Iterable[tuple[ObjectId, SeenObject]], now: datetime) -> None:
        """Judge what hosts report now, too: the operator may not have seen it, or not have run."""
        for which, seen in hosts:
            self._memory.take(which, seen, now)

    def alarms(self) -> dict[str, Alarm]:
        """Return alarms, by host, about chains that contradict what was reported before."""
        return self._memory.alarms()
