"""The kinds this server knows: a table that CustomResourceDefinitions extend while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nodemanager.kube.objects import KindNames

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")
SUBRESOURCE_KINDS = {
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}
"""Subresources of built-in kinds that take an object of a kind of their own."""


class PrinterColumn(NamedTuple):
    """A column of a Table that a CustomResourceDefinition declares."""

    name: str
    type: str
    path: str
    description: str = ""
    format: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ServedKind(KindNames):
    """One kind in one version: how it is addressed, and what can be done with it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of each subresource, with its verbs."""
    fields: tuple[str, ...] = ()
    """Paths that field selectors may use, besides name and namespace."""
    schema: Mapping[str, Any] | None = None
    """The OpenAPI schema of a custom version; the built-in kinds have theirs in `builtin_schemas`."""
    columns: tuple[PrinterColumn, ...] = ()
    custom: bool = False
    counted: bool = False
    """Whether `metadata.generation` counts the changes of its spec."""
    keeps_status: bool = False
    """Whether a new object may bring its status along."""
    upserts: bool = False
    """Whether an update of an object that is not there creates it."""
    unconditional: bool = True
    """Whether an update may leave out which revision it is about."""
    store: str = ""
    """Where it is kept, when two kinds share one place (events)."""
    name_rule: str = "name"
    warning: str = ""
    """The warning for clients of a deprecated version."""

    @property
    def qualified_kind(self) -> str:
        """`Kind.group`, as messages about invalid objects write it."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def has_status(self) -> bool:
        """Whether status is written through a subresource only."""
        return "status" in self.subresources

    def prefix(self, namespace: str = "") -> str:
        """Return the store's prefix of all objects, or of those in a namespace."""
        place = self.store or f"{self.group or 'core'}/{self.plural}"
        return f"/{place}/{namespace}/" if namespace and self.namespaced else f"/{place}/"

    def key(self, namespace: str, name: str) -> str:
        """Return the store's key of one object."""
        return self.prefix(namespace) + name


class Catalogue:
    """All kinds that are served right now."""

    def __init__(self, builtin: tuple[ServedKind, ...]) -> None:
        self._kinds = {(kind.group, kind.version, kind.plural): kind for kind in builtin}
        self._custom: dict[str, tuple[ServedKind, ...]] = {}
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call a listener whenever the served kinds have changed."""
        self._listeners.append(listener)

    def find(self, group: str, version: str, plural: str) -> ServedKind | None:
        """Return a kind by how a path names it."""
        return self._kinds.get((group, version, plural))

    def named(self, api_version: str, name: str) -> ServedKind | None:
        """Return a kind by how objects name it."""
        group, _, version = api_version.rpartition("/")
        wanted = (group, version, name)
        return next((kind for kind in self if (kind.group, kind.version, kind.kind) == wanted), None)

    def of_key(self, key: str) -> ServedKind | None:
        """Return the kind that serves the object with a key of the store."""
        return next((kind for kind in self if key.startswith(kind.prefix())), None)

    def define(self, definition: str, kinds: tuple[ServedKind, ...]) -> None:
        """Serve the versions of a CustomResourceDefinition instead of the ones it had before."""
        self.forget(definition)
        self._custom[definition] = kinds
        self._kinds.update({(kind.group, kind.version, kind.plural): kind for kind in kinds})
        for listener in self._listeners:
            listener()

    def forget(self, definition: str) -> None:
        """Stop serving what a CustomResourceDefinition defined."""
        for kind in self._custom.pop(definition, ()):
            self._kinds.pop((kind.group, kind.version, kind.plural), None)

    def defined_by(self, definition: str) -> tuple[ServedKind, ...]:
        """Return the versions that a CustomResourceDefinition serves."""
        return self._custom.get(definition, ())

    def __iter__(self) -> Iterator[ServedKind]:
        return iter(list(self._kinds.values()))

    def groups(self) -> dict[str, list[str]]:
        """Return the versions of every group, the preferred one first."""
        found: dict[str, set[str]] = {}
        for group, version, _ in self._kinds:
            found.setdefault(group, set()).add(version)
        return {group: sorted(versions, key=version_order) for group, versions in found.items()}

    def of_version(self, group: str, version: str) -> list[ServedKind]:
        """Return the kinds of one group and version, in the order of their names."""
        kinds = [kind for kind in self if (kind.group, kind.version) == (group, version)]
        return sorted(kinds, key=lambda kind: kind.plural)

    def namespaced_stores(self) -> list[ServedKind]:
        """Return one kind for each place where namespaced objects are kept."""
        return list({kind.prefix(): kind for kind in self if kind.namespaced}.values())

    def is_builtin_group(self, group: str) -> bool:
        """Tell whether a group is Kubernetes' own: unknown names in it are answered with a Status."""
        return any(kind.group == group and not kind.custom for kind in self)


def version_order(version: str) -> tuple[int, int, int, str]:
    """Return the key that puts versions in Kubernetes' order: v2, v1, v1beta2, v1alpha1, others."""
    rest = version.removeprefix("v")
    for rank, word in enumerate(("", "beta", "alpha")):
        major, found, minor = rest.partition(word) if word else (rest, "-", "0")
        if version.startswith("v") and found and major.isdecimal() and minor.isdecimal():
            return (rank, -int(major), -int(minor), version)
    return (3, 0, 0, version)
