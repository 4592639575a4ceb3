"""What ConfigSets would do on this host that somebody only proposes. Nothing of them is ever brought about.

    ConfigSetPreview  ->  sets in place of those of the same name  ->  a plan  ->  less what is to be done
                          anyway  ->  less what others must not see

No program of a proposal is run, not even those that only ask whether another one has to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.declarations import Declarations
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.desired_state import DesiredState
from nodemanager.agent.passes.converge import Converger
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
from nodemanager.plan import merge
from nodemanager.plan.desired import Content, Contents, Desired, Failure
from nodemanager.plan.steps import Step
from nodemanager.plan.tasks import previewed
from nodemanager.plan.templates import references
from nodemanager.rendering import referring

READ_SECONDS: Final = 10.0
"""How long an API may be away: who asks does not wait for long."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the host would be."""

    desired: Desired
    contents: Contents
    keys: Mapping[str, bytes]
    """By path of what is made of Secrets: what only those know who may read them."""


@dataclass(frozen=True, slots=True)
class Proposals:
    """Plans proposals."""

    converger: Converger
    declared: Declarations
    references: TaskReferences
    exclusive: Exclusive
    first_pass: Callable[[], Awaitable[None]]
    """Waits until what is declared now is known."""

    async def answer(self, ref: ProposalRef) -> TaskPreview:
        """Return what a proposal would do here."""
        preview = await self.references.find(CONFIG_SET_PREVIEWS, ref.name, READ_SECONDS)
        if preview is None:
            raise HostError(f"cannot preview {ref.name}: it is gone, as nobody waits for the answer any more")
        try:
            sets = configsetpreview.sets_of(preview, ref.digest)
        except BadProposal as error:
            raise HostError(str(error)) from None
        await self.first_pass()
        states = self.declared.desired_states
        if states.last is None:
            raise HostError("cannot preview: what is declared now is not known yet; ask again")
        node = self._node()
        instead = {*preview.spec.removed, *(one.metadata.name for one in sets)}
        others = [one for one in states.sets if one.metadata.name not in instead]
        wanted = await self._wanted([*others, *_meant(sets, node)], node)
        return await self.compared(wanted, states.last)

    async def compared(self, wanted: Wanted, now: DesiredState) -> TaskPreview:
        """Return what would be done beyond what is to be done now."""
        async with self.exclusive():
            proposed = await self._plan(wanted.desired, wanted.contents)
            anyway = await self._plan(now.desired, now.contents)
        found = await self._told(previewed.steps(proposed, anyway), wanted, now)
        return previewed.summary([*found, *previewed.released(wanted.desired, now.desired)])

    async def _plan(self, desired: Desired, contents: Contents) -> list[Step]:
        looking = replace(self.converger.observer, run=_run_nothing)
        steps = await self.converger.preview(desired, contents, looking)
        return [*steps, *previewed.held(desired)]

    async def _told(self, steps: Sequence[Step], wanted: Wanted, now: DesiredState) -> list[PreviewedChange]:
        tree = Tree(self.converger.observer.tree.root)
        telling = Disclosure(
            tree,
            _literal(wanted.desired),
            # What cannot be made now may have been made of a Secret before, and still be there.
            frozenset(path for path, one in now.contents.items() if isinstance(one, Failure) or one.secret),
            {
                path: one.digest
                for path in _literal(now.desired)
                if isinstance(one := now.contents.get(path), Content)
            },
            wanted.keys,
        )
        try:
            return await in_thread(lambda: [telling.change(step) for step in steps])
        finally:
            tree.close()

    async def _wanted(self, sets: Sequence[ConfigSet], node: ManagedNode) -> Wanted:
        renderer, sources = self.references.renderer, self.declared.sources
        needed = await referring.referenced(renderer, sets, node)
        secrets = {} if sources.reachability.withheld() else await self._found(SECRETS, needed.secrets)
        config_maps = await self._found(CONFIG_MAPS, needed.config_maps)
        inputs = replace(
            sources.inputs().knowing(node),
            config_sets=tuple(sets),
            secrets={name: one.values for name, one in secrets.items()},
            config_maps={name: one.values for name, one in config_maps.items()},
        )
        desired = merge.merge(sets, self.declared.desired_states.kinds)
        contents = await Contenter(renderer).make(desired, inputs, node)
        keys: dict[str, bytes] = {}
        for item in desired.files:
            made = contents.get(item.id.name)
            if isinstance(made, Content) and made.secret:
                names = (await referring.referenced(renderer, (), node, (item.declaration,))).secrets
                uids = [secrets[name].metadata.uid for name in names if name in secrets]
                keys[item.id.name] = "".join(uids).encode()
        return Wanted(desired, contents, keys)

    async def _found(self, resource: Any, names: Sequence[str]) -> dict[str, Any]:
        """Return those objects that this host may read."""
        found = {name: await self.references.find(resource, name, READ_SECONDS) for name in names}
        return {name: one for name, one in found.items() if one is not None}

    def _node(self) -> ManagedNode:
        """Return who we are to templates: as in the last pass, lest news of our own look like a change."""
        states = self.declared.desired_states
        node = DeclaredInputs(nodes=(self.references.node(),)).node(self.declared.identity)
        return states.basis(DeclaredInputs(), node)[1] if states.templated else node


def _meant(sets: Sequence[ConfigSet], node: ManagedNode) -> list[ConfigSet]:
    return [one for one in sets if matching.matches(one, node.metadata.labels)]


def _literal(desired: Desired) -> frozenset[str]:
    """Return the files whose content is in their declaration."""
    return frozenset(item.id.name for item in desired.files if not references.refers(item.declaration))


async def _run_nothing(*_args: Any, **_options: Any) -> NoReturn:
    raise RunError("a preview runs no programs")
