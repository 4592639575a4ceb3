"""What the OpenAPI documents need to know of a kind, and how they name it."""

from __future__ import annotations

import dataclasses
import re

from nodemanager.server.kinds import builtin_schemas
from nodemanager.server.kinds.resources import SUBRESOURCE_KINDS, ServedKind
from nodemanager.server.kinds.schemas.notation import Schema, gvk, list_schema
from nodemanager.server.openapi import custom as openapi_custom


class Published(ServedKind):
    """A kind that is served, as the documents describe it."""

    __slots__ = ()

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
        if self.fields:
            paths = [{"fieldPath": path} for path in self.fields]
            schema["x-kubernetes-selectable-fields"] = listed["x-kubernetes-selectable-fields"] = paths
        return {self.definition: schema, self.list_definition: listed}


def published(kind: ServedKind) -> Published:
    """Return a kind as it is published."""
    return Published(*(getattr(kind, field.name) for field in dataclasses.fields(kind)))


def _camel(text: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[.-]", text))
