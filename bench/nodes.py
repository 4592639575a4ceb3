"""ManagedNodes as kube-apiserver sends them: keys in order, `managedFields` as it writes them, about 2 KB.

Everything follows from the number of the node and of its revision, so that the server and whoever
decodes the same bytes without a network need not exchange them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from nodemanager.api.common.managednode import MANAGED_NODES

_LIST_KEYS = {"conditions": "type", "configsets": "name"}
"""The lists whose items kube-apiserver tracks one by one; all others are owned as a whole."""
_ZONES = 20
_CREATED = "2026-03-02T08:15:30Z"
_encode = msgspec.json.Encoder(order="sorted").encode

Json = dict[str, Any]


def name(number: int) -> str:
    """Return the name of a node."""
    return f"edge-{number:05d}"


def node(number: int, revision: int = 1) -> Json:
    """Return one node at one revision."""
    status = _status(number, revision)
    labels = _labels(number)
    return {
        "apiVersion": MANAGED_NODES.api_version,
        "kind": MANAGED_NODES.kind,
        "metadata": {
            "creationTimestamp": _CREATED,
            "generation": 2,
            "labels": labels,
            "managedFields": _managed_fields(labels, status, _time(revision)),
            "name": name(number),
            "namespace": "nodemanager",
            "resourceVersion": str(resource_version(number, revision)),
            "uid": str(uuid.UUID(int=(number + 1) * 0x9E3779B97F4A7C15_F39CC0605CEDC835 % (1 << 128))),
        },
        "spec": _spec(number),
        "status": status,
    }


def wanted(number: int) -> bytes:
    """Return a node as somebody creates it."""
    return _encode({**_identity(number, labels=_labels(number)), "spec": _spec(number)})


def reported(number: int, revision: int) -> bytes:
    """Return the status of a node as its agent applies it."""
    return _encode({**_identity(number), "status": _status(number, revision)})


def _identity(number: int, **metadata: Any) -> Json:
    return {
        "apiVersion": MANAGED_NODES.api_version,
        "kind": MANAGED_NODES.kind,
        "metadata": {"name": name(number), **metadata},
    }


def resource_version(number: int, revision: int) -> int:
    """Return a version that is larger for every later event."""
    return 100_000 + revision * 100_000 + number


def listed(count: int) -> Iterator[bytes]:
    """Yield the JSON of the first revision of every node."""
    for number in range(count):
        yield _encode(node(number))


def initial_events(count: int) -> Iterator[bytes]:
    """Yield the beginning of a streamed list: one line per node and the closing bookmark."""
    for item in listed(count):
        yield _line("ADDED", item)
    yield bookmark(count)


def bookmark(count: int) -> bytes:
    """Return the line that ends the initial events."""
    obj = {
        "apiVersion": MANAGED_NODES.api_version,
        "kind": MANAGED_NODES.kind,
        "metadata": {
            "annotations": {"k8s.io/initial-events-end": "true"},
            "resourceVersion": str(resource_version(count, 1)),
        },
    }
    return _line("BOOKMARK", _encode(obj))


def changes(nodes: int, events: int) -> Iterator[bytes]:
    """Yield lines of modifications: every node once, then every node again."""
    for number in range(events):
        yield _line("MODIFIED", _encode(node(number % nodes, 2 + number // nodes)))


def _line(change: str, obj: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (change.encode(), obj)


def _labels(number: int) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": name(number),
        "nodemanager.io/os": "debian",
        "topology.kubernetes.io/zone": _zone(number),
    }


def _spec(number: int) -> Json:
    return {"domain": f"{_zone(number)}.example.net", "reconcilePeriod": "1h"}


def _zone(number: int) -> str:
    return f"site-{number % _ZONES:02d}"


def _time(revision: int) -> str:
    return f"2026-11-{1 + revision // 1440 % 28:02d}T{revision // 60 % 24:02d}:{revision % 60:02d}:12Z"


def _status(number: int, revision: int) -> Json:
    now = _time(revision)
    ready = f"1 ConfigSet with {38 + number % 7} resources holds"
    return {
        "agentVersion": "0.1.0",
        "conditions": [_condition("Ready", "True", "Applied", ready)],
        "configsets": [{"lastApplied": now, "name": "base", "resourceVersion": str(4812 + revision)}],
        "heartbeat": {"leaseName": f"nodemanager-{name(number)}"},
        "interfaces": {
            "eth0": {"ipv4": [f"10.{number >> 8}.{number & 255}.2"], "ipv6": [f"2001:db8:{number:x}::2"]}
        },
        "observedGeneration": 2,
        "release": "6.12.48-amd64",
        "sshHostKeys": [{"algorithm": 4, "fingerprint": f"{number:064x}", "fingerprintType": 2}],
    }


def _condition(type_: str, status: str, reason: str, message: str) -> Json:
    return {
        "lastTransitionTime": "2026-11-01T03:34:09Z",
        "message": message,
        "observedGeneration": 2,
        "reason": reason,
        "status": status,
        "type": type_,
    }


def _managed_fields(labels: Mapping[str, str], status: Json, time: str) -> list[Json]:
    people = {"f:metadata": {"f:labels": _owned(labels)}, "f:spec": {"f:domain": {}}}
    agent = {"f:status": {".": {}, **_owned(status)}}
    return [
        _manager("kubectl", "Apply", people, _CREATED),
        {**_manager("nodemanager", "Update", agent, time), "subresource": "status"},
    ]


def _manager(manager: str, operation: str, fields: Json, time: str) -> Json:
    return {
        "apiVersion": MANAGED_NODES.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "manager": manager,
        "operation": operation,
        "time": time,
    }


def _owned(fields: Mapping[str, Any]) -> Json:
    return {f"f:{key}": _owned_value(key, value) for key, value in fields.items()}


def _owned_value(key: str, value: object) -> Json:
    if isinstance(value, dict):
        return {".": {}, **_owned(value)}
    if isinstance(value, list) and key in _LIST_KEYS:
        by = _LIST_KEYS[key]
        return {
            ".": {},
            **{f'k:{{"{by}":"{item[by]}"}}': {".": {}, **_owned(item)} for item in value},
        }
    return {}
