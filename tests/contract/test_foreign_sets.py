"""ConfigSets for other hosts, on both APIs: they cost nothing until they are ours."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable

import msgspec

from nodemanager.agent import requests
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.common.node_conditions import AGENT_SILENT
from nodemanager.client.patches import MergePatch
from nodemanager.kube import conditions
from support.agent_process import PATIENCE, Agent, Api, Starts, owned
from support.apiserver import free_port

THEIRS = {"role": "db"}
ANSWERS = re.compile(
    r'^controller_runtime_reconcile_total\{controller="host",result="([^"]*)"\} (\S+)$', re.MULTILINE
)
STATUS = "success"
"""How an answer ends that only writes the status; a pass says when the next one is due."""


async def passes(agent: Agent) -> float:
    """Return how many passes an agent has made, successful or not."""
    _, text = await agent.get(agent.metrics, "/metrics")
    return sum(float(count) for result, count in ANSWERS.findall(text) if result != STATUS)


async def has_settled(api: Api) -> None:
    """Wait until the agent has answered to a change of its own object, made now.

    It is called silent, and takes that back after ten times as long as it waits before a pass: whatever asked
    for a pass before has got it by then.
    """
    assert requests.STATUS_SECONDS >= 10 * requests.SETTLE_SECONDS
    marked = (await api.node()).status.conditions
    silent = conditions.Condition(type=conditions.READY, status="Unknown", reason=AGENT_SILENT)
    marked = conditions.set_condition(marked, silent, "2026-01-01T00:00:00Z")
    patch = MergePatch({"status": {"conditions": msgspec.to_builtins(marked)}})
    await api.client.patch(MANAGED_NODES, "web1", api.namespace, patch, subresource="status")
    await api.until(lambda node: conditions.is_true(node.status.conditions, conditions.READY))


async def costs(api: Api, agent: Agent, change: Awaitable[None], count: int) -> None:
    """Make a change, and see that it brings about so many passes: these, and no others."""
    before = await passes(agent)
    await change
    async with asyncio.timeout(PATIENCE):
        while await passes(agent) < before + count:  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.02)
    await has_settled(api)
    assert await passes(agent) == before + count


async def test_a_set_of_others_costs_no_pass_and_is_there_as_soon_as_it_is_ours(
    api: Api, start: Starts
) -> None:
    await api.config_set("theirs", THEIRS, files=[owned("/etc/theirs", content="0")])
    await api.config_set("ours", files=[owned("/etc/ours", content="0")])
    agent = start(metrics=f"127.0.0.1:{free_port()}")
    await api.ready("ours")
    await has_settled(api)
    for number in range(1, 6):
        await costs(api, agent, api.respec("theirs", files=[owned("/etc/theirs", content=str(number))]), 0)
    await costs(api, agent, api.config_set("late", THEIRS, files=[owned("/etc/late", content="late")]), 0)
    await costs(api, agent, api.respec("ours", files=[owned("/etc/ours", content="1")]), 1)
    assert agent.at("/etc/ours").read_text() == "1"

    await api.patch_node({"metadata": {"labels": THEIRS}})
    await api.ready("late", "ours", "theirs")
    assert (agent.at("/etc/theirs").read_text(), agent.at("/etc/late").read_text()) == ("5", "late")
    await api.respec("theirs", files=[owned("/etc/theirs", content="6")])
    await agent.reads("/etc/theirs", "6")

    await api.patch_node({"metadata": {"labels": {"role": None}}})
    await api.ready("ours")
    await api.respec("theirs", files=[owned("/etc/theirs", content="7")])
    agent.at("/etc/theirs").write_text("somebody's")
    await api.patch_node({"metadata": {"labels": THEIRS}})
    await agent.reads("/etc/theirs", "7")


async def test_a_host_that_starts_again_knows_its_own_sets_without_asking_twice(
    api: Api, start: Starts
) -> None:
    """Its memory says what it was labelled; what was done to its labels meanwhile, it finds out."""
    await api.config_set("ours", {"tier": "1"}, files=[owned("/etc/ours", content="0")])
    await api.config_set("theirs", THEIRS, files=[owned("/etc/theirs", content="0")])
    agent = start()
    await api.ready()
    await api.patch_node({"metadata": {"labels": {"tier": "1"}}})
    await api.ready("ours")
    assert agent.stop() == 0
    await api.patch_node({"metadata": {"labels": {"tier": None, **THEIRS}}})
    agent.start()
    await api.ready("theirs")
    assert agent.at("/etc/theirs").read_text() == "0"
