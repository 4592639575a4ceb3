"""What was told before a long pass may not be so any more when something is to be taken back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from nodemanager.agent.declared.declarations import Declarations, Declared
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.passes.host_pass import HostPass
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec, ConfigSetStatus
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.rollout import SCALE, STAGED, RevisionRef, Rollout, RolloutStatus
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan.resources import package_id
from nodemanager.plan.set_doubts import SetsTold

WEB = ConfigSet(metadata=ObjectMeta(name="web", uid="1", generation=1))


def changed(**meta: Any) -> ConfigSet:
    return msgspec.structs.replace(WEB, metadata=msgspec.structs.replace(WEB.metadata, **meta))


def rolled_out(threshold: int, generation: int = 1) -> ConfigSet:
    """Return the set in stages, as far as it is."""
    stable, new = RevisionRef(name="1", digest="1"), RevisionRef(name="2", digest="2")
    status = RolloutStatus(generation, stable=stable, next=new, threshold=threshold)
    spec = ConfigSetSpec(rollout=Rollout(strategy=STAGED))
    return msgspec.structs.replace(WEB, spec=spec, status=ConfigSetStatus(rollout=status))


class World:
    """An API that says something else by and by, and a pass that takes its time."""

    def __init__(self) -> None:
        self.sets: tuple[ConfigSet, ...] = (WEB,)
        self.offline = self.interrupted = False
        self.labels: dict[str, str] = {}
        self.asked, self.pruned = list[str](), list[object]()
        node = SimpleNamespace(known=lambda: ManagedNode(metadata=ObjectMeta(uid="node", labels=self.labels)))
        sources: Any = self
        nothing: Any = None
        self.declared = Declarations(node, nothing, sources, nothing, nothing, nothing)  # type: ignore[arg-type]
        requests: Any = SimpleNamespace(pass_soon=lambda: self.asked.append("a pass"))
        pruner: Any = SimpleNamespace(run=self.run, wait_anew=lambda: self.asked.append("to wait"))
        self.host_pass = HostPass(
            self.declared, nothing, nothing, nothing, requests, nothing, nothing, pruner
        )

    @property
    def reachability(self) -> World:
        return self

    @property
    def config_sets(self) -> World:
        return self

    def inputs(self) -> DeclaredInputs:
        return DeclaredInputs(self.sets)

    async def run(self, _desired: object, told: object, unfinished: object) -> list[Any]:
        self.pruned.append((told, unfinished))
        return []

    def told(self) -> Declared:
        state: Any = SimpleNamespace(desired=None)
        return Declared((), state, told=SetsTold(), basis=self.declared._basis(self.inputs()))


@pytest.mark.parametrize(
    "news",
    [
        {"sets": (changed(generation=2),)},
        {"sets": (changed(labels={"role": "db"}),)},
        {"sets": (WEB, changed(uid="2"))},
        {"sets": ()},
        {"sets": (rolled_out(SCALE),)},
        {"offline": True},
        {"interrupted": True},
        {"labels": {"role": "db"}},
    ],
)
async def test_news_that_came_meanwhile_leave_it_to_the_next_pass(news: dict[str, Any]) -> None:
    world = World()
    world.sets = (rolled_out(0),) if news.get("sets") == (rolled_out(SCALE),) else world.sets
    before = world.told()
    for name, value in news.items():
        setattr(world, name, value)
    assert await world.host_pass._prune(before, ()) == []
    assert (world.pruned, world.asked) == ([], ["a pass"])


async def test_what_is_as_it_was_told_is_taken_back() -> None:
    world = World()
    failed = Result(package_id("db"), ("db",), ResourceOutcome.FAILED, "no such package")
    world.sets = (rolled_out(0),)
    before = world.told()
    world.sets = (rolled_out(0, generation=2),)  # in its status only, and not for this host
    await world.host_pass._prune(before, [failed])
    assert (world.pruned, world.asked) == ([(before.told, {"db"})], [])
    await world.host_pass._prune(Declared((), before.desired_state), ())  # the API says nothing
    assert (len(world.pruned), world.asked) == (1, ["to wait"])
