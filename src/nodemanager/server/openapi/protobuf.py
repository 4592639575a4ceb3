"""Kubernetes' protobuf, as far as kubectl sends it: read into plain objects, never written.

kubectl's `create` subcommands send built-in kinds in this form and take JSON in return. The tables
below are the field numbers of those kinds; a field that is not in them is refused, not dropped.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from nodemanager.kube import times
from nodemanager.kube.objects import Untyped

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
MAX_DEPTH = 32
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_META = "1 metadata ObjectMeta"
_SUBJECTS = f"{_META}, 2 subjects *Subject, 3 roleRef RoleRef"
_QUESTION = "1 resourceAttributes ResourceAttributes, 2 nonResourceAttributes NonResourceAttributes"

# Each field: its number, its name, its type. s text, b bytes, i integer, t truth; * many, { a map.
_MESSAGES = {
    "Unknown": "1 typeMeta TypeMeta, 2 raw raw, 3 contentEncoding s, 4 contentType s",
    "TypeMeta": "1 apiVersion s, 2 kind s",
    "ObjectMeta": "1 name s, 2 generateName s, 3 namespace s, 4 selfLink s, 5 uid s, 6 resourceVersion s, "
    "7 generation z, 8 creationTimestamp Time, 9 deletionTimestamp Time, 10 deletionGracePeriodSeconds i, "
    "11 labels {s, 12 annotations {s, 13 ownerReferences *OwnerReference, 14 finalizers *s, "
    "17 managedFields *ManagedFieldsEntry",
    "OwnerReference": "5 apiVersion s, 1 kind s, 3 name s, 4 uid s, 6 controller t, 7 blockOwnerDeletion t",
    "ManagedFieldsEntry": "1 manager s, 2 operation s, 3 apiVersion s, 4 time Time, 6 fieldsType s, "
    "7 fieldsV1 FieldsV1, 8 subresource s",
    "DeleteOptions": "1 gracePeriodSeconds i, 2 preconditions Preconditions, 3 orphanDependents t, "
    "4 propagationPolicy s, 5 dryRun *s, 6 ignoreStoreReadErrorWithClusterBreakingPotential t",
    "Preconditions": "1 uid s, 2 resourceVersion s",
    "LabelSelector": "1 matchLabels {s, 2 matchExpressions *LabelSelectorRequirement",
    "LabelSelectorRequirement": "1 key s, 2 operator s, 3 values *s",
    "Namespace": f"{_META}, 2 spec NamespaceSpec, 3 status NamespaceStatus",
    "NamespaceSpec": "1 finalizers *s",
    "NamespaceStatus": "1 phase s",
    "ConfigMap": f"{_META}, 2 data {{s, 3 binaryData {{b, 4 immutable t",
    "Secret": f"{_META}, 2 data {{b, 3 type s, 4 stringData {{s, 5 immutable t",
    "ServiceAccount": f"{_META}, 2 secrets *ObjectReference, 3 imagePullSecrets *LocalObjectReference, "
    "4 automountServiceAccountToken t",
    "ObjectReference": "1 kind s, 2 namespace s, 3 name s, 4 uid s, 5 apiVersion s, 6 resourceVersion s, "
    "7 fieldPath s",
    "LocalObjectReference": "1 name s",
    "Role": f"{_META}, 2 rules *PolicyRule",
    "ClusterRole": f"{_META}, 2 rules *PolicyRule, 3 aggregationRule AggregationRule",
    "AggregationRule": "1 clusterRoleSelectors *LabelSelector",
    "PolicyRule": "1 verbs *s, 2 apiGroups *s, 3 resources *s, 4 resourceNames *s, 5 nonResourceURLs *s",
    "RoleBinding": _SUBJECTS,
    "ClusterRoleBinding": _SUBJECTS,
    "Subject": "1 kind s, 2 apiGroup s, 3 name s, 4 namespace s",
    "RoleRef": "1 apiGroup s, 2 kind s, 3 name s",
    "Lease": f"{_META}, 2 spec LeaseSpec",
    "LeaseSpec": "1 holderIdentity s, 2 leaseDurationSeconds i, 3 acquireTime MicroTime, "
    "4 renewTime MicroTime, 5 leaseTransitions i, 6 strategy s, 7 preferredHolder s",
    "PodDisruptionBudget": f"{_META}, 2 spec PodDisruptionBudgetSpec, 3 status PodDisruptionBudgetStatus",
    "PodDisruptionBudgetSpec": "1 minAvailable IntOrString, 2 selector LabelSelector, "
    "3 maxUnavailable IntOrString, 4 unhealthyPodEvictionPolicy s",
    "PodDisruptionBudgetStatus": "1 observedGeneration i, 3 disruptionsAllowed i, 4 currentHealthy i, "
    "5 desiredHealthy i, 6 expectedPods i",
    "TokenRequest": f"{_META}, 2 spec TokenRequestSpec, 3 status Nothing",
    "TokenRequestSpec": "1 audiences *s, 3 boundObjectRef BoundObjectReference, 4 expirationSeconds i",
    "BoundObjectReference": "1 kind s, 2 apiVersion s, 3 name s, 4 uid s",
    "TokenReview": f"{_META}, 2 spec TokenReviewSpec, 3 status Nothing",
    "TokenReviewSpec": "1 token s, 2 audiences *s",
    "SelfSubjectReview": f"{_META}, 2 status Nothing",
    "SelfSubjectRulesReview": f"{_META}, 2 spec SelfSubjectRulesReviewSpec, 3 status Nothing",
    "SelfSubjectRulesReviewSpec": "1 namespace s",
    "SelfSubjectAccessReview": f"{_META}, 2 spec SelfSubjectAccessReviewSpec, 3 status Nothing",
    "SelfSubjectAccessReviewSpec": _QUESTION,
    "SubjectAccessReview": f"{_META}, 2 spec SubjectAccessReviewSpec, 3 status Nothing",
    "LocalSubjectAccessReview": f"{_META}, 2 spec SubjectAccessReviewSpec, 3 status Nothing",
    "SubjectAccessReviewSpec": f"{_QUESTION}, 3 user s, 4 groups *s, 5 extra {{ExtraValue, 6 uid s",
    "ResourceAttributes": "1 namespace s, 2 verb s, 3 group s, 4 version s, 5 resource s, 6 subresource s, "
    "7 name s, 8 fieldSelector SelectorAttributes, 9 labelSelector SelectorAttributes",
    "SelectorAttributes": "1 rawSelector s, 2 requirements *LabelSelectorRequirement",
    "NonResourceAttributes": "1 path s, 2 verb s",
    "ExtraValue": "1 items *s",
    "Eviction": f"{_META}, 2 deleteOptions DeleteOptions",
    "Nothing": "",
    "Time": "1 seconds i, 2 nanos i",
    "IntOrString": "1 type i, 2 intVal i, 3 strVal s",
    "FieldsV1": "1 raw raw",
}
_FIELDS: dict[str, dict[int, tuple[str, str]]] = {
    message: {
        int(number): (name, kind) for number, name, kind in (one.split() for one in text.split(", ") if one)
    }
    for message, text in _MESSAGES.items()
}


class UnreadKind(ValueError):
    """Protobuf of a kind that we have no table for."""


def decode(body: bytes) -> Untyped:
    """Return the object in a protobuf body; raise ValueError for what we cannot read."""
    if not body.startswith(MAGIC):
        raise ValueError("provided data does not appear to be a protobuf message")
    envelope = _message("Unknown", body[len(MAGIC) :], 0)
    named = envelope.get("typeMeta") or {}
    kind = named.get("kind", "")
    if not _MESSAGES.get(kind, "").startswith(_META) and kind != "DeleteOptions":
        raise UnreadKind(f"protobuf of kind {kind!r} is not read by this server; send JSON")
    return {**named, **_message(kind, envelope.get("raw", b""), 0)}


def _message(message: str, data: bytes, depth: int) -> Untyped:
    if depth > MAX_DEPTH:
        raise ValueError("protobuf is nested too deeply")
    found: Untyped = {}
    if message == "Nothing":  # a status: clients send an empty one, and it is not theirs to fill
        return found
    for number, wire, value in _fields(data):
        name, kind = _FIELDS[message].get(number, ("", ""))
        if not name:
            raise ValueError(f"protobuf field {number} of {message} is not known to this server; send JSON")
        if kind[0] == "*":
            found.setdefault(name, []).append(_value(kind[1:], wire, value, depth))
        elif kind[0] == "{":
            key, item = _entry(kind[1:], value, depth)
            found.setdefault(name, {})[key] = item
        else:
            found[name] = _value(kind, wire, value, depth)
    # Go writes empty strings and times where JSON leaves them out.
    return {name: value for name, value in found.items() if value not in ("", None)}


def _entry(kind: str, data: Any, depth: int) -> tuple[str, Any]:
    if not isinstance(data, bytes):
        raise ValueError("protobuf has a number where an entry of a map belongs")  # noqa: TRY004 - of the input
    key, item = "", _value(kind, _BYTES, b"", depth)
    for number, wire, value in _fields(data):
        if number == 1:
            key = _value("s", wire, value, depth)
        elif number == 2:
            item = _value(kind, wire, value, depth)
    return key, item


def _value(kind: str, wire: int, value: Any, depth: int) -> Any:
    if kind in ("i", "t", "z"):
        return _number(kind, wire, value)
    if wire != _BYTES:
        raise ValueError("protobuf has a number where bytes belong")
    match kind:
        case "s":
            return value.decode()
        case "b":
            return base64.b64encode(value).decode()
        case "raw":
            return value
        case "Time" | "MicroTime":
            return _time(_message("Time", value, depth + 1), micro=kind == "MicroTime")
        case "IntOrString":
            either = _message(kind, value, depth + 1)
            return either.get("strVal", "") if either.get("type") else either.get("intVal", 0)
        case "ExtraValue":  # a type of its own in Go, a plain list in JSON
            return _message(kind, value, depth + 1).get("items", [])
        case "FieldsV1":
            return msgspec.json.decode(_message(kind, value, depth + 1).get("raw", b"{}"))
    return _message(kind, value, depth + 1)


def _number(kind: str, wire: int, value: Any) -> int | bool | None:
    if wire != _VARINT:
        raise ValueError("protobuf has bytes where a number belongs")
    number: int = value - 2**64 if value >= 2**63 else value
    return bool(number) if kind == "t" else (number or None) if kind == "z" else number


def _time(parts: Untyped, *, micro: bool) -> str | None:
    seconds, nanos = parts.get("seconds", 0), parts.get("nanos", 0)
    if not parts or not 0 <= seconds < 2**34 or not 0 <= nanos < 10**9:
        return None
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
    return times.rfc3339_micro(moment) if micro else times.rfc3339(moment)


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and value of each field."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, wire, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire)
        if wire == _BYTES:
            size, position = _varint(data, position)
        if size is None or position + size > len(data):
            raise ValueError("protobuf ends in the middle of a field")
        yield number, wire, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise ValueError("protobuf ends in the middle of a number")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & (2**64 - 1), position
    raise ValueError("protobuf has a number that never ends")
