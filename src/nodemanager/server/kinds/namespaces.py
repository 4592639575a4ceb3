"""Namespaces: those that are always there, what may be created in them, and how they end."""

from __future__ import annotations

import uuid

from nodemanager.kube.errors import Cause
from nodemanager.server.http import refusals
from nodemanager.server.hub import Hub
from nodemanager.server.kinds.builtin_kinds import NAMESPACES
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import stored

DEFAULT = ("default", "kube-node-lease", "kube-public", "kube-system")
IMMORTAL = ("default", "kube-public", "kube-system")
TERMINATING = "Terminating"


async def ensure(hub: Hub, *names: str) -> None:
    """Create namespaces that are not there yet."""
    for name in names:
        key = NAMESPACES.key("", name)
        if hub.store.get(key) is None:
            meta = {
                "name": name,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": hub.timestamp(),
                "labels": {"kubernetes.io/metadata.name": name},
            }
            obj = {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": meta,
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            }
            await hub.store.create(key, stored.dump(NAMESPACES, obj))


def check(hub: Hub, kind: ServedKind, namespace: str, name: str) -> None:
    """Refuse to create an object in a namespace that is missing or on its way out."""
    record = hub.store.get(NAMESPACES.key("", namespace))
    if record is None:
        raise refusals.not_found(NAMESPACES, namespace)
    if stored.load(NAMESPACES, record)["metadata"].get("deletionTimestamp"):
        cause = Cause(
            reason="NamespaceTerminating",
            message=f"namespace {namespace} is being terminated",
            field="metadata.namespace",
        )
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise refusals.forbidden(kind, name, why, [cause])


def check_deletion(name: str) -> None:
    """Refuse to delete a namespace that the server cannot do without."""
    if name in IMMORTAL:
        raise refusals.forbidden(NAMESPACES, name, "this namespace may not be deleted")
