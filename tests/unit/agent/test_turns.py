"""Passes and repairs work on one host: whatever both use is used by one of them at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.agent import service
from nodemanager.agent.assembly import BodyOptions
from nodemanager.agent.service import Agent
from nodemanager.agent.standing import Standing
from nodemanager.agent.wishes import Wish
from nodemanager.agent.world import World
from nodemanager.api import errors
from nodemanager.api.managednode import ManagedNode
from nodemanager.api.objects import ObjectMeta
from nodemanager.client.config import ClientConfig
from nodemanager.host.bucket import Bucket
from nodemanager.plan.resources import ResourceId
from nodemanager.runtime.metrics import Registry
from support.clients import connected
from support.root_tree import config_set


@pytest.fixture(name="agent")
async def _agent(tmp_path: Path) -> AsyncIterator[Agent]:
    """An agent that knows what is wanted, and is alone."""
    async with connected(ClientConfig("http://127.0.0.1:1")) as client:
        options = service.AgentOptions(body=BodyOptions(str(tmp_path), "web1"))
        agent = service.build(client, options, Registry())
        own = ManagedNode(metadata=ObjectMeta(name="web1", namespace="nodemanager"))
        agent.memory.keep([config_set("s")], World(), own, peers=False)
        agent.contact.failed("nobody is there")
        yield agent
        agent.close()


async def test_what_is_wanted_changes_between_repairs_and_not_under_their_hands(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: dict[str, bool] = {}
    begin, collect = Standing.begin, Bucket.collect

    def begun(standing: Standing, wish: Wish) -> frozenset[ResourceId]:
        turns["begin"] = agent.body.converger.turn.locked()
        return begin(standing, wish)

    def collected(bucket: Bucket) -> int:
        turns["collect"] = agent.body.converger.turn.locked()
        return collect(bucket)

    monkeypatch.setattr(Standing, "begin", begun)
    monkeypatch.setattr(Bucket, "collect", collected)
    await agent.reconciler.reconcile(agent.reconciler.node.key)
    assert turns == {"begin": True, "collect": True}
    assert not agent.body.converger.turn.locked()


async def test_looking_at_the_host_closes_no_directory_that_a_repair_works_in(agent: Agent) -> None:
    working = agent.body.tree.folder("/")
    agent.reconciler.eyes.tree.forget()
    assert agent.body.tree.folder("/") == working
    await agent.reconciler.eyes.look(agent.memory.node or ManagedNode())
    assert agent.body.tree._open


async def test_a_status_that_could_not_be_written_is_written_after_another_look(agent: Agent) -> None:
    reconciler: Any = agent.reconciler
    await reconciler.reconcile(reconciler.node.key)
    agent.contact.reached()
    reconciler.report(sight=True)
    key = reconciler._status_key
    for _ in range(2):  # nobody answers, and what was to be told is not forgotten
        with pytest.raises(errors.Unreachable):
            await reconciler.reconcile(key)
        agent.contact.reached()
        assert reconciler._look
