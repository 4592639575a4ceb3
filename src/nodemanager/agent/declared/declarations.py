"""What is declared for this host: the matching ConfigSets, what they refer to, and the state that follows."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.desired_state import DesiredState, DesiredStateCache
from nodemanager.agent.declared.known_sets import KnownSets
from nodemanager.agent.declared.sources import DeclaredSources
from nodemanager.agent.declared.staged_sets import StagedSets
from nodemanager.agent.report.node_object import NodeObject
from nodemanager.api.common import choosing
from nodemanager.api.common.choosing import ChangeWait
from nodemanager.api.common.configset import ConfigSet, is_leaving
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.host.inventory.identity import Identity
from nodemanager.host.process.threads import in_thread
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan.set_doubts import SetsTold

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Declared:
    """The state that one pass should reach."""

    sets: Sequence[ConfigSet]
    desired_state: DesiredState
    waits: Mapping[str, ChangeWait] = field(default_factory=dict)
    """Why sets do not have the revision that they should have, by name."""
    told: SetsTold | None = None
    """What the API reports about all sets; None = it is not reachable."""
    basis: object = None
    """The values that the result depends on."""


@dataclass(slots=True)
class Declarations:
    """Reads declarations from the API, and from the host's memory while the API is away."""

    node: NodeObject
    identity: Identity
    sources: DeclaredSources
    staged: StagedSets
    desired_states: DesiredStateCache
    first_look: Callable[[ManagedNode], Awaitable[ManagedNode]]
    """Fills in the status of a host that has not reported yet, so that its templates need not wait."""
    heard: Callable[[ManagedNode], None] = lambda _node: None
    """Called with our ManagedNode before the pass acts on it."""
    chose: Callable[[Sequence[ConfigSet]], None] = lambda _sets: None
    """Called with the sets for this host, now or before, before the pass acts on them."""
    known_sets: KnownSets | None = None
    """Returns which sets do not exist any more; None = nobody asks."""
    own: ObjectMeta | None = None
    """The identity of the host in the last pass; None before the first."""

    @property
    def offline(self) -> bool:
        """Whether no request should be sent to the API now."""
        return self.sources.reachability.offline

    async def own_node(self) -> ManagedNode:
        """Return our ManagedNode; without the API, as it was, but with the labels that we give it."""
        known = self.node.known() or self.sources.memory.node
        if known is None or not self.offline:
            try:
                node = await self.node.ensure()
                return node if node.status.release else await self.first_look(node)
            except errors.KubeError:
                # `offline` follows from the result of our request.
                if known is None or not self.offline:
                    raise
        return DeclaredInputs(nodes=(known,)).node(self.identity)

    async def current(self, node: ManagedNode) -> Declared:
        """Return what is declared for our ManagedNode now, and remember it."""
        self.heard(node)
        told_of, (node, inputs) = node, await self._known(node)
        self.own = node.metadata
        everything = inputs.config_sets
        staying = [one for one in everything if not is_leaving(one)]
        chosen = await self.staged.choose(staying, node.metadata)
        sets = replace(inputs, config_sets=tuple(chosen)).matching(node)
        # The memory does not have all sets: a set that is missing there need not be deleted.
        known, basis = self.known_sets if node is told_of else None, self._basis(inputs)
        self.chose(sets if known is None else known.concerned(everything, sets))
        told = await known.ask(everything, sets, node.metadata) if known is not None else None
        await self.sources.follow(await self.desired_states.references(sets, node))
        # Again: objects that were referred to for the first time are only here now.
        inputs = self.sources.inputs().knowing(node)
        desired_state = await self.desired_states.make(sets, inputs, node)
        await self._remember(sets, inputs, node)
        return Declared(sets, desired_state, self.staged.waits, told, basis)

    def is_current(self, declared: Declared) -> bool:
        """Tell whether the choice of sets for this host has not changed since a pass began."""
        if self.offline or self.sources.config_sets.interrupted:
            return False
        return declared.basis == self._basis(self.sources.inputs())

    def _basis(self, inputs: DeclaredInputs) -> object:
        """Return what decides which sets are for this host: labels, uids and generations, no contents."""
        own = self.node.known()
        host, peers = own.metadata if own is not None else ObjectMeta(), choosing.by_name(inputs.config_sets)
        sets = {
            one.metadata.uid: (
                one.metadata.generation, one.metadata.labels, one.metadata.deletion_timestamp,
                choosing.chosen(one, host, peers),
            )
            for one in inputs.config_sets
        }  # fmt: skip
        return sets, host.uid, host.labels, host.deletion_timestamp

    async def _known(self, node: ManagedNode) -> tuple[ManagedNode, DeclaredInputs]:
        """Return everything that is declared, with the host that it was read for.

        Without the API, sets that only its new labels make its own cannot be read: it stays what it was.
        """
        try:
            await self.sources.complete(node.metadata.labels)
        except errors.KubeError as error:
            if not self.offline or (before := self.sources.memory.node) is None:
                raise
            log.warning("this host goes on with the labels that it had: %s", error)
            return before, self.sources.memory.inputs()
        return node, self.sources.inputs()

    async def _remember(self, sets: Sequence[ConfigSet], inputs: DeclaredInputs, node: ManagedNode) -> None:
        """Keep the inputs of this pass for a start without the API."""
        memory = self.sources.memory
        if self.sources.live:
            kept, own = self.desired_states.basis(inputs, node)
            await in_thread(lambda: memory.keep(sets, kept, own, peers=self.desired_states.reads_peers))
        if inputs.withheld and memory.forget_secrets():
            log.warning("removed the Secrets that this host knew: %s", inputs.withheld)
