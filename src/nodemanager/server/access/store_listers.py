"""What authorisation and tokens ask of the store: roles, bindings and single objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nodemanager.kube.objects import Untyped
from nodemanager.server.hub import Hub
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import stored

_RBAC = ("rbac.authorization.k8s.io", "v1")
_PLURALS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")


def _kind(hub: Hub, group: str, version: str, plural: str) -> ServedKind:
    kind = hub.catalogue.find(group, version, plural)
    if kind is None:
        raise LookupError(f"cannot serve: the kind {plural} is missing from the table of kinds")
    return kind


def _all(hub: Hub, kind: ServedKind, namespace: str = "") -> list[Untyped]:
    return [stored.load(kind, record) for record in hub.store.list(kind.prefix(namespace)).records]


class StoredRoles:
    """The RBAC objects of the store; `revision` moves only when one of them changes."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._kinds = {plural: _kind(hub, *_RBAC, plural) for plural in _PLURALS}
        self._looked_at = -1
        self._revision = 0

    @property
    def revision(self) -> int:
        """A number that is different for every set of roles and bindings."""
        if self._hub.store.revision != self._looked_at:
            self._looked_at = self._hub.store.revision
            records = [
                record
                for kind in self._kinds.values()
                for record in self._hub.store.list(kind.prefix()).records
            ]
            newest = max((record.revision for record in records), default=0)
            # A deletion may leave the newest revision as it is, but it changes how many records there are.
            self._revision = newest * 1_000_003 + len(records)
        return self._revision

    def cluster_roles(self) -> Iterable[Untyped]:
        """Return all ClusterRoles."""
        return _all(self._hub, self._kinds["clusterroles"])

    def cluster_role_bindings(self) -> Iterable[Untyped]:
        """Return all ClusterRoleBindings."""
        return _all(self._hub, self._kinds["clusterrolebindings"])

    def roles(self, namespace: str) -> Iterable[Untyped]:
        """Return the Roles of a namespace."""
        return _all(self._hub, self._kinds["roles"], namespace)

    def role_bindings(self, namespace: str) -> Iterable[Untyped]:
        """Return the RoleBindings of a namespace."""
        return _all(self._hub, self._kinds["rolebindings"], namespace)


class StoredObjects:
    """Single objects of the core group, for the tokens that are bound to them."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def get(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return an object, or None."""
        kind = _kind(self._hub, "", "v1", resource)
        record = self._hub.store.get(kind.key(namespace if kind.namespaced else "", name))
        return None if record is None else stored.load(kind, record)
