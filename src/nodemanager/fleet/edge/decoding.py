"""What a DaemonSet left in the API, decoded: known words are recognised, others are kept as they are. Pure.

The decoder guesses nothing. It reports a part that cannot be read, with the reason, and uses none of it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nodemanager.api.edge.bridge_parts import OPAQUE, RFC3339, UNIX, HeartbeatSource, StateSource
from nodemanager.api.edge.edgecluster import RAW_MAX
from nodemanager.fleet.edge.facts import MAX_VALUE
from nodemanager.kube import times, wording
from nodemanager.kube.object_names import MAX as NAME_MAX


class UnreadableText(Exception):
    """A text is not what the profile says; the message says why."""


@dataclass(frozen=True, slots=True)
class DecodedState:
    """A state by its name; `number` counts from 1, 0 = the name is not in the profile."""

    raw: str
    number: int
    direction: str = ""
    lock_holder: str = ""
    goes_back: bool = False


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat of a node."""

    digest: str
    at: datetime | None
    """The time of the heartbeat by its host's clock; None = it has none."""


def state(source: StateSource, states: list[str], text: str) -> DecodedState:
    """Return the state that a text names, or raise UnreadableText."""
    fields = _object(text) if source.field else {}
    name = _word(fields, source.field) if source.field else _bounded(text).strip()
    if not name:
        raise UnreadableText("it names no state")
    direction = _word(fields, source.direction_field) if source.direction_field else ""
    return DecodedState(
        raw=printable(name),
        number=states.index(name) + 1 if name in states else 0,
        direction=printable(direction, 63),
        lock_holder=printable(_word(fields, source.lock_field), NAME_MAX) if source.lock_field else "",
        goes_back=direction in source.rollback,
    )


def beat(source: HeartbeatSource, text: str) -> Beat:
    """Return the heartbeat in a text, or raise UnreadableText."""
    value = _word(_object(text), source.field) if source.field else _bounded(text).strip()
    if not value:
        raise UnreadableText("it has no time")
    return Beat(digest(value), None if source.format == OPAQUE else _time(source.format, value))


def digest(text: str) -> str:
    """Return a digest that differs for different texts."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def printable(text: str, longest: int = RAW_MAX) -> str:
    """Return a text of others as a status may have it: short, on one line, without control characters."""
    return "".join(one if one.isprintable() else "?" for one in text[:longest])


def _bounded(text: str) -> str:
    if len(text) > MAX_VALUE:
        raise UnreadableText(f"it is longer than {MAX_VALUE} characters")
    return text


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(_bounded(text), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise UnreadableText(f"it is no JSON: {wording.shorten_bytes(str(error), 200)}") from error
    if not isinstance(found, dict):
        raise UnreadableText("it is no JSON object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that has one key twice, as it is unclear which value is meant."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _word(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name, "")
    if value is None:  # programs write this when no holder has the lock
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UnreadableText(f"its field {name} is neither a text nor a number")
    return str(value)


def _time(form: str, value: str) -> datetime:
    try:
        if form == RFC3339:
            found = times.parse(value)
            if found is None:
                raise ValueError("it is no time of RFC 3339")
            return found.astimezone(UTC)  # a time of the year 9999 may have none
        return datetime.fromtimestamp(float(value) / (1 if form == UNIX else 1000), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise UnreadableText(f"{printable(value, 40)!r} is no time ({form})") from error
