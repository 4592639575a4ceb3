"""Built-in kinds as Kubernetes writes them: null, empty and missing fields in Go's structures.

A custom object is kept as it was sent. A built-in one goes through a structure with a place for every
field: null means "not given", what is empty is left out unless the field is always written, and a
structure within a structure is there even if nobody sent it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any

from nodemanager.kube import json_values
from nodemanager.kube.schemas.formats import STRING_FORMATS
from nodemanager.server.kinds import builtin_schemas
from nodemanager.server.kinds.schemas.notation import Schema


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TIMES = ("Time", "MicroTime")
_OPEN = {"Quantity": "quantity", "IntOrString": "either"}
_KEPT = ("FieldsV1", "RawExtension", "JSON", "JSONSchemaProps")
_VALUES = _words(
    """
    Namespace.spec Namespace.status Event.involvedObject Event.source Event.regarding Event.deprecatedSource
    Node.spec Node.status NodeStatus.daemonEndpoints NodeStatus.nodeInfo NodeDaemonEndpoints.kubeletEndpoint
    Pod.spec Pod.status Container.resources ContainerStatus.state ContainerStatus.lastState Lease.spec
    PodDisruptionBudget.spec PodDisruptionBudget.status RoleBinding.roleRef ClusterRoleBinding.roleRef
    """
)
"""Structures within structures; all others may be missing."""
_ALWAYS = _words(
    """
    Role.rules ClusterRole.rules Event.reportingComponent Event.reportingInstance Event.firstTimestamp
    Event.lastTimestamp Event.eventTime Event.deprecatedFirstTimestamp Event.deprecatedLastTimestamp
    NodeCondition.lastHeartbeatTime NodeCondition.lastTransitionTime NamespaceCondition.lastTransitionTime
    PodCondition.lastProbeTime PodCondition.lastTransitionTime
    PodDisruptionBudgetStatus.disruptionsAllowed PodDisruptionBudgetStatus.currentHealthy
    PodDisruptionBudgetStatus.desiredHealthy PodDisruptionBudgetStatus.expectedPods
    """
)
"""Fields that are written even if they are empty, although a client need not send them."""
_TEXTS = _words(
    """
    LeaseSpec.holderIdentity LeaseSpec.strategy LeaseSpec.preferredHolder
    PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy PodSpec.runtimeClassName PodSpec.preemptionPolicy
    PodSpec.hostnameOverride
    """
)
"""Texts that may be empty: they are pointers."""
_PLAIN = _words(
    """
    Event.count Event.deprecatedCount EventSeries.count ContainerPort.hostPort Probe.initialDelaySeconds
    Probe.timeoutSeconds Probe.periodSeconds Probe.successThreshold Probe.failureThreshold
    PodCondition.observedGeneration PodStatus.observedGeneration Condition.observedGeneration
    PodDisruptionBudgetStatus.observedGeneration ContainerImage.sizeBytes NodeSpec.unschedulable
    PodSpec.hostNetwork PodSpec.hostPID PodSpec.hostIPC Container.stdin Container.stdinOnce Container.tty
    VolumeMount.readOnly
    """
)
"""Numbers and booleans that are no pointers: zero and false are the same as missing."""


class NormalForm(Enum):
    """The forms that a built-in object takes on its way to the store."""

    SENT = "sent"
    """As decoded: inside of lists with one owner, an empty list is not the same as none."""
    CHECKED = "checked"
    STORED = "stored"
    """As stored: an empty list is the same as none."""


@dataclass(slots=True)
class GoType:
    """How one part of an object is written."""

    sort: str
    """struct, list, map, text, bytes, number, flag, time, quantity, either (number or text), or any."""
    fields: dict[str, tuple[GoType, str]] = field(default_factory=dict)
    """The fields of a structure, each always, plain (left out when empty) or pointer."""
    items: GoType | None = None
    is_whole: bool = False
    """Whether it is a list that has one owner with everything inside (an atomic list)."""

    def zero(self) -> Any:
        """Return what is written where nothing was given."""
        if self.sort == "struct":
            return self.normalised({})
        return {"text": "", "bytes": "", "quantity": "0", "number": 0, "flag": False}.get(self.sort)

    def misfit(self, value: Any, path: str = "") -> str:
        """Return why a value cannot be decoded, or nothing."""
        if value is None:
            return ""
        if not _FITS[self.sort](value):
            return f"{path}: cannot read a {json_values.json_type(value)} as {self.sort}"
        dot = f"{path}." if path else ""
        inner: Iterable[tuple[str, Any, GoType | None]] = ()
        if self.sort == "struct":
            inner = ((dot + key, item, self.fields.get(key, (None,))[0]) for key, item in value.items())
        elif self.sort == "map":
            inner = ((dot + key, item, self.items) for key, item in value.items())
        elif self.sort == "list":
            inner = ((f"{path}[{index}]", item, self.items) for index, item in enumerate(value))
        faults = (form.misfit(item, where) for where, item, form in inner if form is not None)
        return next((fault for fault in faults if fault), "")

    def normalised(self, value: Any, stage: NormalForm = NormalForm.CHECKED, *, inside: bool = False) -> Any:
        """Return a value as it is written; a value of another type is left to the check of types.

        `inside` = it is in an atomic list, where empty fields stay until owners are recorded.
        """
        if self.sort == "bytes":
            return _bytes(value)
        if self.sort == "quantity" and _is_number(value):
            return str(value)
        inside = inside or self.is_whole
        if self.sort == "struct" and isinstance(value, dict):
            return self._struct(value, stage, inside)
        if self.items is not None and isinstance(value, list if self.sort == "list" else dict):
            form = self.items
            if isinstance(value, list):
                return [form.given(item, stage, inside) for item in value]
            return {key: form.given(item, stage, inside) for key, item in value.items()}
        return value

    def given(self, value: Any, stage: NormalForm, inside: bool) -> Any:
        """Return an item of a list or map, where null is the zero value."""
        return self.zero() if value is None else self.normalised(value, stage, inside=inside)

    def _struct(self, value: dict[str, Any], stage: NormalForm, inside: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        keeps_empty = inside and stage is NormalForm.SENT
        for name, item in value.items():
            form, presence = self.fields.get(name, (_ANY, "pointer"))
            written = form.normalised(item, stage, inside=inside)
            is_empty = written in ([], {}) and form.sort != "struct"
            if stage is NormalForm.STORED and presence == "always" and is_empty:
                found[name] = None
            elif presence == "always" or (keeps_empty and is_empty) or not _left_out(written, form, presence):
                found[name] = written
        for name, (form, presence) in self.fields.items():
            if presence == "always" and found.get(name) is None:
                found[name] = form.zero()
        return found


_ANY = GoType("any")
_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+|[KMGTPE]i|[numkMGTPE])?")


def _is_bytes(value: Any) -> bool:
    if value == []:
        return True  # Go would read a list of numbers as bytes, too; no client writes that
    try:
        return isinstance(value, str) and base64.b64decode(_without_breaks(value), validate=True) is not None
    except binascii.Error:
        return False


def _bytes(value: Any) -> Any:
    """Return base64 as Go writes it: in one line, whatever lines it was read from."""
    if value == []:
        return ""
    if not isinstance(value, str) or not _is_bytes(value):
        return value  # left to the check of types
    return base64.b64encode(base64.b64decode(_without_breaks(value))).decode()


def _without_breaks(value: str) -> str:
    return value.replace("\n", "").replace("\r", "")


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_quantity(value: Any) -> bool:
    return _is_number(value) or isinstance(value, float) or _QUANTITY.fullmatch(str(value)) is not None


_FITS: dict[str, Callable[[Any], bool]] = {
    "any": lambda _: True,
    "struct": lambda value: isinstance(value, dict),
    "map": lambda value: isinstance(value, dict),
    "list": lambda value: isinstance(value, list),
    "text": lambda value: isinstance(value, str),
    "bytes": _is_bytes,
    "number": _is_number,
    "flag": lambda value: isinstance(value, bool),
    "time": lambda value: isinstance(value, str) and STRING_FORMATS["datetime"](value),
    "quantity": lambda value: not isinstance(value, bool | list | dict) and _is_quantity(value),
    "either": lambda value: isinstance(value, str) or _is_number(value),
}


def _left_out(value: Any, form: GoType, presence: str) -> bool:
    if value is None:
        return True
    if form.sort in ("list", "map"):
        return value in ([], {})
    return presence == "plain" and form.sort != "struct" and value in ("", 0, False)


@cache
def go_type(group: str, version: str, kind: str) -> GoType | None:
    """Return how a built-in kind is written, or None where it is kept as it was sent."""
    name = builtin_schemas.definition_name(group, version, kind)
    return None if name is None or group == "apiextensions.k8s.io" else _definition(name, ())


def _definition(name: str, above: tuple[str, ...]) -> GoType:
    short = name.rpartition(".")[2]
    if short in _TIMES:
        return GoType("time")
    if short in _OPEN:
        return GoType(_OPEN[short])
    if short in _KEPT or name in above:
        return _ANY
    schema = builtin_schemas.definitions()[name]
    form = GoType("struct")
    for key, inner in schema.get("properties", {}).items():
        required = key in schema.get("required", ())
        form.fields[key] = _field(inner, f"{short}.{key}", required, (*above, name))
    return form


def _field(schema: Schema, path: str, required: bool, above: tuple[str, ...]) -> tuple[GoType, str]:
    form = _type_of(schema, above)
    key = path.rpartition(".")[2]
    if path.endswith((".apiVersion", ".kind", ".metadata")) and form.sort != "struct" and not required:
        return form, "plain"
    if key == "metadata" and len(above) == 1:
        return _ANY, "pointer"  # has rules of its own
    if "io.k8s.api.events.v1.Event" in above[:1] and path in ("Event.reportingInstance", "Event.eventTime"):
        return form, "always" if key == "eventTime" else "plain"
    if required or path in _ALWAYS or (form.sort == "struct" and path in _VALUES):
        return form, "always"
    if form.sort == "text":
        return form, "pointer" if path in _TEXTS else "plain"
    if form.sort in ("number", "flag"):
        return form, "plain" if path in _PLAIN else "pointer"
    return form, "pointer"


def _type_of(schema: Schema, above: tuple[str, ...]) -> GoType:
    target = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ())), None)
    if target is not None:
        return _definition(str(target).rpartition("/")[2], above)
    match schema.get("type"):
        case "array":
            is_whole = schema.get("x-kubernetes-list-type", "atomic") == "atomic"
            return GoType("list", items=_type_of(schema["items"], above), is_whole=is_whole)
        case "object" if "additionalProperties" in schema:
            return GoType("map", items=_type_of(schema["additionalProperties"], above))
        case "string":
            return GoType("bytes" if schema.get("format") == "byte" else "text")
        case "integer" | "number":
            return GoType("number")
        case "boolean":
            return GoType("flag")
    return _ANY
