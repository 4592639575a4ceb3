"""The settings of the operator for the audit log."""

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
    """Whether maintenances and rollouts may begin new work while the log is broken or behind."""
    retention: timedelta = timedelta(days=90)
    """How long a segment is kept in the API after there is a copy of it elsewhere."""
    export: str = ""
    """The folder or s3://BUCKET/PREFIX for the copy; empty = there is none, and no segment is ever removed.
    """
    most_bytes: int = 512 << 20
    """How much is stored without a copy; then the log stops, because the database of a cluster is small."""
    gather: timedelta = timedelta(seconds=1)
    """How long changes are collected after a write, so that a busy fleet needs one write for many changes."""
    webhook: str = ""
    """The Secret or folder that names the receiver of the records; empty = they are not sent."""
