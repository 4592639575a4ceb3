"""What proposed ConfigSets would do on this host. They are never brought about.

    ConfigSetPreview  ->  sets in place of those of the same name  ->  a plan  ->  less what is to be done
                          anyway  ->  less what others must not see

No program of a proposal is run, not even those that only ask whether another one has to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from nodemanager.agent.declared import known_sets
from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.declarations import Declarations
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.desired_state import DesiredState
from nodemanager.agent.drift import drift
from nodemanager.agent.passes.converge import Converger
from nodemanager.agent.passes.pruning import Pruner
from nodemanager.agent.tasks.attempts import Exclusive
from nodemanager.agent.tasks.disclosing import Disclosure
from nodemanager.agent.tasks.references import TaskReferences
from nodemanager.api.common import configsetpreview, matching
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetpreview import CONFIG_SET_PREVIEWS, BadProposal
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.task_previews import PreviewedChange, ProposalRef, TaskPreview
from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.process.runner import RunError
from nodemanager.host.process.threads import in_thread
from nodemanager.kube.core import CONFIG_MAPS, SECRETS
from nodemanager.plan import merge, templates
from nodemanager.plan.data import layers
from nodemanager.plan.desired import Content
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.set_doubts import SetsTold
from nodemanager.plan.steps import Step, changes
from nodemanager.plan.tasks import previewed
from nodemanager.rendering import referring

READ_SECONDS: Final = 10.0
"""How long an API may be away in total: the person who asks does not wait for long."""


@dataclass(frozen=True, slots=True)
class ProposedState:
    """The state that the host would have, or should have now."""

    state: DesiredState
    told: SetsTold | None = None
    """What the API would report about sets; None = nothing is taken back."""
    keys: Mapping[str, bytes] = field(default_factory=dict)
    """Keys by path of contents made of Secrets: only readers of the Secrets know them."""


class Basis(NamedTuple):
    """The declarations at one moment: passes go on while a proposal is read and rendered."""

    state: DesiredState
    sets: Sequence[ConfigSet]
    """The sets of this host, each in the revision that it has."""
    everything: Sequence[ConfigSet]
    """All sets of the API."""
    inputs: DeclaredInputs
    node: ManagedNode

    def told(self, everything: Iterable[ConfigSet], chosen: Sequence[ConfigSet]) -> SetsTold:
        """Return what follows for this host if the API has these sets."""
        return known_sets.told(tuple(everything), chosen, self.node.metadata)


@dataclass(frozen=True, slots=True)
class Proposals:
    """Plans proposals."""

    converger: Converger
    declared: Declarations
    references: TaskReferences
    exclusive: Exclusive
    first_pass: Callable[[], Awaitable[None]]
    """Waits until the present declarations are known."""
    observe_only: Callable[[DesiredState], AbstractSet[ResourceId]]
    """Tells what a pass would leave alone after a foreign change."""

    async def answer(self, ref: ProposalRef) -> TaskPreview:
        """Return what a proposal would do here."""
        preview = await self.references.find(CONFIG_SET_PREVIEWS, ref.name, READ_SECONDS)
        if preview is None:
            raise HostError(
                f"cannot preview {ref.name}: it is gone, as nobody waits for the answer any more, or this"
                " host may not read it, as its Role is older than previews; ask again, upgrade the operator"
            )
        try:
            sets = configsetpreview.sets_of(preview, ref.digest)
        except BadProposal as error:
            raise HostError(str(error)) from None
        await self.first_pass()
        basis = self._basis()
        sets = _with_uids(sets, basis.everything)
        instead = {*preview.spec.removed, *(one.metadata.name for one in sets)}
        others = [one for one in basis.sets if one.metadata.name not in instead]
        chosen = [*others, *_meant(sets, basis.node)]
        staying = [one for one in basis.everything if one.metadata.name not in instead]
        wanted = await self._wanted(chosen, basis)
        return await self.compared(
            replace(wanted, told=basis.told([*staying, *sets], chosen)),
            ProposedState(basis.state, basis.told(basis.everything, basis.sets)),
        )

    async def compared(self, wanted: ProposedState, now: ProposedState) -> TaskPreview:
        """Return what would be done beyond what is to be done now."""
        then, today = wanted.state.desired, now.state.desired
        async with self.exclusive():
            proposed, anyway = await self._plan(wanted.state), await self._plan(now.state)
            going, gone = await self._taken_back(wanted), await self._taken_back(now)
        steps = previewed.steps(proposed, anyway, previewed.redeclared(then, today))
        before = {one.id for one in gone}
        released = previewed.released(then, today, [one for one in going if one.id not in before])
        return await in_thread(lambda: self._told(steps, released, wanted, now))

    async def _plan(self, state: DesiredState) -> list[Step]:
        looking = replace(self.converger.observer, run=_run_nothing)
        steps = await self.converger.preview(state.desired, state.contents, looking, self.observe_only(state))
        return [*steps, *previewed.held(state.desired)]

    async def _taken_back(self, wanted: ProposedState) -> list[Step]:
        """Return what is done about what no set declares any more."""
        ledger = self.converger.records.ledger
        if ledger is None or wanted.told is None:
            return []
        return changes(await Pruner(self.converger, ledger).preview(wanted.state.desired, wanted.told))

    def _told(
        self,
        steps: Sequence[Step],
        released: Sequence[PreviewedChange],
        wanted: ProposedState,
        now: ProposedState,
    ) -> TaskPreview:
        tree = Tree(self.converger.observer.tree.root)
        try:
            telling = Disclosure(tree, wanted.state, now.state, wanted.keys)
            return previewed.summary([*map(telling.change, steps), *released])
        finally:
            tree.close()

    def _basis(self) -> Basis:
        """Return what is declared now; to templates, we and others are as in the last pass.

        Otherwise news of hosts would look like changes.
        """
        states, inputs = self.declared.desired_states, self.declared.sources.inputs()
        state = states.last
        if state is None:
            raise HostError("cannot preview: what is declared now is not known yet; ask again")
        node = DeclaredInputs(nodes=(self.references.node(),)).node(self.declared.identity)
        known, seen = states.basis(DeclaredInputs(), node)
        node = seen if states.templated else node
        inputs = replace(inputs, nodes=known.nodes or inputs.nodes).knowing(node)
        return Basis(state, states.sets, inputs.config_sets, inputs, node)

    async def _wanted(self, sets: Sequence[ConfigSet], basis: Basis) -> ProposedState:
        renderer, kinds, node = self.references.renderer, self.declared.desired_states.kinds, basis.node
        needed = await referring.referenced(renderer, sets, node)
        until = asyncio.get_running_loop().time() + READ_SECONDS
        withheld = self.declared.sources.reachability.withheld()
        secrets = {} if withheld else await self._found(SECRETS, needed.secrets, until)
        config_maps = await self._found(CONFIG_MAPS, needed.config_maps, until)
        inputs = replace(
            basis.inputs,
            config_sets=tuple(sets),
            secrets={name: one.values for name, one in secrets.items()},
            config_maps={name: one.values for name, one in config_maps.items()},
        )
        desired = merge.merge(sets, kinds)
        contents = await Contenter(renderer).make(desired, inputs, node)
        keys: dict[str, bytes] = {}
        for item in desired.files:
            file = item.declaration
            made = contents.get(file.path)
            if isinstance(made, Content) and made.secret:
                names = dict.fromkeys((await referring.referenced(renderer, (), node, (file,))).secrets)
                if templates.reads_data(file):
                    names |= dict.fromkeys(layers.names(layers.layers(sets, node), SECRETS.kind))
                if secrets.keys() >= names.keys():
                    keys[file.path] = "".join(secrets[one].metadata.uid for one in names).encode()
        declared = drift.declarations(desired, contents, kinds)
        return ProposedState(DesiredState(desired, contents, declared, kinds), keys=keys)

    async def _found(self, resource: Any, names: Sequence[str], until: float) -> dict[str, Any]:
        """Return those objects that this host may read; all of them together are not waited for long."""
        found: dict[str, Any] = {}
        for name in names:
            left = until - asyncio.get_running_loop().time()
            found[name] = await self.references.find(resource, name, left)
        return {name: one for name, one in found.items() if one is not None}


def _with_uids(sets: Sequence[ConfigSet], known: Sequence[ConfigSet]) -> list[ConfigSet]:
    """Return proposals as the sets that they are to change: only those can give up what they declared."""
    uids = {one.metadata.name: one.metadata.uid for one in known}
    return [
        msgspec.structs.replace(
            one, metadata=msgspec.structs.replace(one.metadata, uid=uids.get(one.metadata.name, ""))
        )
        for one in sets
    ]


def _meant(sets: Sequence[ConfigSet], node: ManagedNode) -> list[ConfigSet]:
    return [one for one in sets if matching.matches(one, node.metadata.labels)]


async def _run_nothing(*_args: Any, **_options: Any) -> NoReturn:
    raise RunError("a preview runs no programs")
