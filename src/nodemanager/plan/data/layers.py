"""Which layers of data concern a host, and which layer overrides which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nodemanager.api.common import matching
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.kube import selectors
from nodemanager.kube.core import CONFIG_MAPS, SECRETS
from nodemanager.kube.selectors import LabelSelector


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
        """Whether its content must not be shown."""
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
    having = [one for one in config_sets if one.spec.data or one.spec.data_from]
    having.sort(key=lambda one: (one.spec.priority, one.metadata.name))
    found = [
        layer
        for one in having
        if matching.matches(one, labels)
        for selector, layer in of_set(one)
        if selector is None or selectors.matches(selector, labels)
    ]
    if node.spec.data:
        found.append(Layer(MANAGED_NODES.kind, node.metadata.name, own=node.spec.data))
    return found


def of_set(config_set: ConfigSet) -> Iterator[tuple[LabelSelector | None, Layer]]:
    """Yield the layers of a set in order, each with a selector of the hosts that it is for."""
    name, spec = config_set.metadata.name, config_set.spec
    for entry in spec.data_from:
        for kind, ref in ((CONFIG_MAPS.kind, entry.config_map_ref), (SECRETS.kind, entry.secret_ref)):
            if ref is not None:
                yield entry.node_selector, Layer(kind, ref.name, name)
    if spec.data:
        yield None, Layer(CONFIG_SETS.kind, name, own=spec.data)


def names(found: Sequence[Layer], kind: str) -> list[str]:
    """Return the names of the ConfigMaps, or of the Secrets, among layers."""
    return list(dict.fromkeys(one.name for one in found if one.kind == kind and one.own is None))
