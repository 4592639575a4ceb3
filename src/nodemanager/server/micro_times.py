"""Times with microseconds, in the built-in kinds that have them.

Clients in Go read these fields with exactly six digits or not at all: one lease with another form, once
stored, would stop every elector that reads it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from nodemanager.api.objects import Untyped
from nodemanager.server import metadata
from nodemanager.server.resources import ServedKind

_FIELDS = {
    "leases": (("spec", "acquireTime"), ("spec", "renewTime")),
    "events": (("", "eventTime"), ("series", "lastObservedTime")),
}
_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_ZONED = re.compile(r"\.\d{6}(Z|[+-]\d\d:\d\d)")
_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"


def normalize(kind: ServedKind, obj: Untyped) -> None:
    """Write the times of an object in UTC, or refuse those that have no microseconds."""
    for part, field in _FIELDS.get(kind.plural, ()):
        holder = obj.get(part) if part else obj
        text = holder.get(field) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and isinstance(text, str):
            holder[field] = _normalized(kind, text)


def _normalized(kind: ServedKind, text: str) -> str:
    start = _SECONDS.match(text)
    if start is None:
        return text  # no time at all: the schema says so
    rest = text[start.end() :]
    if _ZONED.fullmatch(rest) is None:
        raise metadata.unfit(
            kind, f'parsing time "{text}" as "{_LAYOUT}": cannot parse "{rest}" as ".000000"'
        )
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return text  # the 31st of June, for example: the schema says so
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
