"""What the OpenAPI documents need to know of a kind, and how they name it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from nodemanager.server.kinds import builtin_schemas
from nodemanager.server.kinds.resources import SUBRESOURCE_KINDS
from nodemanager.server.kinds.schemas.notation import Schema, gvk, list_schema
from nodemanager.server.openapi import custom as openapi_custom

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_STATUS_VERBS = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Published:
    """One kind in one version, as the documents describe it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of each subresource, with its verbs."""
    custom: bool = False
    list_kind: str = ""
    schema: Mapping[str, Any] | None = None
    """The schema of a custom resource, as its CustomResourceDefinition says."""
    selectable: tuple[str, ...] = ()
    """Paths that field selectors of a custom resource can use, such as `.spec.color`."""

    @property
    def group_path(self) -> str:
        """Where the version is served, without a slash in front: `api/v1` or `apis/GROUP/VERSION`."""
        return f"apis/{self.group}/{self.version}" if self.group else f"api/{self.version}"

    @property
    def names(self) -> dict[str, str]:
        """Group, version and kind, as the documents write them."""
        return gvk(self.group, self.version, self.kind)

    @property
    def definition(self) -> str:
        """Name of the definition that describes one object."""
        return self._definition(self.kind)

    @property
    def list_definition(self) -> str:
        """Name of the definition that describes a list."""
        return self._definition(self.list_kind or f"{self.kind}List")

    def _definition(self, kind: str) -> str:
        known = None if self.custom else builtin_schemas.definition_name(self.group, self.version, kind)
        reversed_group = ".".join(reversed(self.group.split(".")))
        return known or f"{reversed_group}.{self.version}.{kind}"

    @property
    def operation_words(self) -> str:
        """Group and version in the middle of an operation's id, such as `RbacAuthorizationV1`."""
        return _camel(self.group.removesuffix(".k8s.io") or "core") + _camel(self.version)

    @property
    def tag(self) -> str:
        """The tag of its operations, such as `rbacAuthorization_v1`."""
        words = _camel(self.group.removesuffix(".k8s.io") or "core")
        return f"{words[:1].lower()}{words[1:]}_{self.version}"

    def subresource_kind(self, name: str) -> dict[str, str]:
        """Return group, version and kind of what is sent to a subresource."""
        known = SUBRESOURCE_KINDS.get(name)
        return self.names if known is None or self.custom else gvk(*known)

    def subresource_definition(self, name: str) -> str:
        """Return the definition of what is sent to a subresource."""
        known = SUBRESOURCE_KINDS.get(name)
        found = None if known is None or self.custom else builtin_schemas.definition_name(*known)
        return found or self.definition

    def own_definitions(self, *, v2: bool = False) -> dict[str, Schema]:
        """Return the definitions that exist for this kind only: those of a custom resource."""
        if not self.custom:
            return {}
        convert = openapi_custom.for_v2 if v2 else openapi_custom.for_v3
        schema = {**convert(self.schema), "x-kubernetes-group-version-kind": [self.names]}
        list_names = gvk(self.group, self.version, self.list_kind or f"{self.kind}List")
        listed = list_schema(self.definition, list_names)
        if self.selectable:
            paths = [{"fieldPath": path.removeprefix(".")} for path in self.selectable]
            schema["x-kubernetes-selectable-fields"] = listed["x-kubernetes-selectable-fields"] = paths
        return {self.definition: schema, self.list_definition: listed}


class Served(Protocol):
    """What the server knows of a built-in kind, as far as it is published."""

    @property
    def group(self) -> str:
        """API group; empty for the core group."""

    @property
    def version(self) -> str:
        """Version of the group."""

    @property
    def kind(self) -> str:
        """Kind of the objects."""

    @property
    def plural(self) -> str:
        """Name in paths."""

    @property
    def namespaced(self) -> bool:
        """Whether objects live in namespaces."""

    @property
    def verbs(self) -> tuple[str, ...]:
        """What can be done with objects."""

    @property
    def subresources(self) -> Mapping[str, tuple[str, ...]]:
        """Name of each subresource, with its verbs."""


REVIEWS: tuple[Published, ...] = tuple(
    Published(group, "v1", kind, f"{kind.lower()}s", namespaced=kind.startswith("Local"), verbs=("create",))
    for group, kind in (
        ("authentication.k8s.io", "SelfSubjectReview"),
        ("authentication.k8s.io", "TokenReview"),
        ("authorization.k8s.io", "LocalSubjectAccessReview"),
        ("authorization.k8s.io", "SelfSubjectAccessReview"),
        ("authorization.k8s.io", "SelfSubjectRulesReview"),
        ("authorization.k8s.io", "SubjectAccessReview"),
    )
)
"""Questions that are answered and not stored."""


def from_builtin(kind: Served) -> Published:
    """Return a built-in kind as it is published."""
    return Published(
        group=kind.group,
        version=kind.version,
        kind=kind.kind,
        plural=kind.plural,
        namespaced=kind.namespaced,
        verbs=kind.verbs,
        subresources=kind.subresources,
    )


def from_definition(definition: Mapping[str, Any]) -> list[Published]:
    """Return what a CustomResourceDefinition defines: one kind for each version that it serves."""
    spec = definition["spec"]
    names = spec["names"]
    return [
        Published(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            namespaced=spec["scope"] == "Namespaced",
            subresources={"status": _STATUS_VERBS} if "status" in version.get("subresources", {}) else {},
            custom=True,
            list_kind=names.get("listKind", ""),
            schema=version.get("schema", {}).get("openAPIV3Schema"),
            selectable=tuple(field["jsonPath"] for field in version.get("selectableFields", ())),
        )
        for version in spec["versions"]
        if version.get("served")
    ]


def _camel(text: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[.-]", text))
