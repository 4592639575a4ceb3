"""Everything that is wanted of a host at one moment, wherever it comes from: an API, or manifests."""

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
    """What is declared, and what templates may read."""

    config_sets: tuple[ConfigSet, ...] = ()
    nodes: tuple[ManagedNode, ...] = ()
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    """By name of the Secret; one that is missing does not exist or may not be read."""
    config_maps: Mapping[str, Mapping[str, str | bytes]] = field(default_factory=dict)
    """By name of the ConfigMap; what is bytes was in its binaryData."""
    told: SetsTold | None = None
    """What an API says of all sets, also of those that are not for this host; None = none was asked."""
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
        """Return the same with this ManagedNode in place of the one of its name, or beside the others."""
        others = tuple(one for one in self.nodes if one.metadata.name != node.metadata.name)
        return replace(self, nodes=(*others, node))

    def matching(self, node: ManagedNode) -> list[ConfigSet]:
        """Return the ConfigSets that are meant for a host."""
        labels = node.metadata.labels
        known = (one for one in self.config_sets if not isinstance(one, ForeignSet))
        return [one for one in known if matching.matches(one, labels)]
