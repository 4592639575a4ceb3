"""Times with microseconds, in the built-in kinds that have them.

Clients in Go read these fields with exactly six digits or not at all: one lease with another form, once
stored, would stop every elector that reads it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from nodemanager.kube.objects import Untyped
from nodemanager.server.kinds.resources import ServedKind

_FIELDS = {
    "leases": (("spec", "acquireTime"), ("spec", "renewTime")),
    "events": (("", "eventTime"), ("series", "lastObservedTime")),
}
_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_ZONED = re.compile(r"\.\d{6}(Z|[+-]\d\d:\d\d)")
_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"


def normalize(kind: ServedKind, obj: Untyped) -> str:
    """Write the times of an object in UTC; return why one cannot be decoded, or nothing."""
    for part, field in _FIELDS.get(kind.plural, ()):
        holder = obj.get(part) if part else obj
        text = holder.get(field) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and isinstance(text, str):
            rest = text[len(start.group()) :] if (start := _SECONDS.match(text)) else None
            if rest is not None and _ZONED.fullmatch(rest) is None:
                return f'parsing time "{text}" as "{_LAYOUT}": cannot parse "{rest}" as ".000000"'
            holder[field] = _normalized(text)
    return ""


def _normalized(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return text  # no time at all: the form of the kind says so
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
