"""A real agent whose token lives for seconds: renewed through outages and restarts, and never sent expired.

NODEMANAGER_RENEWALS=50 is the long form: it takes six minutes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import yaml

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.node_conditions import CREDENTIAL_RENEWED
from nodemanager.client.auth import kubeconfig
from nodemanager.client.auth.renewed_token import lifetime
from nodemanager.client.calls import Selection
from nodemanager.host.process import runner
from nodemanager.kube import conditions
from nodemanager.kube.core import EVENTS
from support.agent_process import Agent, Api, Starts, owned
from support.apiserver import free_port
from support.either import Place
from support.joined_host import Joined, join
from support.token_proxy import TokenProxy, shortened

LIFE, AGE = 120.0, 90.0
"""Seconds, and how many of them are over when a host gets a token: due after 6, expired after 30."""
RENEWALS = int(os.environ.get("NODEMANAGER_RENEWALS", "2"))
PATIENCE = 90.0


@pytest.fixture(name="web1")
async def _web1(place: Place, tmp_path: Path) -> Joined:
    return await join(place, tmp_path, "web1")


@pytest.fixture(name="proxy")
async def _proxy(place: Place) -> AsyncIterator[TokenProxy]:
    config = kubeconfig.load(path=str(place.kubeconfig), environ={}, run=runner.run)
    async with shortened(config, LIFE, AGE) as proxy:
        yield proxy


async def becomes(holds: Callable[[], object], agent: Agent) -> None:
    """Wait until something is so."""
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, agent.log.read_text()
        await asyncio.sleep(0.01)


def saved(path: Path) -> str:
    """Return the token in a kubeconfig, which is whole whenever one looks."""
    token: str = yaml.safe_load(path.read_text())["users"][0]["user"]["token"]
    return token


async def outage(proxy: TokenProxy, agent: Agent) -> None:
    """Let the API be away when the newest token is due, until the host has tried twice to renew it."""
    life = lifetime(proxy.issued[-1])
    assert life is not None
    proxy.cut()
    await becomes(lambda: time.time() >= life.due, agent)
    seen = proxy.turned_away
    await becomes(lambda: proxy.turned_away >= seen + 2, agent)
    proxy.mend()


@pytest.mark.long
@pytest.mark.timeout(120 + RENEWALS * 30)
async def test_renewals_with_outages_and_restarts_in_between(
    web1: Joined, proxy: TokenProxy, api: Api, start: Starts
) -> None:
    proxy.hand_over(web1.kubeconfig)
    agent = start("web1", kubeconfig=web1.kubeconfig)
    await api.config_set("motd", files=[owned("/etc/motd", content="0")])
    outages = restarts = 0
    for number in range(1, RENEWALS + 1):
        if number % 2 == 0:
            await outage(proxy, agent)
            outages += 1
        await becomes(lambda wanted=number: len(proxy.issued) > wanted, agent)  # type: ignore[misc]
        await becomes(lambda: saved(web1.kubeconfig) == proxy.issued[-1], agent)
        await api.respec("motd", files=[owned("/etc/motd", content=str(number))])
        await agent.reads("/etc/motd", str(number))
        if number % 3 == 1:
            assert await asyncio.to_thread(agent.stop) == 0  # it says goodbye through the proxy
            agent.start()
            restarts += 1
    await api.ready("motd")
    assert proxy.expired == []
    assert "expired" not in agent.log.read_text()
    assert (outages, restarts) == (RENEWALS // 2, (RENEWALS + 2) // 3)
    assert proxy.turned_away >= 2 * outages
    print(  # noqa: T201 - for pytest -rP
        f"{len(proxy.issued) - 1} renewals, {outages} outages ({proxy.turned_away} requests turned away),"
        f" {restarts} restarts, {proxy.requests} requests, {len(proxy.expired)} of them with an expired token"
    )


async def reasons(api: Api) -> list[str]:
    """Return of what the Events about tokens tell."""
    events = await api.client.list(EVENTS, Selection(api.namespace))
    return [one.reason for one in events.items if one.reason.startswith("Token")]


async def test_one_that_cannot_be_renewed_is_told_everywhere_and_taken_back(
    web1: Joined, proxy: TokenProxy, api: Api, start: Starts
) -> None:
    """The right to do so is taken away, and given back before it is too late."""
    place, right = web1.place, "nodemanager-web1-token-refresh"
    binding = place.kubectl("get", "rolebinding", right, "-o", "yaml")
    place.kubectl("delete", "rolebinding", right)
    proxy.hand_over(web1.kubeconfig, life=400.0, age=320.0)
    proxy.life, proxy.age = 600.0, 0.0
    port = free_port()
    agent = start("web1", kubeconfig=web1.kubeconfig, metrics=f"127.0.0.1:{port}")

    def said(status: str, reason: str) -> Callable[[ManagedNode], bool]:
        def holds(node: ManagedNode) -> bool:
            found = conditions.get(node.status.conditions, CREDENTIAL_RENEWED)
            return found is not None and (found.status, found.reason) == (status, reason)

        return holds

    failing = await api.until(said("False", "RenewalFailing"))
    message = conditions.get(failing.status.conditions, CREDENTIAL_RENEWED)
    assert message is not None
    assert "cannot get a token for web1: the credential that was given may not do that" in message.message
    _, text = await agent.get(f"127.0.0.1:{port}", "/metrics")
    assert 'nodemanager_token_renewals_total{node="web1",result="error"} ' in text
    async with asyncio.timeout(PATIENCE):
        while not (told := await reasons(api)):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)
    assert told == ["TokenRenewalFailing"]
    place.kubectl("apply", "-f", "-", stdin=binding)
    await api.until(said("True", "Good"))
    assert saved(web1.kubeconfig) == proxy.issued[-1]
    assert proxy.expired == []


async def test_one_that_has_expired_is_never_sent(web1: Joined, proxy: TokenProxy, start: Starts) -> None:
    proxy.hand_over(web1.kubeconfig, life=1.0, age=2.0)
    agent = start("web1", kubeconfig=web1.kubeconfig)
    await agent.logs("the token of this host has expired")
    assert (proxy.requests, proxy.expired) == (0, [])
    assert await asyncio.to_thread(agent.stop) == 0  # it says goodbye through the proxy


@pytest.mark.long
async def test_one_that_expires_is_no_longer_sent_and_a_new_one_is_taken_over(
    web1: Joined, proxy: TokenProxy, api: Api, start: Starts
) -> None:
    """`bootstrap`, as the log asks for, is enough: nobody needs to restart the agent."""
    real = saved(web1.kubeconfig)
    proxy.hand_over(web1.kubeconfig, life=60.0, age=12.0)
    agent = start("web1", kubeconfig=web1.kubeconfig)
    await api.ready()
    proxy.cut()
    assert "expired" not in agent.log.read_text()
    await agent.logs("the token of this host has expired")
    proxy.mend()
    agent.signal()
    await agent.logs("run nodemanager bootstrap again", times=3)
    document = yaml.safe_load(web1.kubeconfig.read_text())
    document["users"][0]["user"]["token"] = proxy.mint(real, life=600.0, age=0.0)
    web1.kubeconfig.write_text(yaml.safe_dump(document))
    await agent.logs("took over a token that was put into")
    await api.config_set("motd", files=[owned("/etc/motd", content="hello\n")])
    await api.ready("motd")
    assert proxy.expired == []
