"""What is declared for this host: which ConfigSets match, what they refer to, what the host shall be then."""

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
    """What one pass shall bring about."""

    sets: Sequence[ConfigSet]
    desired_state: DesiredState
    waits: Mapping[str, ChangeWait] = field(default_factory=dict)
    """Why sets have another revision than they shall have, by name."""
    told: SetsTold | None = None
    """What the API says of all sets; None = it is not there to say anything."""
    basis: object = None
    """What that follows from."""


@dataclass(slots=True)
class Declarations:
    """Asks the API, and while it is away what the host remembers of it."""

    node: NodeObject
    identity: Identity
    sources: DeclaredSources
    staged: StagedSets
    desired_states: DesiredStateCache
    first_look: Callable[[ManagedNode], Awaitable[ManagedNode]]
    """Fills in the status of a host that has not reported yet: its templates need not wait for that."""
    heard: Callable[[ManagedNode], None] = lambda _node: None
    """Told of our ManagedNode before anything is done about it."""
    chose: Callable[[Sequence[ConfigSet]], None] = lambda _sets: None
    """Told which sets are for this host, or were, before anything is done about them."""
    known_sets: KnownSets | None = None
    """Tells which sets there are no longer; None = nobody wants to know."""
    own: ObjectMeta | None = None
    """Who the host was in the last pass; None before the first."""

    @property
    def offline(self) -> bool:
        """Whether the API is not to be asked for anything now."""
        return self.sources.reachability.offline

    async def own_node(self) -> ManagedNode:
        """Return our ManagedNode; without the API as it was, with the labels that we give it anyway."""
        known = self.node.known() or self.sources.memory.node
        if known is None or not self.offline:
            try:
                node = await self.node.ensure()
                return node if node.status.release else await self.first_look(node)
            except errors.KubeError:
                # Whatever became of our request, `offline` follows from it.
                if known is None or not self.offline:
                    raise
        return DeclaredInputs(nodes=(known,)).node(self.identity)

    async def current(self, node: ManagedNode) -> Declared:
        """Return what is declared for our ManagedNode as of now, and remember it."""
        self.heard(node)
        told_of, (node, inputs) = node, await self._known(node)
        self.own = node.metadata
        everything = inputs.config_sets
        staying = [one for one in everything if not is_leaving(one)]
        chosen = await self.staged.choose(staying, node.metadata)
        sets = replace(inputs, config_sets=tuple(chosen)).matching(node)
        # What is remembered is not all that there is: a set that is missing there is not gone.
        known, basis = self.known_sets if node is told_of else None, self._basis(inputs)
        self.chose(sets if known is None else known.concerned(everything, sets))
        told = await known.ask(everything, sets, node.metadata) if known is not None else None
        await self.sources.follow(await self.desired_states.references(sets, node))
        # Once more: what was referred to for the first time is there only now.
        inputs = self.sources.inputs().knowing(node)
        desired_state = await self.desired_states.make(sets, inputs, node)
        await self._remember(sets, inputs, node)
        return Declared(sets, desired_state, self.staged.waits, told, basis)

    def is_current(self, declared: Declared) -> bool:
        """Tell whether what decides which sets are for this host has not changed since a pass began."""
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
        """Keep what this pass is made of for a start without the API."""
        memory = self.sources.memory
        if self.sources.live:
            kept, own = self.desired_states.basis(inputs, node)
            await in_thread(lambda: memory.keep(sets, kept, own, peers=self.desired_states.reads_peers))
        if inputs.withheld and memory.forget_secrets():
            log.warning("removed the Secrets that this host knew: %s", inputs.withheld)
