"""The agent as it is wired together: what its probes say, and what it logs."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nodemanager.agent.parts import Agent
from nodemanager.agent.passes.converge import Converger
from nodemanager.agent.passes.progress import GRACE, QUIET_SECONDS
from nodemanager.agent.report import status
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.host.results import Result
from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import file_id
from nodemanager.runtime.probes import ProbeServer
from support.lone_agent import lone_agent
from support.scripted_server import until


@pytest.fixture(name="agent")
async def _agent(tmp_path: Path) -> AsyncIterator[Agent]:
    async with lone_agent(tmp_path) as agent:
        yield agent


async def test_health_is_what_the_watchdog_judges_by(agent: Agent) -> None:
    (server,) = [
        part for part in agent.manager._servers if isinstance(part, ProbeServer) and part.routes.health
    ]
    progress, now = agent.managed_host.progress, [1000.0]
    progress.clock = lambda: now[0]

    def health() -> tuple[int, str]:
        reply = server.routes("GET", "/healthz")
        return reply.status, reply.body.decode()

    assert health() == (200, "ok")
    with progress.working():
        with progress.allowing(7200):  # packages over a slow line
            now[0] += 7200 + GRACE - 1
            assert health() == (200, "ok")
        now[0] += QUIET_SECONDS + 1
        code, said = health()
        assert code == 500
        assert progress.stuck() is not None
        assert f"[-]reconcile failed: {progress.stuck()}" in said
    assert health() == (200, "ok")


async def test_that_a_status_has_no_room_for_all_backups_is_said_once(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    number = iter(range(3))

    async def run(self: Converger, *_: object) -> list[Result]:
        folder = f"/etc/conf.d/{next(number)}"
        self.records.replaced = {f"{folder}/{one}": "0" * 64 for one in range(2000)}
        return []

    monkeypatch.setattr(Converger, "run", run)
    said = []
    for _ in range(3):
        await agent.host_pass.run()
        said.append(caplog.text.count("the status has no room for"))
    assert said == [0, 1, 1]
    assert "nodemanager backups has them all" in caplog.text


@pytest.mark.parametrize(("held", "first"), [(True, ["ahead", "look", "after"]), (False, ["look", "after"])])
async def test_a_host_that_held_is_watched_before_it_is_looked_at(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, held: bool, first: list[str]
) -> None:
    done: list[str] = []

    async def run(_self: Converger, *_: object) -> list[Result]:
        done.append("look")
        return []

    async def ahead(_desired: Desired) -> None:
        done.append("ahead")

    async def after() -> None:
        done.append("after")

    monkeypatch.setattr(Converger, "run", run)
    if held:
        agent.host_pass.host_state.watch._held[file_id("/etc/motd")] = "as it was declared"
    host_pass = replace(agent.host_pass, follow_ahead=ahead, follow=after)
    await host_pass.run()
    assert done == first
    await host_pass.run()
    assert done == [*first, "look", "after"]


@pytest.mark.parametrize("which", ["metrics", "probes", "both"])
async def test_a_user_who_takes_our_ports_keeps_nothing_from_being_managed(
    tmp_path: Path, which: str
) -> None:
    with contextlib.ExitStack() as theirs:
        taken = [theirs.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        wanted = [f"127.0.0.1:{one.getsockname()[1]}" for one in taken]
        if which != "both":
            wanted[which == "metrics"] = "0"
        async with lone_agent(tmp_path, *wanted) as agent:
            over = agent.requests.settled()
            running = asyncio.create_task(agent.manager.run())
            done = asyncio.create_task(over)
            await asyncio.wait({running, done}, return_when=asyncio.FIRST_COMPLETED)
            assert done.done(), "a pass over the host, with somebody else on our port"
            assert agent.manager.not_ready() is None
            servers = [one for one in agent.manager._servers if isinstance(one, ProbeServer)]
            assert len(servers) == len([one for one in wanted if one != "0"])
            assert all(one.fault.startswith("cannot listen on") for one in servers)
            wanted_status = agent.writer._status(ManagedNode(), None, agent.writer.host.now())
            said = [one.message for one in wanted_status.conditions if one.type == "Served"]
            assert said == ["; ".join(one.fault for one in servers)]
            theirs.close()
            await until(lambda: not any(one.fault for one in servers))
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running


def test_the_status_says_that_ports_are_taken_from_then_on() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    untold = status.of_servers(ManagedNodeStatus(), "", now, 1)
    assert untold.conditions == []
    taken = status.of_servers(untold, "cannot listen on 127.0.0.1:8080 for metrics", now, 1)
    (said,) = taken.conditions
    assert (said.type, said.status, said.reason) == ("Served", "False", "AddressUnavailable")
    assert said.message == "cannot listen on 127.0.0.1:8080 for metrics"
    (said,) = status.of_servers(taken, "", now, 1).conditions
    assert (said.type, said.status, said.reason, said.message) == ("Served", "True", "Listening", "")
