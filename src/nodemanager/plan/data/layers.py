"""Which layers of data concern a host, and which of them yields to which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nodemanager.api.common import matching
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.kube import selectors
from nodemanager.kube.core import CONFIG_MAPS, SECRETS


@dataclass(frozen=True, slots=True)
class Layer:
    """An object that says what data a host has."""

    kind: str
    name: str
    config_set: str = ""
    """The ConfigSet whose dataFrom names it."""
    own: Mapping[str, Any] | None = field(default=None, compare=False)
    """What it says, where that is in the object that declares it; None = it is in a ConfigMap or Secret."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def secret(self) -> bool:
        """Whether nobody may be shown what it says."""
        return self.kind == SECRETS.kind

    @property
    def field(self) -> str:
        """Where it is declared, for people."""
        return f"dataFrom of ConfigSet {self.config_set}" if self.config_set else "spec.data"


def layers(config_sets: Iterable[ConfigSet], node: ManagedNode) -> list[Layer]:
    """Return the layers of a host; each wins over those before it.

    Sets come by priority, then by name, so that the order is the same for everybody. In a set it is dataFrom
    in its order, then data; after all sets comes the host's own.
    """
    labels = node.metadata.labels
    found: list[Layer] = []
    for one in sorted(config_sets, key=lambda one: (one.spec.priority, one.metadata.name)):
        if not (one.spec.data or one.spec.data_from) or not matching.matches(one, labels):
            continue
        name = one.metadata.name
        for entry in one.spec.data_from:
            if entry.node_selector is not None and not selectors.matches(entry.node_selector, labels):
                continue
            if entry.config_map_ref is not None:
                found.append(Layer(CONFIG_MAPS.kind, entry.config_map_ref.name, name))
            if entry.secret_ref is not None:
                found.append(Layer(SECRETS.kind, entry.secret_ref.name, name))
        if one.spec.data:
            found.append(Layer(CONFIG_SETS.kind, name, own=one.spec.data))
    if node.spec.data:
        found.append(Layer(MANAGED_NODES.kind, node.metadata.name, own=node.spec.data))
    return found


def names(found: Sequence[Layer], kind: str) -> list[str]:
    """Return the names of the ConfigMaps, or of the Secrets, among layers."""
    return list(dict.fromkeys(one.name for one in found if one.kind == kind and one.own is None))
