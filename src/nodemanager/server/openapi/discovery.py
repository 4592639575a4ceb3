"""The served groups, versions and resources for clients: the old documents and the aggregated one."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from nodemanager.kube.objects import Untyped
from nodemanager.server.http.health import SURFACES
from nodemanager.server.kinds.resources import SUBRESOURCE_KINDS, Catalogue, ServedKind
from nodemanager.server.kubernetes_version import VERSION, minor_version

_MAJOR, _MINOR = minor_version(VERSION).split(".")
_VERSION_INFO = {
    "major": _MAJOR,
    "minor": _MINOR,
    "gitVersion": f"v{VERSION}+nodemanager",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}


def document(path: str, catalogue: Catalogue, address: str) -> Untyped | None:
    """Return the discovery document at a path, or None when there is none."""
    match path.strip("/").split("/"):
        case [""]:
            return {"paths": _paths(catalogue)}
        case ["version"]:
            return dict(_VERSION_INFO)
        case ["api"]:
            served = {"clientCIDR": "0.0.0.0/0", "serverAddress": address}
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [served]}
        case ["apis"]:
            groups = [_group(name, versions) for name, versions in _named_groups(catalogue)]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group] if group in catalogue.groups():
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, catalogue.groups()[group])}
        case ["api", version]:
            return _resources(catalogue, "", version)
        case ["apis", group, version] if group:
            return _resources(catalogue, group, version)
    return None


def aggregated(path: str, catalogue: Catalogue) -> Untyped | None:
    """Return the aggregated discovery document of `/api` or `/apis`."""
    if path.strip("/") not in ("api", "apis"):
        return None
    core = path.strip("/") == "api"
    groups = [("", catalogue.groups()[""])] if core else _named_groups(catalogue)
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_group_discovery(catalogue, name, versions) for name, versions in groups],
    }


def _named_groups(catalogue: Catalogue) -> list[tuple[str, list[str]]]:
    return [(name, versions) for name, versions in catalogue.groups().items() if name]


def _paths(catalogue: Catalogue) -> list[str]:
    found = ["/api", "/api/v1", "/apis", "/version", *(f"/{name}" for name in SURFACES)]
    for group, versions in _named_groups(catalogue):
        found += [f"/apis/{group}", *(f"/apis/{group}/{version}" for version in versions)]
    return sorted(found)


def _group(name: str, versions: list[str]) -> Untyped:
    known = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": known, "preferredVersion": known[0]}


def _resources(catalogue: Catalogue, group: str, version: str) -> Untyped | None:
    kinds = catalogue.of_version(group, version)
    if not kinds:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kinds[0].api_version,
        "resources": [entry for kind in kinds for entry in _resource(kind)],
    }


def _resource(kind: ServedKind) -> list[Untyped]:
    whole: Untyped = {
        "name": kind.plural,
        "singularName": kind.singular or kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
        **_names(kind),
        "storageVersionHash": _hash(kind),
    }
    parts = [
        {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            **_subresource_kind(kind, name),
            "verbs": list(verbs),
        }
        for name, verbs in sorted(kind.subresources.items())
    ]
    return [whole, *parts]


def _subresource_kind(kind: ServedKind, name: str) -> dict[str, str]:
    """Return the kind of a subresource, with group and version where they are not those of the resource."""
    own = None if kind.custom else SUBRESOURCE_KINDS.get(name)
    if own is None:
        return {"kind": kind.kind}
    return dict(zip(("group", "version", "kind"), own, strict=True))


def _names(kind: ServedKind) -> dict[str, Any]:
    lists = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {key: value for key, value in lists.items() if value}


def _hash(kind: ServedKind) -> str:
    text = f"{kind.group}/{kind.version}/{kind.kind}".encode()
    return base64.b64encode(hashlib.sha256(text).digest()[:8]).decode()


def _group_discovery(catalogue: Catalogue, group: str, versions: list[str]) -> Untyped:
    meta = {"name": group} if group else {}
    parts = [
        {
            "version": version,
            "resources": [_resource_discovery(kind) for kind in catalogue.of_version(group, version)],
            "freshness": "Current",
        }
        for version in versions
    ]
    return {"metadata": meta, "versions": parts}


def _resource_discovery(kind: ServedKind) -> Untyped:
    response = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    found: Untyped = {
        "resource": kind.plural,
        "responseKind": response,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular or kind.kind.lower(),
        "verbs": list(kind.verbs),
        **_names(kind),
    }
    if kind.subresources:
        found["subresources"] = [
            {
                "subresource": name,
                "responseKind": {**response, **_subresource_kind(kind, name)},
                "verbs": list(verbs),
            }
            for name, verbs in sorted(kind.subresources.items())
        ]
    return found
