"""Drifts reach the API once and in order, whatever it answers and whenever the agent is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.agent.drift import delivery
from nodemanager.agent.drift.drift_log import MAX_RECORDS, DriftLog
from nodemanager.api.common.managednode import Drift, DriftRecord, ManagedNodeStatus
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http.transport import HttpTransport
from nodemanager.kube import errors
from nodemanager.kube.patching import merge_patch
from nodemanager.runtime import tasks
from nodemanager.runtime.backoff import Backoff
from support import scripted_server
from support.reporting_host import WHO, ReportingHost
from support.scripted_server import Exchange


class Api:
    """An API that has one ManagedNode and takes Events, unless it is told to answer otherwise."""

    def __init__(self) -> None:
        self.node: dict[str, Any] = {
            "metadata": {
                "name": "web1",
                "namespace": "n",
                "uid": "0123456789",
                "resourceVersion": "1",
                "labels": WHO.labels(),
            },
        }
        self.events: list[dict[str, Any]] = []
        self.trouble: Callable[[Exchange], tuple[int, str] | tuple[int, str, str] | None] = lambda _: None
        self.late: Callable[[Exchange], bool] = lambda _exchange: False
        """Whether to do what is asked and then answer with nothing."""

    async def answer(self, exchange: Exchange) -> None:
        if trouble := self.trouble(exchange):
            await exchange.refuse(*trouble)
            return
        code, answer = self._do(exchange)
        if self.late(exchange):
            exchange.reset()
        elif code >= 400:
            await exchange.refuse(code, "AlreadyExists")
        else:
            await exchange.json(answer, code)

    def _do(self, exchange: Exchange) -> tuple[int, dict[str, Any]]:
        body = json.loads(exchange.body or b"{}")
        if exchange.method == "POST":
            if body["metadata"]["name"] in [one["metadata"]["name"] for one in self.events]:
                return 409, {}
            self.events.append(body)
            return 201, body
        if exchange.method == "PATCH":
            self.node["status"] = merge_patch.apply_merge_patch(self.node.get("status", {}), body["status"])
            self.node["metadata"]["resourceVersion"] += "1"
        return 200, self.node

    @property
    def drift(self) -> Drift:
        return msgspec.convert(self.node.get("status", {}), ManagedNodeStatus).drift or Drift()


class World:
    """A host and its API; the host can be killed."""

    def __init__(self, folder: Path, url: str, api: Api) -> None:
        self.folder, self.api, self.url = folder, api, url
        self._booted = False

    def boot(self) -> DriftLog:
        self.host = ReportingHost(self.folder, HttpTransport(ClientConfig(server=self.url)))
        self.reachability, self.log, self.delivery = self.host.reachability, self.host.log, self.host.delivery
        self._booted = True
        return self.log

    async def deliver(self) -> None:
        """Deliver what waits, and write the status that this asks for."""
        await self.delivery.deliver()
        await self.host.writer.answer()

    def parts(self) -> list[asyncio.Task[None]]:
        """Run what delivers by itself."""
        return [asyncio.create_task(one.run()) for one in (self.log, self.delivery, self.host.loop())]

    async def kill(self) -> None:
        if self._booted:
            await self.host.close()
        self._booted = False

    def drift(self, count: int) -> None:
        self.host.drift(count)
        self.log.flush()

    @property
    def reported(self) -> list[str]:
        return [one["message"].partition(":")[2].strip(": ") for one in self.api.events]


@pytest.fixture
async def world(tmp_path: Path) -> Any:
    api = Api()
    async with scripted_server.serve(api.answer) as server:
        found = World(tmp_path, server.url, api)
        yield found
        await found.kill()


async def test_each_is_an_event_and_an_entry_of_the_status(world: World) -> None:
    log = world.boot()
    log.adopt(None)
    world.drift(100)
    await world.deliver()
    assert world.reported == [f"/{number}" for number in range(1, 101)]
    one = world.api.events[10]
    assert (one["reason"], one["type"], one["involvedObject"]["name"]) == ("DriftRepaired", "Normal", "web1")
    assert one["metadata"]["name"] == "web1.01234567-0000000b"
    assert (world.api.drift.repaired, world.api.drift.sequence) == (100, 100)
    assert [one.sequence for one in world.api.drift.recent] == list(range(37, 101))
    assert log.waiting() == []
    before = world.api.node["metadata"]["resourceVersion"]
    await world.deliver()
    assert world.api.node["metadata"]["resourceVersion"] == before


async def test_too_many_are_counted_and_told(world: World) -> None:
    log = world.boot()
    log.adopt(None)
    world.drift(MAX_RECORDS + 5)
    await world.deliver()
    assert world.api.events[0]["reason"] == "DriftsNotReported"
    assert world.api.events[0]["message"].endswith(": 5 before this are lost")
    assert len(world.api.events) == MAX_RECORDS + 1
    assert world.api.drift.repaired == MAX_RECORDS + 5


@pytest.mark.parametrize("seed", range(12))
async def test_once_and_in_order_whatever_happens(world: World, seed: int) -> None:
    """Killed at random requests, answers lost, servers that cannot; numbers and names tell what was done."""
    dice = random.Random(seed)
    added = 0
    for _ in range(8):
        log = world.boot()
        log.adopt(world.api.drift if world.api.drift.sequence else None)
        log.flush()
        count = dice.randrange(6)
        world.drift(count)
        added += count
        world.api.late = lambda _exchange: dice.random() < 0.1
        world.api.trouble = lambda _exchange: (503, "ServiceUnavailable") if dice.random() < 0.1 else None
        for _ in range(dice.randrange(4)):
            with contextlib.suppress(errors.KubeError):
                await world.deliver()
        if dice.random() < 0.5:
            log.flush()
        await world.kill()
    world.api.late, world.api.trouble = lambda _exchange: False, lambda _exchange: None
    log = world.boot()
    log.adopt(world.api.drift)
    log.flush()
    await world.deliver()
    assert world.reported == [f"/{number}" for number in range(1, added + 1)]
    if added:
        assert (world.api.drift.sequence, world.api.drift.repaired) == (added, added)


async def test_what_can_never_be_an_event_does_not_hold_up_the_others(world: World) -> None:
    world.boot().adopt(None)
    world.api.trouble = lambda exchange: (
        (422, "Invalid") if b'"file:/2' in exchange.body and exchange.method == "POST" else None
    )
    world.drift(3)
    await world.deliver()
    assert world.reported == ["/1", "/3"]
    assert [one.resource for one in world.api.drift.recent] == ["file:/1", "file:/2", "file:/3"]


async def test_the_part_waits_for_the_api_and_goes_on_by_itself(world: World) -> None:
    log = world.boot()
    world.api.trouble = lambda _exchange: (503, "ServiceUnavailable")
    parts = world.parts()
    log.adopt(None)
    log.add(DriftRecord(time="2026-01-01T00:00:00Z", resource="file:/1", outcome="repaired"))
    await scripted_server.until(lambda: world.reachability.offline)
    world.api.trouble = lambda _exchange: None
    world.reachability.reached()  # some other request did
    await scripted_server.until(lambda: world.api.drift.sequence == 1)
    assert world.reported == ["/1"]
    await tasks.end(parts)


async def test_what_is_refused_is_said_once_per_reason(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "RETRY", Backoff(base=0.001, maximum=0.001))
    caplog.set_level(logging.INFO, "nodemanager.agent.drift.delivery")
    log = world.boot()
    why = ["no Role", "no Role", "no Role", "quota", "quota", "no Role"]

    def trouble(exchange: Exchange) -> tuple[int, str, str] | None:
        return (403, "Forbidden", why.pop(0)) if exchange.method == "POST" and why else None

    world.api.trouble = trouble
    parts = world.parts()
    log.adopt(None)
    log.add(DriftRecord(time="2026-01-01T00:00:00Z", resource="file:/1", outcome="repaired"))
    await scripted_server.until(lambda: world.api.drift.sequence == 1 and not why)
    await tasks.end(parts)
    said = [(one.levelname, one.getMessage().rpartition(": ")[2]) for one in caplog.records]
    assert [(level, text.partition(" (")[0]) for level, text in said] == [
        ("WARNING", "no Role"), ("WARNING", "quota"), ("WARNING", "no Role"), ("INFO", "no Role"),
    ]  # fmt: skip
    assert world.reported == ["/1"]


async def test_a_long_story_is_cut_to_what_the_api_takes_in_bytes(world: World) -> None:
    log = world.boot()
    log.adopt(None)
    long = DriftRecord(
        time="2026-01-01T00:00:00Z", resource="file:/x", outcome="repaired", by="\u00e9" * 2000
    )
    log.add(long)
    log.flush()
    await world.deliver()
    [one] = world.api.events
    assert len(one["message"].encode()) <= 1024
