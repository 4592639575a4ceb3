"""Who owns which fields: the entries of `metadata.managedFields`, decoded and encoded.

An updater is known by its name, API version and subresource; an applier keeps its identity when it
changes the API version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodemanager.kube import json_values
from nodemanager.kube.patching import field_sets
from nodemanager.kube.patching.field_sets import FieldSet

MAX_UPDATE_MANAGERS = 10
"""More entries of updates than this are merged, the oldest first."""
ANCIENT = "ancient-changes"
BEFORE_FIRST_APPLY = "before-first-apply"

Entry = dict[str, Any]

_UNMANAGED_METADATA = (
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
    "resourceVersion",
)  # fmt: skip
UNMANAGED = FieldSet.of(
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(("f:metadata", field_sets.field(name)) for name in _UNMANAGED_METADATA),
)
"""Fields that identify an object or belong to the server, so that clients cannot own them."""


@dataclass(frozen=True, slots=True, order=True)
class ManagerIdentity:
    """What makes two entries the same entry; `api_version` is empty for appliers."""

    manager: str
    operation: str
    api_version: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        """Return the text that Kubernetes sorts identities by."""
        named = {"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version}
        parts = [(name, value) for name, value in named.items() if value]
        if self.subresource:
            parts.append(("subresource", self.subresource))
        return "{" + ",".join(f'"{name}":{json_values.compact(value)}' for name, value in parts) + "}"

    def describe(self) -> str:
        """Return how a conflict names this manager."""
        text = json_values.compact(self.manager)
        if self.subresource:
            text += f" with subresource {json_values.compact(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


@dataclass(frozen=True, slots=True)
class ManagerFields:
    """The fields of one manager, the version they are written in, and when they changed last."""

    fields: FieldSet
    api_version: str
    time: str = ""


@dataclass(slots=True)
class Managers:
    """All managers of one object."""

    owned: dict[ManagerIdentity, ManagerFields] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.owned)

    def keep(self, identity: ManagerIdentity, fields: FieldSet) -> None:
        """Set the fields of a known manager; a manager without fields is removed."""
        if fields:
            self.owned[identity] = replace(self.owned[identity], fields=fields)
        else:
            del self.owned[identity]

    def cap(self) -> None:
        """Merge the oldest updaters, one bucket per API version, until few enough are left."""
        updaters = [identity for identity in self.owned if identity.operation == "Update"]
        updaters.sort(key=lambda identity: (self.owned[identity].time, str(identity)))
        surplus = len(updaters) - MAX_UPDATE_MANAGERS
        first: dict[str, ManagerIdentity] = {}
        for identity in updaters:
            if surplus <= 0:
                return
            version = self.owned[identity].api_version
            if version not in first:
                first[version] = identity
                continue
            bucket = ManagerIdentity(ANCIENT, "Update", version)
            if bucket not in self.owned:
                self.owned[bucket] = self.owned.pop(first[version])
            merged = self.owned.pop(identity)
            fields = merged.fields.union(self.owned[bucket].fields)
            self.owned[bucket] = replace(merged, fields=fields)
            surplus -= 1

    def encode(self) -> list[Entry]:
        """Return the entries in Kubernetes' order: appliers first, then by time and name."""
        found = sorted(
            self.owned.items(),
            key=lambda pair: (
                pair[0].operation,
                pair[1].time,
                pair[0].manager,
                pair[1].api_version,
                pair[0].subresource,
            ),
        )
        return [_entry(identity, owned) for identity, owned in found]


def _entry(identity: ManagerIdentity, owned: ManagerFields) -> Entry:
    entry: Entry = {"manager": identity.manager, "operation": identity.operation}
    entry["apiVersion"] = owned.api_version
    if owned.time:
        entry["time"] = owned.time
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": owned.fields.encode()}
    if identity.subresource:
        entry["subresource"] = identity.subresource
    return entry


def decode(entries: Any) -> Managers:
    """Return the managers that entries name, or raise ValueError in Kubernetes' words."""
    managers = Managers()
    for index, entry in enumerate(entries if isinstance(entries, list) else [entries]):
        if not isinstance(entry, Mapping) or entry.get("operation") not in ("Apply", "Update"):
            raise ValueError("operation must be `Apply` or `Update`")
        version = entry.get("apiVersion") or ""
        if not version:
            raise ValueError("apiVersion must not be empty")
        kind = entry.get("fieldsType") or ""
        if not kind:
            raise ValueError(f"missing fieldsType in managed fields entry {index}")
        if kind != "FieldsV1":
            raise ValueError(f'invalid fieldsType "{kind}" in managed fields entry {index}')
        applied = entry["operation"] == "Apply"
        identity = ManagerIdentity(
            str(entry.get("manager") or ""),
            entry["operation"],
            "" if applied else version,
            str(entry.get("subresource") or ""),
        )
        fields = FieldSet.decode(entry.get("fieldsV1") or {})
        managers.owned[identity] = ManagerFields(fields, version, str(entry.get("time") or ""))
    return managers


def is_reset(entries: Any) -> bool:
    """Whether the writer asks to forget all managers: `[]`, or one empty entry."""
    if not isinstance(entries, list) or len(entries) > 1:
        return False
    return not entries or (isinstance(entries[0], Mapping) and not any(entries[0].values()))


def without_entries(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without its managedFields, which have no owner; inner values are not copied."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping):
        return dict(obj)
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def entries_of(obj: Mapping[str, Any]) -> Any:
    """Return the managedFields of an object as they are written, or nothing."""
    metadata = obj.get("metadata")
    return metadata.get("managedFields") if isinstance(metadata, Mapping) else None
