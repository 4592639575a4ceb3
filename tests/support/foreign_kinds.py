"""Kinds of Piraeus and KubeVirt before a real API server: the names are theirs, the schemas take anything."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from nodemanager.backends.storage.piraeus.objects import LINSTOR_CLUSTERS, LINSTOR_SATELLITES, SETTINGS
from nodemanager.backends.virtualisation.kubevirt import INSTANCES, MIGRATIONS
from nodemanager.kube import manifests
from nodemanager.kube.objects import Resource
from support.either import PRESERVED, Place

KINDS: tuple[Resource[Any], ...] = (LINSTOR_CLUSTERS, LINSTOR_SATELLITES, INSTANCES, MIGRATIONS)
OPTIONAL: tuple[Resource[Any], ...] = tuple(kind for kind, _ in SETTINGS)
"""Kinds that a cluster with Piraeus may lack."""


def definition(kind: Resource[Any]) -> dict[str, Any]:
    """Return a permissive definition."""
    schema = {"type": "object", "properties": {"spec": PRESERVED, "status": PRESERVED}}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind,
             "listKind": f"{kind.kind}List"}  # fmt: skip
    scope = "Namespaced" if kind.namespaced else "Cluster"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {"group": kind.group, "scope": scope, "names": names, "versions": [version]},
    }


def obj(kind: Resource[Any], name: str, namespace: str = "", **content: Any) -> dict[str, Any]:
    """Return an object of one of these kinds."""
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{kind.group}/{kind.version}", "kind": kind.kind, "metadata": meta, **content}


@contextlib.contextmanager
def defined(place: Place, kinds: Sequence[Resource[Any]] = KINDS) -> Iterator[None]:
    """Have a server know these kinds for the length of a test."""
    names = [f"crd/{kind.plural}.{kind.group}" for kind in kinds]
    place.kubectl("apply", "-f", "-", stdin=manifests.dump([definition(kind) for kind in kinds]))
    try:
        place.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
        yield
    finally:
        place.kubectl("delete", *names)
