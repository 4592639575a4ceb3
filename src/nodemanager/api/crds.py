"""The CustomResourceDefinitions of our kinds, as plain objects ready to be applied."""

from __future__ import annotations

from typing import Any, NamedTuple

from nodemanager.api.common import configset, managednode
from nodemanager.kube.objects import Resource
from nodemanager.kube.schemas import derivation


class Column(NamedTuple):
    """A column of `kubectl get`; priority 1 shows only with `-o wide`."""

    name: str
    path: str
    description: str
    type: str = "string"
    priority: int = 0


def all_crds() -> list[dict[str, Any]]:
    """Return every CustomResourceDefinition, in the order to install them."""
    return [
        _crd(configset.CONFIG_SETS, _CONFIG_SET_NAMES, _CONFIG_SET_COLUMNS),
        _crd(managednode.MANAGED_NODES, _MANAGED_NODE_NAMES, _MANAGED_NODE_COLUMNS),
    ]


def _condition(kind: str, field: str = "status") -> str:
    return f'.status.conditions[?(@.type=="{kind}")].{field}'


_AGE = Column("Age", ".metadata.creationTimestamp", "Time since it was created.", "date")

# Kubernetes itself answers to "cs" (componentstatuses), so there is a second short name.
_CONFIG_SET_NAMES = ("cs", "cset")
_CONFIG_SET_COLUMNS = [
    Column("Priority", ".spec.priority", "Who wins when sets differ: the highest.", "integer"),
    Column("Nodes", ".status.nodes.matched", "Hosts it is meant for.", "integer"),
    Column("Applied", ".status.nodes.applied", "Hosts where all of it holds.", "integer"),
    Column("Failed", ".status.nodes.failed", "Hosts where a part could not be applied.", "integer"),
    Column("Conflicted", ".status.nodes.conflicted", "Hosts where another set says otherwise.", "integer"),
    _AGE,
    Column("Ready", _condition("Ready"), "Whether it holds on all its hosts.", priority=1),
    Column("Message", _condition("Ready", "message"), "Why it does not.", priority=1),
]

_MANAGED_NODE_NAMES = ("mn",)
_MANAGED_NODE_COLUMNS = [
    Column("OS", r".metadata.labels.nodemanager\.io/os", "Operating system, from os-release."),
    Column("Release", ".status.release", "Kernel release."),
    Column("Agent", ".status.agentVersion", "Version of the agent."),
    Column("Ready", _condition("Ready"), "Whether everything declared for the host holds."),
    Column("Drift", _condition("Drifted"), "Whether the host differs right now from what is declared."),
    _AGE,
    Column("Reason", _condition("Ready", "reason"), "Why it is, or is not, ready.", priority=1),
    Column("Repaired", ".status.drift.repaired", "Foreign changes that were undone.", "integer", 1),
    Column("Conflicted", _condition("Conflicted"), "Whether ConfigSets contradict each other.", priority=1),
    Column("Upgraded", ".status.lastUpgrade", "Time since the last upgrade.", "date", 1),
    Column("Arch", r".metadata.labels.kubernetes\.io/arch", "Processor architecture.", priority=1),
]


def _crd(resource: Resource[Any], short_names: tuple[str, ...], columns: list[Column]) -> dict[str, Any]:
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
                "singular": resource.kind.lower(),
                "shortNames": list(short_names),
                "categories": ["nodemanager"],
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [_version(resource, columns)],
        },
    }


def _version(resource: Resource[Any], columns: list[Column]) -> dict[str, Any]:
    return {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": derivation.of_kind(resource.type)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(column) for column in columns],
    }


def _column(column: Column) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        "description": column.description,
    }
    return {**shown, "priority": column.priority} if column.priority else shown
