"""A Lease as a sign of life: there while the process is, and in nobody's way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

from nodemanager.client.verbs import Client
from nodemanager.kube import times
from nodemanager.runtime.lease import Clocks, LeaseLock
from nodemanager.runtime.unelected_lease import TIMINGS, UnelectedLease
from support import virtual_time
from support.lease_api import LeaseApi, Link

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def steady() -> float:
    return asyncio.get_running_loop().time()


def wall() -> datetime:
    return BEGIN + timedelta(seconds=steady())


def lock(link: Link, identity: str) -> LeaseLock:
    return LeaseLock(
        Client(link), "lease", "test", identity, timings=TIMINGS, clocks=Clocks(steady, wall)
    )  # fmt: skip


@contextlib.asynccontextmanager
async def shown(link: Link, identity: str = "one") -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(UnelectedLease(lock(link, identity)).run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def spec(api: LeaseApi) -> dict[str, Any]:
    assert api.lease is not None
    found: dict[str, Any] = api.lease["spec"]
    return found


def age(api: LeaseApi) -> float:
    renewed = times.parse(spec(api)["renewTime"])
    assert renewed is not None
    return (wall() - renewed).total_seconds()


@virtual_time.test
async def test_it_is_renewed_while_the_process_is_there_and_then_given_back() -> None:
    api = LeaseApi()
    async with shown(Link(api)):
        for _ in range(20):
            await asyncio.sleep(7)
            assert spec(api)["holderIdentity"] == "one"
            assert age(api) <= TIMINGS.retry_period
    assert spec(api)["holderIdentity"] == ""


@virtual_time.test
async def test_one_that_is_killed_has_it_again_within_a_minute() -> None:
    api = LeaseApi()
    killed = Link(api)
    async with shown(killed):
        await asyncio.sleep(10)
        killed.cut = True
        async with shown(Link(api), "again"):
            await asyncio.sleep(60)
            assert (spec(api)["holderIdentity"], age(api) <= TIMINGS.retry_period) == ("again", True)


@virtual_time.test
async def test_it_outlives_outages_and_whoever_takes_its_lease_away() -> None:
    api = LeaseApi()
    link = Link(api)
    async with shown(link) as running:
        await asyncio.sleep(10)
        link.cut = True
        await asyncio.sleep(600)
        assert (running.done(), age(api) > 500) == (False, True), "nobody can say so for it"
        link.cut = False
        await asyncio.sleep(60)
        assert age(api) <= TIMINGS.retry_period
        api.delete()
        await asyncio.sleep(60)
        assert (running.done(), age(api) <= TIMINGS.retry_period) == (False, True)


@virtual_time.test
async def test_it_does_not_renew_the_lease_of_a_leader() -> None:
    """One that died would seem to live, and no other would take over."""
    api = LeaseApi()
    assert await lock(Link(api), "leader").try_acquire()
    async with shown(Link(api)):
        await asyncio.sleep(TIMINGS.lease_duration - 1)
        assert (spec(api)["holderIdentity"], age(api)) == ("leader", TIMINGS.lease_duration - 1)
