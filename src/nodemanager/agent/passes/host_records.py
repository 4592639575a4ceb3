"""Records on a host of what passes changed, so that it can be taken back."""

from __future__ import annotations

from dataclasses import dataclass, field

from nodemanager.host.files.bucket import Bucket
from nodemanager.host.state.journal import Journal
from nodemanager.host.state.ownership_ledger import OwnershipLedger
from nodemanager.host.state.state_lock import StateLock


@dataclass(eq=False, slots=True)
class HostRecords:
    """The records of one host, each of which may be missing."""

    bucket: Bucket | None = None
    """Where former contents of files are stored."""
    lock: StateLock | None = None
    """Taken with the first pass that may change something, and then kept."""
    ledger: OwnershipLedger | None = None
    """The record of what this host has because of ConfigSets; None = it is not kept."""
    replaced: dict[str, str] = field(default_factory=dict)
    """SHA-256 of what files contained before they were first replaced or removed, until a report takes it."""

    def take(self, journal: Journal, *, make: bool) -> None:
        """Make the state ours, as long as we live; raise if another process has it."""
        if self.lock is not None and self.lock.take(make=make):
            journal.reload()  # the process that had it before may have written there
            if self.ledger is not None:
                self.ledger.reload()
