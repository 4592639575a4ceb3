"""Passes and repairs work on one host: whatever both use is used by one of them at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from nodemanager.agent.declared.desired_state import DesiredState
from nodemanager.agent.parts import Agent
from nodemanager.agent.passes.converge import Converger
from nodemanager.agent.passes.host_state import HostState
from nodemanager.agent.report.host_inspector import HostInspector
from nodemanager.agent.report.node_object import NodeObject
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.host.base import HostError
from nodemanager.host.files.bucket import Bucket
from nodemanager.host.results import Result
from nodemanager.kube import conditions
from nodemanager.plan.resources import ResourceId
from support.fake_tools import MemoryLocks
from support.lone_agent import lone_agent
from support.memory_host import Host
from support.root_tree import config_set, needs_root, outcomes


@pytest.fixture(name="agent")
async def _agent(tmp_path: Path) -> AsyncIterator[Agent]:
    """An agent that knows what is wanted, and is alone."""
    async with lone_agent(tmp_path) as agent:
        yield agent


async def test_what_is_wanted_changes_between_repairs_and_not_under_their_hands(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: dict[str, bool] = {}
    begin, collect = HostState.begin, Bucket.collect

    def begun(host_state: HostState, desired_state: DesiredState) -> frozenset[ResourceId]:
        turns["begin"] = agent.managed_host.converger.host_lock.locked()
        return begin(host_state, desired_state)

    def collected(bucket: Bucket) -> int:
        turns["collect"] = agent.managed_host.converger.host_lock.locked()
        return collect(bucket)

    monkeypatch.setattr(HostState, "begin", begun)
    monkeypatch.setattr(Bucket, "collect", collected)
    await agent.host_pass.run()
    assert turns == {"begin": True, "collect": True}
    assert not agent.managed_host.converger.host_lock.locked()


async def test_looking_at_the_host_closes_no_directory_that_a_repair_works_in(agent: Agent) -> None:
    working = agent.managed_host.tree.folder("/")
    inspector = agent.writer.inspector
    assert isinstance(inspector, HostInspector)
    inspector.tree.forget()
    assert agent.managed_host.tree.folder("/") == working
    await inspector.look(agent.sources.memory.node or ManagedNode())
    assert agent.managed_host.tree._open


async def test_a_status_that_could_not_be_written_is_written_after_another_look(agent: Agent) -> None:
    await agent.host_pass.run()
    agent.reachability.reached()
    agent.writer.request(look=True)
    for _ in range(2):  # nobody answers, and what was to be told is not forgotten
        await agent.writer.answer()
        assert agent.reachability.offline
        agent.reachability.reached()
        assert agent.writer._look


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (HostError("cannot lock the state: no space"), "cannot lock the state: no space"),
        (KeyError("secret"), "KeyError"),
    ],
)
async def test_a_host_whose_passes_break_off_does_not_call_itself_ready(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    written: list[ManagedNodeStatus] = []
    broken = [error]

    async def ensure(_: NodeObject) -> ManagedNode:
        found = agent.sources.memory.node or ManagedNode()
        return msgspec.structs.replace(found, status=written[-1] if written else ManagedNodeStatus())

    async def write_status(_: NodeObject, node: ManagedNode, status: ManagedNodeStatus) -> ManagedNode:
        written.append(status)
        return msgspec.structs.replace(node, status=status)

    async def run(*_: object) -> list[Result]:
        if broken:
            raise broken[0]
        return []

    monkeypatch.setattr(NodeObject, "ensure", ensure)
    monkeypatch.setattr(NodeObject, "write_status", write_status)
    monkeypatch.setattr(Converger, "run", run)
    agent.reachability.reached()
    with pytest.raises(type(error)):
        await agent.host_pass.run()
    ready = conditions.get(written[-1].conditions, conditions.READY)
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "ApplyFailed")
    assert ready.message.startswith(f"the last pass was broken off: {said}")
    assert "secret" not in ready.message
    assert not conditions.is_true(agent.writer.local().conditions, conditions.READY)
    broken.clear()
    await agent.host_pass.run()
    assert conditions.is_true(written[-1].conditions, conditions.READY)
    broken.append(error)
    with pytest.raises(type(error)):
        await agent.host_pass.run()
    await agent.writer.answer()  # a repair is reported, and changes nothing about that
    assert not conditions.is_true(written[-1].conditions, conditions.READY)
    assert not conditions.is_true(agent.writer.local().conditions, conditions.READY)


class Queue(MemoryLocks):
    """Locks for which one has to wait; whoever waits looks whether others may work meanwhile."""

    def __init__(self, no_wait: MemoryLocks, host_lock: asyncio.Lock) -> None:
        super().__init__()
        self.no_wait = no_wait
        self.host_lock = host_lock
        self.waited: list[bool] = []

    @contextlib.asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        self.waited.append(self.host_lock.locked())
        if name not in self.busy:
            self.no_wait.busy.discard(name)  # it is ours now, whoever asks
        async with super().hold(name):
            yield


@needs_root
@pytest.mark.parametrize("comes", [True, False])
async def test_a_pass_that_waits_for_another_host_keeps_no_repair_from_work(
    tmp_path: Path, comes: bool
) -> None:
    host, no_wait = Host(tmp_path), MemoryLocks()
    path = str(tmp_path / "f")
    units = [
        {"name": "nginx", "ensure": "running", "subscribe_files": [path], "lock_group": "web"},
        {"name": "app", "ensure": "running", "subscribe_files": [path]},
    ]
    declared = config_set("a", files=[{"path": path, "content": "x"}], services=units)
    locks = Queue(no_wait, host.converger.host_lock)
    host.converger.tools.locks, host.converger.no_wait.locks = locks, no_wait
    no_wait.busy = {"web"}
    locks.busy = set() if comes else {"web"}
    results = outcomes(await host.converge(declared))
    assert results["service:nginx"] == ("changed" if comes else "blocked")
    assert results["service:app"] == "changed"
    assert locks.waited == [False]
    assert host.services.calls == ["start app", *(["restart nginx"] if comes else [])]
    assert [str(one) for one in host.journal.pending()] == ([] if comes else ["service:nginx"])
    host.tree.close()
