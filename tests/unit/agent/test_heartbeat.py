"""The sign of life goes on as soon as it can: a short spell without the API costs no host its Lease."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from nodemanager.agent.report.heartbeat import DURATION, INTERVAL, HeartbeatSender
from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey
from support import virtual_time
from support.model_api import Answer


class LeaseApi:
    """Takes renewals, unless it is away."""

    def __init__(self) -> None:
        self.away = False
        self.renewed: list[float] = []
        self.tried: list[float] = []

    async def send(self, _request: Request) -> Answer:
        now = asyncio.get_running_loop().time()
        self.tried.append(now)
        if self.away:
            raise errors.Unreachable("nobody is there")
        self.renewed.append(now)
        meta = {"name": "nodemanager-web1", "namespace": "n", "resourceVersion": str(len(self.renewed))}
        return Answer(200, json.dumps({"metadata": meta}).encode())

    async def reauthenticate(self) -> bool:
        return False

    async def close(self) -> None:
        """Hold nothing open."""


@contextlib.asynccontextmanager
async def beating(api: LeaseApi) -> AsyncIterator[HeartbeatSender]:
    sender = HeartbeatSender(Client(api), ObjectKey("n", "web1"), lambda: datetime.now(UTC))
    task = asyncio.create_task(sender.run())
    try:
        yield sender
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@virtual_time.test
async def test_after_a_failure_it_is_tried_again_soon_as_long_as_that_may_help() -> None:
    api = LeaseApi()
    async with beating(api):
        await asyncio.sleep(3 * INTERVAL)
        api.away = True
        await asyncio.sleep(0.7 * DURATION)
        api.away = False
        await asyncio.sleep(INTERVAL / 3)
        assert api.renewed[-1] > 3 * INTERVAL + 0.7 * DURATION
        api.away = True
        await asyncio.sleep(3 * DURATION)
        before = len(api.tried)
        await asyncio.sleep(3 * DURATION)
        assert len(api.tried) - before <= 3 * DURATION / INTERVAL * 1.2, (
            "nobody knocks at a dead door for ever"
        )


@virtual_time.test
async def test_when_the_api_is_back_the_next_sign_of_life_does_not_wait() -> None:
    api = LeaseApi()
    async with beating(api) as sender:
        await asyncio.sleep(1)
        sender.hurry()
        await asyncio.sleep(1)
        assert len(api.renewed) == 1, "nothing had failed"
        api.away = True
        await asyncio.sleep(4 * DURATION)
        api.away = False
        sender.hurry()
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert api.renewed[-1] > 4 * DURATION
