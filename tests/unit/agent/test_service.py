"""The agent as it is wired together: what its probes say, and what it logs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodemanager.agent.converge import Converger
from nodemanager.agent.progress import GRACE, QUIET_SECONDS
from nodemanager.agent.service import Agent
from nodemanager.host.results import Result
from nodemanager.runtime.probes import ProbeServer
from support.lone_agent import lone_agent


@pytest.fixture(name="agent")
async def _agent(tmp_path: Path) -> AsyncIterator[Agent]:
    async with lone_agent(tmp_path) as agent:
        yield agent


async def test_health_is_what_the_watchdog_judges_by(agent: Agent) -> None:
    (server,) = [
        part for part in agent.manager._servers if isinstance(part, ProbeServer) and part.routes.health
    ]
    progress, now = agent.body.progress, [1000.0]
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
        self.replaced = {f"{folder}/{one}": "0" * 64 for one in range(2000)}
        return []

    monkeypatch.setattr(Converger, "run", run)
    said = []
    for _ in range(3):
        await agent.reconciler.reconcile(agent.reconciler.node.key)
        said.append(caplog.text.count("the status has no room for"))
    assert said == [0, 1, 1]
    assert "nodemanager backups has them all" in caplog.text
