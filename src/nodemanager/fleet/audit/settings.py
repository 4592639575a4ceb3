"""What an operator is told about the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

STOP: Final = "stop"
CONTINUE: Final = "continue"


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """How the log is kept, and what follows when it cannot be."""

    on_failure: str = STOP
    """Whether maintenances and rollouts begin something new while the log is broken or behind."""
    retention: timedelta = timedelta(days=90)
    """How long a segment is kept in the API after there is a copy of it elsewhere."""
    export: str = ""
    """The folder or s3://BUCKET/PREFIX for the copy; empty = there is none, and nothing is ever removed."""
    most_bytes: int = 512 << 20
    """How much is stored without a copy; then nothing more is, for the database of a cluster is small."""
    gather: timedelta = timedelta(seconds=1)
    """How long after a write changes are gathered for the next one: in a busy fleet one write is for many."""
    webhook: str = ""
    """The Secret, or the folder, that says who is sent the records; empty = nobody is."""
