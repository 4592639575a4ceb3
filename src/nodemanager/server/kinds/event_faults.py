"""What is wrong with Events, as Kubernetes judges them: little in the older form, more in the newer.

An Event with `eventTime` is one of the newer form, whichever way it came. What is written through
events.k8s.io must have it, and nothing of the older form.
"""

from __future__ import annotations

from typing import Any, Final

from nodemanager.kube.core import MAX_EVENT_MESSAGE
from nodemanager.kube.errors import Cause
from nodemanager.kube.objects import Untyped
from nodemanager.server.http.refusals import value_invalid, value_required
from nodemanager.server.verbs.metadata import key_faults
from nodemanager.server.verbs.stored import OLDER_EVENT_NAMES

_NEWER: Final = "events.k8s.io/v1"
_MAX_WORD: Final = 128
_FIXED: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type",
    "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip
"""What an update through the newer API may not change, in the order in which Kubernetes complains."""


def event_faults(obj: Untyped, old: Untyped | None) -> list[Cause]:
    """Return what is wrong with an Event."""
    newer, event = obj.get("apiVersion") == _NEWER, _older_form(obj)
    controller = "reportingController" if newer else "reportingComponent"
    found = _reported(event, controller) if event.get("eventTime") else _about(event, ("", "default"))
    if not newer:
        return found
    return found + (_new(event) if old is None else _changed(event, _older_form(old)))


def _older_form(event: Untyped) -> Untyped:
    return {OLDER_EVENT_NAMES.get(key, key): value for key, value in event.items()}


def _about(event: Untyped, without: tuple[str, ...]) -> list[Cause]:
    """Judge the namespace of what an Event is about; `without` are those where it may have none."""
    place, own = (
        (event.get("involvedObject") or {}).get("namespace", ""),
        event["metadata"].get("namespace", ""),
    )
    if place == own or (not place and own in without):
        return []
    return [value_invalid("involvedObject.namespace", place, "does not match event.namespace")]


def _reported(event: Untyped, controller: str) -> list[Cause]:
    place = (event.get("involvedObject") or {}).get("namespace", "")
    found = [] if place else _about(event, ("default", "kube-system"))
    name = event.get("reportingComponent") or ""
    found += [] if name else [value_required(controller)]
    found += [value_invalid(controller, name, why) for why in key_faults(name)]
    for field in ("reportingInstance", "action", "reason"):
        text = event.get(field) or ""
        found += [] if text else [value_required(field)]
        found += _too_long(field, text, _MAX_WORD)
    return found + _too_long("message", event.get("message") or "", MAX_EVENT_MESSAGE)


def _too_long(field: str, text: str, limit: int) -> list[Cause]:
    if len(text.encode("utf-8", "surrogatepass")) <= limit:
        return []
    return [value_invalid(field, "", f"can have at most {limit} characters")]


def _new(event: Untyped) -> list[Cause]:
    found = _series(event)
    if not event.get("eventTime"):
        found.append(value_required("eventTime"))
    kind = event.get("type") or ""
    if kind not in ("Normal", "Warning"):
        found.append(value_invalid("type", "", f"has invalid value: {kind}"))
    set_ = [
        field for field in ("firstTimestamp", "lastTimestamp", "count", "source") if _is_set(event.get(field))
    ]
    return found + [value_invalid(field, "", "needs to be unset") for field in set_]


def _is_set(value: Any) -> bool:
    return any(value.values()) if isinstance(value, dict) else bool(value)


def _series(event: Untyped) -> list[Cause]:
    series, found = event.get("series"), []
    if series is None:
        return []
    if (series.get("count") or 0) < 2:
        found.append(value_invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        found.append(value_required("series.lastObservedTime"))
    return found


def _changed(event: Untyped, old: Untyped) -> list[Cause]:
    found = _series(event) if event.get("series") != old.get("series") else []
    for field in _FIXED:
        now, was = event.get(field), old.get(field)
        if now != was and (_is_set(now) or _is_set(was)):
            name = "reportingController" if field == "reportingComponent" else field
            found.append(value_invalid(name, now, "field is immutable"))
    return found
