"""Times as Kubernetes writes them, RFC 3339 in UTC; and spans of time as kubectl does."""

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


def parse(text: str | None) -> datetime | None:
    """Return a moment that others wrote; None = it is none, though an API may have taken it for one."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def human_duration(seconds: float) -> str:
    """Return a duration in the two or fewer units that matter, as kubectl does: 90s, 5m30s, 3d4h, 2y."""
    whole = int(seconds)
    if whole < 0:  # a clock that is a second ahead is no reason for an alarm
        return "0s" if whole == -1 else "<invalid>"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    steps = (
        (whole < 120, (whole, "s"), (0, "")),
        (minutes < 10, (minutes, "m"), (whole % 60, "s")),
        (minutes < 180, (minutes, "m"), (0, "")),
        (hours < 8, (hours, "h"), (minutes % 60, "m")),
        (hours < 48, (hours, "h"), (0, "")),
        (days < 8, (days, "d"), (hours % 24, "h")),
        (days < 730, (days, "d"), (0, "")),
        (days < 2920, (days // 365, "y"), (days % 365, "d")),
        (True, (days // 365, "y"), (0, "")),
    )
    (large, unit), (small, smaller) = next(step[1:] for step in steps if step[0])
    return f"{large}{unit}{small}{smaller}" if small else f"{large}{unit}"
