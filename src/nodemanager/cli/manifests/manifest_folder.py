"""A folder of manifests in place of an API."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.api import kinds, manifest_checks
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.edge.edgecluster import EDGE_CLUSTERS, EdgeCluster
from nodemanager.api.edge.edgeprofile import EDGE_PROFILES, EdgeProfile
from nodemanager.cli.manifests import manifest_files
from nodemanager.host.inventory.identity import HOSTNAME
from nodemanager.kube import manifests
from nodemanager.kube.manifests import ManifestError
from nodemanager.kube.objects import Untyped


class DuplicateObject(ManifestError):
    """Two manifests declare the same object."""


@dataclass(slots=True)
class DeclaredObjects:
    """What manifests declare, object by object."""

    sets: dict[str, ConfigSet] = field(default_factory=dict)
    nodes: dict[str, ManagedNode] = field(default_factory=dict)
    secrets: dict[str, dict[str, bytes]] = field(default_factory=dict)
    config_maps: dict[str, dict[str, str | bytes]] = field(default_factory=dict)
    edge_profiles: dict[str, EdgeProfile] = field(default_factory=dict)
    edge_clusters: dict[str, EdgeCluster] = field(default_factory=dict)

    def add(self, obj: Untyped, path: Path) -> None:
        """Take an object of a file, or raise ManifestError; what is none of our business is left out."""
        kind = (obj["apiVersion"], obj["kind"])
        if kind == (CONFIG_SETS.api_version, CONFIG_SETS.kind):
            found = manifest_checks.typed(obj, CONFIG_SETS, str(path))
            _add(self.sets, found.metadata.name, found, path)
        elif kind == (MANAGED_NODES.api_version, MANAGED_NODES.kind):
            node = manifest_checks.typed(obj, MANAGED_NODES, str(path))
            _add(self.nodes, node.metadata.name, node, path)
        elif kind == ("v1", "Secret"):
            _add(self.secrets, _name(obj, path), _secret(obj, path), path)
        elif kind == ("v1", "ConfigMap"):
            values = {**_texts(obj, "data", path), **_bytes(obj, "binaryData", path)}
            _add(self.config_maps, _name(obj, path), values, path)
        elif kind == (EDGE_PROFILES.api_version, EDGE_PROFILES.kind):
            profile = manifest_checks.typed(obj, EDGE_PROFILES, str(path))
            _add(self.edge_profiles, profile.metadata.name, profile, path)
        elif kind == (EDGE_CLUSTERS.api_version, EDGE_CLUSTERS.kind):
            cluster = manifest_checks.typed(obj, EDGE_CLUSTERS, str(path))
            _add(self.edge_clusters, cluster.metadata.name, cluster, path)
        elif (other := kinds.named(*kind)) is not None:
            manifest_checks.typed(obj, other.resource, str(path))  # not for hosts, but it may lie here
        else:
            _refuse_ours(obj, path)

    def inputs(self) -> DeclaredInputs:
        """Return all of it as an agent would be given it."""
        sets, nodes = tuple(self.sets.values()), tuple(self.nodes.values())
        return DeclaredInputs(sets, nodes, self.secrets, self.config_maps)


def load(paths: Iterable[Path]) -> DeclaredInputs:
    """Return what manifests declare: ConfigSets, ManagedNodes, and Secrets and ConfigMaps for templates."""
    found = DeclaredObjects()
    for path in manifest_files.files(paths):
        for obj in manifests.load_all(manifest_files.text(path), str(path)):
            found.add(obj, path)
    return found.inputs()


def labelled(node: ManagedNode) -> ManagedNode:
    """Return a host with the one label of its agent that can be told without it."""
    labels = {HOSTNAME: node.metadata.name, **node.metadata.labels}
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels))


def _refuse_ours(obj: Untyped, path: Path) -> None:
    """Refuse a kind that is nearly one of ours; what is none of our business may lie beside it."""
    group = str(obj["apiVersion"]).partition("/")[0]
    names = {one.singular: f"{one.resource.api_version} {one.resource.kind}" for one in kinds.KINDS}
    meant = names.get(str(obj["kind"]).lower())
    if meant is not None or any(group == one.resource.group for one in kinds.KINDS):
        known = meant or " or ".join(sorted(names.values()))
        raise ManifestError(
            f"cannot use {path}: there is no {obj['apiVersion']} {obj['kind']}; write {known}"
        )


def _add(where: dict[str, Any], name: str, value: object, path: Path) -> None:
    if name in where:
        raise DuplicateObject(f"cannot use {path}: {name} is declared twice")
    where[name] = value


def _name(obj: Untyped, path: Path) -> str:
    meta = obj.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(name, str) or not name:
        raise ManifestError(f"cannot use {path}: a {obj['kind']} has no metadata.name")
    return name


def _secret(obj: Untyped, path: Path) -> dict[str, bytes]:
    texts = {key: value.encode() for key, value in _texts(obj, "stringData", path).items()}
    return {**_bytes(obj, "data", path), **texts}


def _bytes(obj: Untyped, field: str, path: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for key, value in _texts(obj, field, path).items():
        try:
            found[key] = base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError, TypeError) as error:
            raise ManifestError(
                f"cannot use {path}: {field}.{key} of a {obj['kind']} is not base64"
            ) from error
    return found


def _texts(obj: Untyped, part: str, path: Path) -> dict[str, str]:
    """Return a map of texts, as the API would insist on; numbers need quotes in YAML."""
    found: Any = obj.get(part) or {}
    if not isinstance(found, dict):
        raise ManifestError(f"cannot use {path}: {part} of a {obj['kind']} is not a map")
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ManifestError(f"cannot use {path}: {part}.{key} of a {obj['kind']} is not text; quote it")
    return dict(found)
