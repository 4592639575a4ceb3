"""The data a template sees, in the shape that the Go project's manifests expect.

Its JSON writes `.Status.interfaces`, its documentation writes `.Status.Interfaces`: both are right
here. On objects whose field names we define, a name that does not exist as written is looked up
without regard to case, and a field that the agent left out for being empty reads as empty. Maps whose
keys users chose (labels, Secrets, ConfigMaps, interfaces by name) know exact keys only.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from nodemanager.api.common import reported
from nodemanager.api.common.managednode import (
    AppliedConfigSet,
    Drift,
    Heartbeat,
    Interface,
    ManagedNode,
    ManagedNodeSpec,
    ManagedNodeStatus,
    SSHHostKey,
    WireGuardSpec,
    WireGuardStatus,
)
from nodemanager.api.common.node_upgrades import Upgrade
from nodemanager.kube.conditions import Condition
from nodemanager.plan.templates.budget import DEPTH_MAX, Entries, Items, absent
from nodemanager.plan.templates.errors import TooMuch

_FREE_KEYS: Final[Mapping[str, str]] = {
    "labels": "in Labels",
    "configmaps": "in ConfigMaps: no ConfigMap of configMapRefs has this key",
    "secrets": "in Secrets: no Secret of secretRefs has this key",
    "interfaces": "in Interfaces",
    "filebackups": "in FileBackups",
}
"""Maps whose keys users chose, and what an error says about a missing key."""
_TYPES: Final[Mapping[str, type[msgspec.Struct]]] = {
    "status": ManagedNodeStatus,
    "interfaces": Interface,
    "sshhostkeys": SSHHostKey,
    "wireguard": WireGuardStatus,
    "configsets": AppliedConfigSet,
    "conditions": Condition,
    "drift": Drift,
    "heartbeat": Heartbeat,
    "spec": ManagedNodeSpec,
    "spec.upgrade": Upgrade,
    "spec.wireguard": WireGuardSpec,
}


_NO_DATA: Final = Entries(title="in Data")
"""What a template sees as `Data` of a host that has none; it is hidden from a listing of everything."""


class DefinedFields(Entries):
    """An object whose field names we define: found in any case, and empty when left out."""

    __slots__ = ("_folded", "_known")

    def __init__(self, entries: Mapping[str, Any], known: Mapping[str, Any]) -> None:
        super().__init__(entries)
        self._known = known
        self._folded: dict[str, list[str]] | None = None

    def find(self, name: str) -> Any:
        """Return the field as a template means it; raise KeyError if there is none."""
        if name in self:
            return self[name]
        if self._folded is None:
            self._folded = {}
            for key in self:
                self._folded.setdefault(key.lower(), []).append(key)
        spellings = self._folded.get(name.lower(), [])
        if len(spellings) == 1:
            return self[spellings[0]]
        return self._known[name.lower()]

    def __gotemplate_lookup__(self, name: str) -> Any:
        found = self.find(name)
        if found is not None:
            return found
        title = _FREE_KEYS.get(name.lower())
        return absent(name, self.title) if title is None else Entries(title=title)


@dataclass(frozen=True, slots=True)
class Data:
    """What a template may see: its own node, all nodes by name, and the data of its host."""

    node: Mapping[str, Any]
    nodes: Sequence[Mapping[str, Any]] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    hidden: Sequence[str] = ()
    """Texts among the values that are secret."""
    _digest: list[bytes] = field(default_factory=list, init=False, repr=False, compare=False)
    _root: list[DefinedFields] = field(default_factory=list, init=False, repr=False, compare=False)

    def root(self) -> DefinedFields:
        """Return the data as templates see it; made once."""
        if not self._root:
            seen = {"Node": _view(self.node, "node", 1), "Nodes": _view(self.nodes, "nodes", 1)}
            if self.values:
                seen["Data"] = _free(self.values, "Data", 1)
            self._root.append(DefinedFields(seen, {"data": _NO_DATA}))
        return self._root[0]

    def digest(self) -> bytes:
        """Return a hash of all of it; made once."""
        if not self._digest:
            encoded = msgspec.json.encode([self.node, self.nodes, self.values], order="sorted")
            self._digest.append(hashlib.sha256(encoded).digest())
        return self._digest[0]

    def secrets(self) -> Iterable[str]:
        """Return all secret texts, plain and in base64: what an error must not repeat."""
        yield from self.hidden
        for encoded in (self.node.get("Secrets") or {}).values():
            yield encoded
            try:
                yield base64.b64decode(encoded, validate=True).decode(errors="replace").strip()
            except ValueError:
                continue


def node_data(
    node: ManagedNode, *, secrets: Mapping[str, bytes] | None, config_maps: Mapping[str, str] | None
) -> Mapping[str, Any]:
    """Return what a template sees as `Node`; without secrets or ConfigMaps they are null."""
    encoded = (
        None
        if secrets is None
        else {key: base64.b64encode(value).decode() for key, value in sorted(secrets.items())}
    )
    return {
        **peer_data(node),
        "ConfigMaps": None if config_maps is None else dict(sorted(config_maps.items())),
        "Secrets": encoded,
        "Spec": msgspec.to_builtins(msgspec.structs.replace(node.spec, data={})),  # that is part of `Data`
    }


def peer_data(node: ManagedNode) -> Mapping[str, Any]:
    """Return what a template sees of a node in `Nodes`."""
    return {
        "Name": node.metadata.name,
        "Labels": dict(sorted(node.metadata.labels.items())) or None,
        "Status": reported.status_of_other(msgspec.to_builtins(node.status)),
    }


def data_of(
    node: ManagedNode,
    peers: Iterable[ManagedNode],
    *,
    secrets: Mapping[str, bytes] | None = None,
    config_maps: Mapping[str, str] | None = None,
) -> Data:
    """Return the data of one file: its node with what the file refers to, and all nodes by name."""
    ordered = sorted(peers, key=lambda peer: peer.metadata.name)
    return Data(
        node=node_data(node, secrets=secrets, config_maps=config_maps),
        nodes=[peer_data(peer) for peer in ordered],
    )


def _empties(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the fields of a type, by name in lower case, with what they are when left out."""
    found: dict[str, Any] = {}
    empty = kind()
    for name, written in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True):
        default = getattr(empty, name)
        if isinstance(default, (list, dict)):
            default = Items() if isinstance(default, list) else Entries()
        found[written.lower()] = default
    return found


