"""Times as Kubernetes writes them: RFC 3339, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(moment: datetime) -> str:
    """Return a moment to the second, as a Time is written."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """Return a moment to the microsecond, as a MicroTime is written."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def rfc3339_unix(moment: float) -> str:
    """Return a moment of Unix time, to the second."""
    return rfc3339(datetime.fromtimestamp(moment, UTC))
