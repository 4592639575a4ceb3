"""Objects that own each other, and waiting until nothing is left to collect."""

from __future__ import annotations

from typing import Any

from nodemanager.kube.objects import Resource, Untyped
from nodemanager.server.hub import Hub

CONFIG_MAPS: Resource[Untyped] = Resource("", "v1", "ConfigMap", "configmaps", dict)
NAMESPACES: Resource[Untyped] = Resource("", "v1", "Namespace", "namespaces", dict, namespaced=False)
HOLD = "owned.test/hold"
"""A finalizer that nobody here removes."""


def reference(owner: Untyped, **more: Any) -> Untyped:
    """Return the reference with which a dependent names its owner."""
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"],
        **more,
    }  # fmt: skip


def blocking(owner: Untyped) -> Untyped:
    """Return a reference that keeps its owner from going first."""
    return reference(owner, blockOwnerDeletion=True)


def config_map(name: str, *owners: Untyped, **meta: Any) -> Untyped:
    """Return an object to create."""
    return {"metadata": {"name": name, **({"ownerReferences": list(owners)} if owners else {}), **meta}}


async def collected(hub: Hub) -> None:
    """Wait until the collector has nothing left to do, of which its own changes are a part."""
    revision = -1
    while revision != hub.store.revision:
        revision = hub.store.revision
        await hub.collected(revision)