_EMPTIES: Final = {name: _empties(kind) for name, kind in _TYPES.items()}


def _record(value: Mapping[str, Any], name: str, depth: int) -> DefinedFields:
    prefix = "spec." if name == "spec" else ""
    fields = {str(key): _view(each, prefix + str(key).lower(), depth + 1) for key, each in value.items()}
    return DefinedFields(fields, _EMPTIES.get(name, {}))


def _view(value: Any, name: str, depth: int) -> Any:
    """Return a JSON value as templates see it; `name` is the field it was found in."""
    if depth > DEPTH_MAX:
        raise TooMuch(f"the data is nested deeper than {DEPTH_MAX} levels")
    if isinstance(value, Mapping):
        if name not in _FREE_KEYS:
            return _record(value, name, depth)
        return Entries(
            {
                str(key): _record(each, name, depth + 1) if isinstance(each, Mapping) else each
                for key, each in value.items()
            },
            _FREE_KEYS[name],
        )
    if isinstance(value, (list, tuple)):
        return Items(_view(each, name, depth + 1) for each in value)
    return value


def _free(value: Any, way: str, depth: int) -> Any:
    """Return a value of `Data` as templates see it: with exact keys, and an error names the way to one."""
    if depth > DEPTH_MAX:
        raise TooMuch(f"the data is nested deeper than {DEPTH_MAX} levels")
    if isinstance(value, Mapping):
        inner = {str(key): _free(each, f"{way}.{key}", depth + 1) for key, each in value.items()}
        return Entries(inner, f"in {way}")
    if isinstance(value, (list, tuple)):
        return Items(_free(each, f"{way}[{place}]", depth + 1) for place, each in enumerate(value))
    return value
