"""All inputs of a host's wanted state at one moment, from an API or from manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from nodemanager.agent.declared.foreign_sets import ForeignSet
from nodemanager.api.common import matching
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.host.inventory.identity import Identity
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan.set_doubts import SetsTold


@dataclass(frozen=True, slots=True)
class DeclaredInputs:
    """The declarations, and the objects that templates may read."""

    config_sets: tuple[ConfigSet, ...] = ()
    nodes: tuple[ManagedNode, ...] = ()
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    """By name of the Secret; a missing one does not exist or may not be read."""
    config_maps: Mapping[str, Mapping[str, str | bytes]] = field(default_factory=dict)
    """By name of the ConfigMap; bytes come from its binaryData."""
    told: SetsTold | None = None
    """What an API reports about all sets, also those for other hosts; None = no API was asked."""
    withheld: str = ""
    """Why no Secret is here although some are known; empty = all are here."""

    def node(self, identity: Identity) -> ManagedNode:
        """Return the ManagedNode of a host with the labels that its agent gives it."""
        name = identity.hostname
        known = next((one for one in self.nodes if one.metadata.name == name), None)
        node = known or ManagedNode(metadata=ObjectMeta(name=name))
        labels = {**node.metadata.labels, **identity.labels()}
        return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels))

    def knowing(self, node: ManagedNode) -> DeclaredInputs:
        """Return the same with this ManagedNode added, in place of one with its name."""
        others = tuple(one for one in self.nodes if one.metadata.name != node.metadata.name)
        return replace(self, nodes=(*others, node))

    def matching(self, node: ManagedNode) -> list[ConfigSet]:
        """Return the ConfigSets that select a host."""
        labels = node.metadata.labels
        known = (one for one in self.config_sets if not isinstance(one, ForeignSet))
        return [one for one in known if matching.matches(one, labels)]
