"""What authorisation and tokens read from the store: roles, bindings and single objects."""

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

    def roles(self, namespace: str) -> Iterable[Untyped]:
        """Return the Roles of a namespace; without one, all ClusterRoles."""
        return self._all("roles" if namespace else "clusterroles", namespace)

    def bindings(self, namespace: str) -> Iterable[Untyped]:
        """Return the RoleBindings of a namespace; without one, all ClusterRoleBindings."""
        return self._all("rolebindings" if namespace else "clusterrolebindings", namespace)

    def _all(self, plural: str, namespace: str) -> list[Untyped]:
        kind = self._kinds[plural]
        return [stored.load(kind, record) for record in self._hub.store.list(kind.prefix(namespace)).records]


class StoredObjects:
    """Single objects of the core group, for the tokens that are bound to them."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def get(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return an object, or None."""
        kind = _kind(self._hub, "", "v1", resource)
        record = self._hub.store.get(kind.key(namespace if kind.namespaced else "", name))
        return None if record is None else stored.load(kind, record)
