"""Objects as the store keeps them: JSON without resourceVersion, which is the record's revision."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from nodemanager.kube.objects import Untyped
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.store.base import StoreRecord

_EVENTS = "events.k8s.io"
OLDER_EVENT_NAMES = {
    "regarding": "involvedObject", "note": "message", "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp", "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count", "reportingController": "reportingComponent",
}  # fmt: skip
"""Fields of an Event of events.k8s.io, and what the core group calls them: so they are stored."""
_BACK = {theirs: ours for ours, theirs in OLDER_EVENT_NAMES.items()}


def load(kind: ServedKind, record: StoreRecord) -> Untyped:
    """Return the object of a record, as that version of its kind shows it."""
    obj: Untyped = msgspec.json.decode(record.value)
    obj["metadata"]["resourceVersion"] = str(record.revision)
    if kind.group == _EVENTS:
        obj = {_BACK.get(key, key): value for key, value in obj.items()}
    return {**obj, "apiVersion": kind.api_version, "kind": kind.kind}


def item(kind: ServedKind, record: StoreRecord) -> Untyped:
    """Return an object as an item of a list; a list of a built-in kind says what its items are."""
    obj = load(kind, record)
    return obj if kind.custom else {key: obj[key] for key in obj if key not in ("apiVersion", "kind")}


def text(kind: ServedKind, record: StoreRecord) -> msgspec.Raw:
    """Return the JSON of what `load` returns, where possible without reading the value."""
    found = _spliced(kind, record, _head(kind.api_version, kind.kind))
    return msgspec.Raw(msgspec.json.encode(load(kind, record))) if found is None else found


def item_text(kind: ServedKind, record: StoreRecord) -> msgspec.Raw:
    """Return the JSON of what `item` returns, where possible without reading the value."""
    head = _head(kind.api_version, kind.kind) if kind.custom else b'{"metadata":{'
    found = _spliced(kind, record, head)
    return msgspec.Raw(msgspec.json.encode(item(kind, record))) if found is None else found


def _spliced(kind: ServedKind, record: StoreRecord, beginning: bytes) -> msgspec.Raw | None:
    """Return the stored text with another beginning and the resourceVersion put in.

    None when the text is not of the version that was asked for.
    """
    head, value = _head(kind.api_version, kind.kind), record.value
    if not value.startswith(head) or value[len(head) : len(head) + 1] != b'"':
        return None
    return msgspec.Raw(b'%b"resourceVersion":"%d",%b' % (beginning, record.revision, value[len(head) :]))


@lru_cache(maxsize=1024)
def _head(api_version: str, kind: str) -> bytes:
    """Return how the text of every object of a kind begins, up to its first field of metadata."""
    encoded = msgspec.json.encode({"apiVersion": api_version, "kind": kind, "metadata": {}})
    return encoded.removesuffix(b"}}")


def dump(kind: ServedKind, obj: Untyped) -> bytes:
    """Return the bytes to keep of an object; they begin as `text` expects."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    first = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}
    kept = {**first, **obj, "metadata": meta}
    if kind.group == _EVENTS:  # both groups of events share one place; the core form is what is kept
        kept = {OLDER_EVENT_NAMES.get(key, key): value for key, value in kept.items()}
        kept["apiVersion"] = "v1"
    return msgspec.json.encode(kept)


def metadata_of(obj: Untyped) -> Untyped:
    """Return the PartialObjectMetadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata", {}),
    }


def list_meta(body: Untyped) -> Untyped:
    """Return the metadata of a list in a form of its own, where an empty token is left out."""
    return {key: value for key, value in body["metadata"].items() if key != "continue" or value}


def at_path(obj: Any, path: str) -> Any:
    """Return the value at a dotted path such as `spec.nodeName`, or None."""
    for step in path.strip(".").split("."):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(step)
    return obj
