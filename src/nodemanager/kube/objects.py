"""What every Kubernetes object has, and how a kind is addressed.

A typed object carries no `apiVersion` and `kind`: its `Resource` knows them, a cache of
ten thousand objects need not. Fields that a type does not declare are not kept, so typed
objects are read and *patched*, never written back whole (see `client.patches`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, dataclass_transform
from urllib.parse import quote

import msgspec


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class FrozenMeta(msgspec.StructMeta):
    """Tells type checkers that subclasses of a frozen Struct are frozen without saying so each time."""


class Struct(
    msgspec.Struct,
    metaclass=FrozenMeta,
    frozen=True,
    gc=False,
    kw_only=True,
    omit_defaults=True,
    rename="camel",
):
    """Base of all API types: immutable, no cycles (hence `gc=False`), camelCase in JSON."""


class OwnerReference(Struct):
    """The object whose deletion also deletes this one."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Struct):
    """The part of `metadata` that we act on; `managedFields` is deliberately left out."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[OwnerReference] = []


class ListMeta(Struct):
    """`metadata` of a list: where a watch may start, and whether there is another page."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class ObjectKey(NamedTuple):
    """Namespace and name; the namespace of a cluster-scoped object is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class HasMetadata(Protocol):
    """Anything with typed metadata: every typed object."""

    @property
    def metadata(self) -> ObjectMeta:
        """The identity of this object."""


T = TypeVar("T")
"""What a resource decodes to: one of our Structs, or `dict` for a kind we have no type for."""

Untyped = dict[str, Any]
"""An object as plain JSON: it keeps all fields and is not checked."""


def key_of(obj: HasMetadata) -> ObjectKey:
    """Return the key of a typed object."""
    return ObjectKey(obj.metadata.namespace, obj.metadata.name)


class KindNames:
    """What follows from the names of a kind."""

    __slots__ = ()
    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        """`group/version`, or the bare version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_name(self) -> str:
        """`plural.group`, as kubectl and messages write it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, slots=True)
class Resource(KindNames, Generic[T]):
    """A kind as the API addresses it, and the Python type its objects decode to."""

    group: str
    version: str
    kind: str
    plural: str
    type: type[T]
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, of one object, or of a subresource of it."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def untyped(self) -> Resource[Untyped]:
        """Return the same kind, decoded to plain JSON."""
        return Resource(self.group, self.version, self.kind, self.plural, dict, self.namespaced)

    def encode(self, obj: T | Mapping[str, Any]) -> bytes:
        """Return the JSON of an object, with `apiVersion` and `kind` put in."""
        body = msgspec.to_builtins(obj)
        return msgspec.json.encode({"apiVersion": self.api_version, "kind": self.kind, **body})
