"""Drifts that are not put back at once: some in turn, within window and budget; some are left to a person.

The agents are real processes on folders; the operator is the real one, with its own rights.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.api.common.left_drifts import LeftDrifts
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.client.calls import Selection
from nodemanager.controllers import liveness
from nodemanager.controllers.node_maintenances import reconciling, repair_turns
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.repairs import turns
from nodemanager.kube import conditions, core, errors
from support import cli
from support.agent_process import Agent, Api, Starts, owned
from support.either import Place
from support.maintenance_site import ENTRIES, Site
from support.scripted_server import until

TURN, KEY, PERSON = "/etc/turn", "/etc/key", "/etc/person"
FILES = [
    owned(TURN, content="one\n", drift="in-turn"),
    owned(KEY, content="one\n", drift="in-turn", mode="0600"),
    owned(PERSON, content="one\n", drift="escalate"),
]
OPERATOR = (*ENTRIES, liveness.REGISTRATION)


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "LOOK_SECONDS", 0.5)
    monkeypatch.setattr(repair_turns, "SOON", 0.1)


def left(node: ManagedNode) -> LeftDrifts:
    return node.status.left_drifts or LeftDrifts()


def asked(node: ManagedNode) -> list[str]:
    return [one.configset for one in left(node).asks]


def is_over(node: ManagedNode) -> bool:
    claim = turns.claim_of(node)
    return claim is not None and claim.state is State.DONE and not asked(node)


async def why(place: Place, host: str) -> dict[str, dict[str, Any]]:
    """Return what `nodemanager why` says, by its codes."""
    where = ("--kubeconfig", str(place.kubeconfig), "-n", place.namespace, "-o", "json")
    ran = await asyncio.to_thread(cli.run, "why", host, *where)
    assert ran.code == 0, ran
    return {one["reason"]: one for one in json.loads(ran.stdout)["reasons"]}


async def told(api: Api, host: str, reason: str) -> str:
    """Wait until an Event tells something of a host, and return what."""
    deadline = time.monotonic() + 90
    while True:
        found = (await api.client.list(core.EVENTS, Selection(api.namespace))).items
        said = [one.message for one in found if one.involved_object.name == host and one.reason == reason]
        if said:
            return said[0]
        assert time.monotonic() < deadline, sorted((one.reason, one.message) for one in found)
        await asyncio.sleep(0.06)


async def changed(api: Api, agents: dict[str, Agent], paths: tuple[str, ...]) -> datetime:
    """Change files on all hosts behind the back of their agents, and wait until that is told."""
    began = datetime.now(UTC)
    for agent in agents.values():
        for path in paths:
            agent.at(path).write_text("mine, not theirs\n")
    for host in agents:
        node = await api.until(_has_told(len(paths)), host)
        assert node.status.drift is not None
        for one in node.status.drift.recent:
            assert datetime.fromisoformat(one.time) - began < timedelta(seconds=2), one
            assert one.outcome == "observed"
    return began


def _is_shut_out(node: ManagedNode) -> bool:
    alive = conditions.is_true(node.status.conditions, "Alive")
    return alive and [one.observed_generation for one in node.status.configsets] == [2]


def _has_told(count: int) -> Callable[[ManagedNode], bool]:
    return lambda node: node.status.drift is not None and len(node.status.drift.recent) == count


async def test_claim_7_a_drift_is_put_back_in_turn_in_the_window_or_a_person_is_called(
    place: Place, site: Site, api: Api, start: Starts
) -> None:
    agents = {host: start(host) for host in ("web1", "web2")}
    notify = {"name": "duty", "type": "webhook", "secretRef": {"name": "duty", "key": "url"}}
    operation = {"name": "conf", "type": "realtime", "configSet": {"files": FILES}}
    await site.maintenance(operations=[operation], budget={"maxUnavailable": 1}, notify=[notify])
    async with site.operator(entries=OPERATOR):
        for agent in agents.values():
            await agent.reads(PERSON, "one\n")
        await site.change(paused=True)  # its window is shut once hosts have heard of it
        for host in agents:
            await api.until(_is_shut_out, host)
        await changed(api, agents, (TURN, KEY, PERSON))
        for host in agents:
            node = await api.until(lambda one: asked(one) and left(one).escalated, host)
            records = {one.resource: one for one in node.status.drift.recent} if node.status.drift else {}
            assert {path: one.policy for path, one in records.items()} == {
                f"file:{TURN}": "in-turn", f"file:{KEY}": "in-turn", f"file:{PERSON}": "escalate",
            }  # fmt: skip
            assert records[f"file:{TURN}"].message.endswith("-one\n+mine, not theirs"), "the diff is kept"
            assert "mine" not in str(records[f"file:{KEY}"]), "of what not everybody may read, none is"
            assert conditions.is_true(node.status.conditions, "Escalated")
            assert conditions.is_true(node.status.conditions, "Ready"), "it is as it was told to be"
            await told(api, host, "DriftEscalated")
            await told(api, host, "DriftWaiting")
            codes = await why(place, host)
            assert codes["WindowClosed"]["object"] == "configset/monday-conf"
            assert codes["DriftEscalated"]["remedy"].startswith("Look at what differs: `nodemanager describe")
        assert "WindowClosed" in await told(api, "web1", "RepairWaiting")
        found = await site.until(lambda one: one.status.escalated and one.status.escalated.hosts == 2)
        assert {one.event for one in found.status.notices} == {"DriftEscalated"}
        assert [agent.at(TURN).read_text() for agent in agents.values()] == ["mine, not theirs\n"] * 2
        opened = time.time()
        await site.change(paused=False)
        ended = {host: await api.until(is_over, host) for host in agents}
        line = 'nodemanager_repair_turns_total{outcome="Succeeded"} 2'
        await until(lambda: line in site.metrics.render())  # it is counted after it was written
        await _is_called_off(site, api, agents["web1"])
    claims = sorted((_claim(node) for node in ended.values()), key=lambda one: one.begun)
    assert claims[0].since <= claims[1].begun, "one at a time"
    for host, node in ended.items():
        stat, claim = agents[host].at(TURN).stat(), _claim(node)
        assert opened <= claim.begun.timestamp() <= stat.st_mtime <= claim.since.timestamp(), host
        assert [agents[host].at(path).read_text() for path in (TURN, KEY)] == ["one\n"] * 2
    assert agents["web2"].at(PERSON).read_text() == "mine, not theirs\n", "which is never put back"


async def _is_called_off(site: Site, api: Api, agent: Agent) -> None:
    """Have somebody see to the file of one host: it needs nobody any more."""
    agent.at(PERSON).write_text("one\n")
    await api.until(lambda node: not conditions.is_true(node.status.conditions, "Escalated"), agent.hostname)
    found = await site.until(lambda one: one.status.escalated and one.status.escalated.hosts == 1)
    assert found.status.escalated is not None
    assert found.status.escalated.first == ["web2"]
    assert {one.event for one in found.status.notices} == {"DriftEscalated"}


def _claim(node: ManagedNode) -> Claim:
    claim = turns.claim_of(node)
    assert claim is not None
    return claim


async def test_without_an_operator_it_waits_and_a_set_of_nobody_has_one_host_at_a_time(
    place: Place, site: Site, api: Api, start: Starts
) -> None:
    agents = {"web1": start()}
    await api.config_set("motd", files=[owned(TURN, content="one\n")], drift="in-turn")
    await agents["web1"].reads(TURN, "one\n")
    await api.ready("motd")
    await changed(api, agents, (TURN,))
    await api.until(lambda node: asked(node) == ["motd"])
    agents["web1"].signal()  # a pass over everything leaves it alone, too
    await agents["web1"].logs("is left alone")
    # A host that is away counts: what is begun with would be the second one.
    away = await site.host("away")
    await site.say(away, Alive="False")
    await site.say("web1", Alive="True")
    async with site.operator(entries=ENTRIES):
        assert "BudgetSpent: configset/motd" in await told(api, "web1", "RepairWaiting")
        assert (await why(place, "web1"))["BudgetSpent"]["object"] == "configset/motd"
        assert agents["web1"].at(TURN).read_text() == "mine, not theirs\n"
        await site.say(away, Alive="True")
        await agents["web1"].reads(TURN, "one\n")
        node = await api.until(is_over)
        assert left(node).used == _claim(node).run
    await api.until(lambda one: one.status.drift and one.status.drift.repaired == 1)
    await api.until(lambda one: not conditions.is_true(one.status.conditions, "Drifted"))


async def test_a_policy_that_nobody_knows_is_refused_and_those_that_there_are_are_named(api: Api) -> None:
    with pytest.raises(errors.Invalid) as refused:
        await api.config_set("motd", files=[owned(TURN, content="one\n", drift="sometimes")])
    for word in ("spec.files[0].drift", "repair", "in-turn", "escalate", "observe"):
        assert word in str(refused.value)
