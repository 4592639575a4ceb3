"""ConfigSets for other hosts, on both APIs: they cost nothing until they are ours."""

from __future__ import annotations

import re

from support.agent_process import Agent, Api, Starts, owned
from support.apiserver import free_port

THEIRS = {"role": "db"}
PASSES = re.compile(r'^controller_runtime_reconcile_total\{controller="host".*\} (\S+)$', re.MULTILINE)


async def passes(agent: Agent) -> float:
    """Return how many passes an agent has made."""
    _, text = await agent.get(agent.metrics, "/metrics")
    return sum(map(float, PASSES.findall(text)))


async def test_a_set_of_others_costs_no_pass_and_is_there_as_soon_as_it_is_ours(
    api: Api, start: Starts
) -> None:
    await api.config_set("theirs", THEIRS, files=[owned("/etc/theirs", content="0")])
    await api.config_set("ours", files=[owned("/etc/ours", content="0")])
    agent = start(metrics=f"127.0.0.1:{free_port()}")
    await api.ready("ours")
    before = await passes(agent)
    for number in range(1, 6):
        await api.respec("theirs", files=[owned("/etc/theirs", content=str(number))])
    await api.config_set("late", THEIRS, files=[owned("/etc/late", content="late")])
    await api.respec("ours", files=[owned("/etc/ours", content="1")])
    await agent.reads("/etc/ours", "1")  # heard after all of that
    assert await passes(agent) <= before + 3  # for ours, and for what it reported

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
