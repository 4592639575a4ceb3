"""The wanted state of a host, calculated once and kept until one of its inputs changes.

Merging, rendering and hashing a thousand declarations costs more than looking at a thousand files, and
nearly every pass would do it in vain. Only this module decides which results are still valid.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.drift import drift
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.common.node_conditions import PROGRESSING
from nodemanager.host.base import WantedPackage
from nodemanager.kube import conditions
from nodemanager.plan import merge, templates
from nodemanager.plan.desired import Contents, Desired, Failure, Item
from nodemanager.plan.focus import Lens
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.stages import KINDS, HostKinds
from nodemanager.plan.templates import NotRendered, references
from nodemanager.rendering import referring


@dataclass(frozen=True)
class DesiredState:
    """The state that one pass should reach, and the declaration of each part."""

    desired: Desired
    contents: Contents
    declared: Mapping[ResourceId, drift.Declared]
    """The declaration of each resource, content included."""
    kinds: HostKinds = KINDS

    @functools.cached_property
    def observed(self) -> frozenset[ResourceId]:
        """Resources whose foreign changes are reported and left alone."""
        return frozenset(self.left)

    @functools.cached_property
    def left(self) -> Mapping[ResourceId, Item[Any]]:
        """The same, with what has to become of it."""
        groups = self.desired.items.values()
        return {item.id: item for group in groups for item in group if item.observe}

    @functools.cached_property
    def paths(self) -> frozenset[str]:
        """The files, directories and links that are declared."""
        return frozenset(item.id.name for item in self.desired.files)

    @functools.cached_property
    def lens(self) -> Lens:
        """Narrows the state to a few resources; made with the first repair."""
        return Lens(self.desired, self.kinds)


@dataclass(slots=True)
class DesiredStateCache:
    """Calculates wanted states, and keeps the last one."""

    contenter: Contenter
    templated: bool = False
    """Whether a file comes from a template or a reference, so that its inputs matter."""
    reads_peers: bool = False
    """Whether a template reads other nodes."""
    kinds: HostKinds = KINDS
    _sets: tuple[ConfigSet, ...] | None = None
    _needed: templates.References = field(default_factory=templates.References)
    _needed_by: ManagedNode | None = None
    _desired: Desired = field(default_factory=Desired)
    _desired_state: DesiredState | None = None
    _node: ManagedNode | None = None
    _inputs: DeclaredInputs = field(default_factory=DeclaredInputs)
    _passing: bool = False
    """Whether some content was not available for a moment, so that it is tried again."""

    @property
    def desired(self) -> Desired:
        """Everything that the last sets declare."""
        return self._desired

    @property
    def sets(self) -> tuple[ConfigSet, ...]:
        """The sets of the last calculation."""
        return self._sets or ()

    @property
    def last(self) -> DesiredState | None:
        """The state that the last pass should reach; None before the first."""
        return self._desired_state

    @property
    def pins(self) -> list[WantedPackage]:
        """The packages that must have a certain version."""
        packages = (item.declaration for item in self._desired.packages)
        return [WantedPackage(one.name, one.version) for one in packages if one.version]

    async def references(self, sets: Sequence[ConfigSet], node: ManagedNode) -> templates.References:
        """Return the Secrets and ConfigMaps that the templates of these sets read on a host."""
        self._take(sets)
        if self._needed_by is None or not _same_node(self._needed_by, node):
            self._needed, self._needed_by = templates.References(), None
            if self.templated:
                self._needed = await referring.referenced(self.contenter.renderer, sets, node)
            if not any(isinstance(error, NotRendered) for error in self._needed.errors):
                self._needed_by = node
        return self._needed

    async def make(
        self, sets: Sequence[ConfigSet], inputs: DeclaredInputs, node: ManagedNode
    ) -> DesiredState:
        """Return the state that these sets want for a host."""
        self._take(sets)
        if self._desired_state is None or not self._still_holds(inputs, node):
            # For a staged set, the revision that this host has counts.
            given = replace(inputs, config_sets=tuple(sets))
            contents = await self.contenter.make(self._desired, given, node)
            declared = drift.declarations(self._desired, contents, self.kinds)
            self._desired_state = DesiredState(self._desired, contents, declared, self.kinds)
            self._inputs, self._node = inputs, node
            self._passing = any(isinstance(one, Failure) and one.passing for one in contents.values())
        return self._desired_state

    def basis(self, inputs: DeclaredInputs, node: ManagedNode) -> tuple[DeclaredInputs, ManagedNode]:
        """Return the inputs of the last desired state, from which it can be made again elsewhere.

        They include the parts of the node's status from which templates were rendered.
        """
        status = self._node.status if self.templated and self._node is not None else ManagedNodeStatus()
        peers = self._inputs.nodes if self.reads_peers else ()
        kept = DeclaredInputs(inputs.config_sets, peers, inputs.secrets, inputs.config_maps)
        return kept, msgspec.structs.replace(node, status=status)

    def _take(self, sets: Sequence[ConfigSet]) -> None:
        """Merge again if the sets differ from the last ones."""
        if self._sets is not None and len(sets) == len(self._sets) and all(map(_same_set, sets, self._sets)):
            return
        self._sets = tuple(sets)
        files = [file for one in sets for file in one.spec.files if references.refers(file)]
        self.templated = bool(files)
        self.reads_peers = any(map(templates.reads_peers, files))
        self._desired = merge.merge(sets, self.kinds)
        self._desired_state = self._needed_by = None

    def _still_holds(self, inputs: DeclaredInputs, node: ManagedNode) -> bool:
        if not self.templated:
            return True
        old = self._inputs
        return (
            self._node is not None
            and not self._passing
            and _same_node(self._node, node)
            and old.secrets == inputs.secrets
            and old.config_maps == inputs.config_maps
            and old.withheld == inputs.withheld
            and (not self.reads_peers or _same_nodes(old.nodes, inputs.nodes))
        )


def visible(node: ManagedNode, *, own: bool = False) -> tuple[object, ...]:
    """Return the part of a node whose change has templates rendered again: what it is, not what it last did.

    Templates see the whole status. If a time stamp or a version in it were a reason, two hosts that
    write each other's into a file would never come to rest; nor would one host whose `own` passes are told
    in it.
    """
    status = msgspec.structs.replace(
        node.status, observed_generation=0, conditions=[], configsets=[], drift=None, left_drifts=None,
        file_backups={}, last_file_bucket_gc=None, heartbeat=None, upgrade=None, orphans=None,
    )  # fmt: skip
    passing = {PROGRESSING, conditions.READY} if own else {PROGRESSING}
    states = [(one.type, one.status) for one in node.status.conditions if one.type not in passing]
    return node.metadata.labels, status, states


def _same_set(one: ConfigSet, other: ConfigSet) -> bool:
    return one is other or (one.metadata.name == other.metadata.name and one.spec == other.spec)


def _same_node(one: ManagedNode, other: ManagedNode) -> bool:
    if one is other:
        return True
    same = one.metadata.name == other.metadata.name and one.metadata.labels == other.metadata.labels
    return same and one.spec == other.spec and _same_status(one.status, other.status)


def _same_status(one: ManagedNodeStatus, other: ManagedNodeStatus) -> bool:
    return one is other or one == other


def _same_nodes(one: Sequence[ManagedNode], other: Sequence[ManagedNode]) -> bool:
    return len(one) == len(other) and all(map(_same_node, one, other))
