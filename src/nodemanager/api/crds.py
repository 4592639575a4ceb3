"""The CustomResourceDefinitions of our kinds, as plain objects ready to be applied."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from nodemanager.api import kinds
from nodemanager.api.kind_parts import CATEGORY, KindColumn, KindEntry
from nodemanager.kube.objects import Resource
from nodemanager.kube.schemas import derivation


def all_crds() -> list[dict[str, Any]]:
    """Return every CustomResourceDefinition, by name; each time other objects, which are the caller's."""
    found: list[dict[str, Any]] = msgspec.json.decode(_encoded())
    return found


@functools.cache
def _encoded() -> bytes:
    """All of them as text: to read it takes a few hundredths of the time that deriving them does."""
    schemas = derivation.of_kinds(kind.resource.type for kind in kinds.BY_NAME)
    return msgspec.json.encode(list(map(_definition, kinds.BY_NAME, schemas)))


def of_kind(kind: KindEntry) -> dict[str, Any]:
    """Return the CustomResourceDefinition of one kind."""
    return _definition(kind, derivation.of_kind(kind.resource.type))


def _definition(kind: KindEntry, schema: derivation.Schema) -> dict[str, Any]:
    resource = kind.resource
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified_name},
        "spec": {
            "group": resource.group,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": kind.singular,
                "shortNames": list(kind.short_names),
                "categories": [CATEGORY],
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [_version(resource, kind.columns, schema)],
        },
    }


def _version(
    resource: Resource[Any], columns: tuple[KindColumn, ...], schema: derivation.Schema
) -> dict[str, Any]:
    return {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}} if "status" in schema["properties"] else {},
        "additionalPrinterColumns": [_column(column) for column in columns],
    }


def _column(column: KindColumn) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        "description": column.description,
    }
    return {**shown, "priority": column.priority} if column.priority else shown
