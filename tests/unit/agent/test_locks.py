"""Locks that hosts share. Aspects: turns, waiting, crashes, leases of the Go project, loss, no API."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from nodemanager.agent.upgrades.locks import LockLost, LockTimings, SharedLocks
from nodemanager.client.verbs import Client
from nodemanager.host.base import Busy, HostError
from nodemanager.runtime.lease import Clocks
from support import examples, virtual_time
from support.lease_api import LeaseApi, Link

EPOCH = datetime(2026, 6, 1, tzinfo=UTC)


def now() -> float:
    return asyncio.get_running_loop().time()


def wall() -> datetime:
    return EPOCH + timedelta(seconds=now())


def host(api: LeaseApi, name: str, **timings: float) -> tuple[SharedLocks, Link]:
    link = Link(api)
    clocks = Clocks(steady=now, wall=wall)
    return SharedLocks(Client(link), "test", name, timings=LockTimings(**timings), clocks=clocks), link


def go_lease(holder: str | None, age: timedelta, seconds: int = 420) -> dict[str, Any]:
    """Return a Lease as the Go project writes it."""
    stamp = (wall() - age).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"leaseDurationSeconds": seconds, "acquireTime": stamp, "renewTime": stamp}
    if holder is not None:
        spec["holderIdentity"] = holder
    return {"metadata": {"name": "web", "namespace": "test", "resourceVersion": "0"}, "spec": spec}


def holder(api: LeaseApi) -> str | None:
    found: str | None = api.lease["spec"].get("holderIdentity") if api.lease else None
    return found


@virtual_time.test
async def test_who_comes_second_waits_its_turn() -> None:
    api = LeaseApi()
    (one, _), (two, _) = host(api, "one"), host(api, "two")
    order: list[str] = []

    async def restart(locks: SharedLocks, name: str) -> None:
        async with locks.hold("web"):
            order.append(f"{name} begins")
            await asyncio.sleep(20)
            order.append(f"{name} ends")

    await asyncio.gather(restart(one, "one"), restart(two, "two"))
    assert order in (
        ["one begins", "one ends", "two begins", "two ends"],
        ["two begins", "two ends", "one begins", "one ends"],
    )
    assert holder(api) is None
    assert api.lease is not None
    assert api.lease["spec"]["renewTime"] < wall().strftime("%Y-%m-%dT%H:%M:%S")


@virtual_time.test
async def test_who_waits_too_long_is_told_who_is_in_the_way() -> None:
    api = LeaseApi()
    (one, _), (two, _) = host(api, "one"), host(api, "two")
    async with one.hold("web"):
        await asyncio.sleep(300)  # far longer than the lease: it is renewed
        began = now()
        with pytest.raises(Busy, match="cannot take lock web: one holds it; waited 30 s"):
            async with two.hold("web"):
                pytest.fail("both hold it")
        assert now() - began <= 31
    async with two.hold("web"):
        assert holder(api) == "two"


@virtual_time.test
async def test_who_does_not_wait_is_told_at_once() -> None:
    api = LeaseApi()
    (one, _), (two, _) = host(api, "one"), host(api, "two")
    quick = two.at_once()
    async with one.hold("web"):
        began = now()
        with pytest.raises(Busy, match="cannot take lock web: one holds it"):
            async with quick.hold("web"):
                pytest.fail("both hold it")
        assert now() - began < 1
    async with quick.hold("web"), two.hold("web"):  # they are the same
        assert holder(api) == "two"
    assert holder(api) is None


@virtual_time.test
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_who_does_not_wait_does_not_wait_for_a_silent_api_either(method: str) -> None:
    locks, link = host(LeaseApi(), "one")
    link.hang_on = method
    began = now()
    with pytest.raises(Busy, match="cannot take lock web: the API does not answer; only it can tell whose"):
        async with locks.at_once().hold("web"):
            pytest.fail("nobody can know whose it is")
    assert now() - began < 5
    link.hang_on = ""
    async with locks.hold("web"):  # nothing is left behind
        pass


@virtual_time.test
async def test_who_breaks_off_does_not_give_back_what_another_takes() -> None:
    api = LeaseApi()
    locks, link = host(api, "one")
    # One asks, and its claim is on its way for a second; the other asks, claims into the void, and gives up
    # before the first has its answer.
    delays = iter([0, 0, 1.0, 0, 0, 10, 3.0])
    link.delay = lambda: next(delays, 0.0)
    inside = asyncio.Event()

    async def work() -> None:
        async with locks.hold("web"):
            inside.set()
            await asyncio.sleep(20)
            assert holder(api) == "one"

    working = asyncio.create_task(work())
    await asyncio.sleep(0.1)
    with contextlib.suppress(Busy):
        async with locks.at_once().hold("web"):
            pass
    await inside.wait()
    assert holder(api) == "one"
    await working
    assert holder(api) is None


@virtual_time.test
async def test_a_lock_may_be_held_twice_on_one_host() -> None:
    """A service restarts under the group under which its host upgrades."""
    api = LeaseApi()
    one, _ = host(api, "one")
    assert await one.claim("web", 1800)
    async with one.hold("web"):
        assert api.lease is not None
        assert api.lease["spec"]["leaseDurationSeconds"] == 1800
    assert holder(api) == "one"
    await one.release("web")
    assert holder(api) is None


@virtual_time.test
async def test_the_next_process_of_a_host_finds_its_lock() -> None:
    api = LeaseApi()
    one, _ = host(api, "one")
    assert await one.claim("web", 1800)
    await one.close()
    assert holder(api) == "one"
    again, _ = host(api, "one")
    async with again.hold("web"):
        pass  # no waiting for our own lease
    assert await again.claim("web", 1800)
    last, _ = host(api, "one")
    await again.close()
    await last.release("web")  # without having claimed it: what a process before us did
    assert holder(api) is None


@virtual_time.test
async def test_a_lease_that_the_go_project_gave_back_is_free_at_once() -> None:
    api = LeaseApi()
    api.lease = go_lease(None, timedelta(hours=2))
    one, _ = host(api, "one")
    async with one.hold("web"):
        assert now() < 1


@virtual_time.test
async def test_a_lease_that_the_go_project_holds_is_respected_until_it_ran_out() -> None:
    api = LeaseApi()
    api.lease = go_lease("other", timedelta(seconds=0))
    one, _ = host(api, "one")
    with pytest.raises(Busy, match="other holds it"):
        async with one.hold("web"):
            pytest.fail("it is not our turn")
    await asyncio.sleep(420)
    async with one.hold("web"):
        assert holder(api) == "one"


@virtual_time.test
async def test_a_host_that_died_last_week_is_not_waited_for() -> None:
    api = LeaseApi()
    api.lease = go_lease("other", timedelta(days=7))
    one, _ = host(api, "one")
    async with one.hold("web"):
        assert now() < 1


@virtual_time.test
async def test_a_clock_that_is_wrong_by_half_an_hour_takes_nothing_away() -> None:
    api = LeaseApi()
    api.lease = go_lease("other", timedelta(minutes=30), seconds=60)
    one, _ = host(api, "one")
    with pytest.raises(Busy):
        async with one.hold("web"):
            pytest.fail("it is not our turn")


@virtual_time.test
async def test_work_under_a_lost_lock_is_finished_and_says_so() -> None:
    api = LeaseApi()
    one, link = host(api, "one")
    done: list[float] = []

    async def restart() -> None:
        async with one.hold("web"):
            link.cut = True
            await asyncio.sleep(300)
            done.append(now())

    with pytest.raises(LockLost, match="another host may have done the same"):
        await restart()
    assert done


@virtual_time.test
async def test_an_api_that_is_away_means_not_now() -> None:
    one, link = host(LeaseApi(), "one")
    link.cut = True
    with pytest.raises(Busy, match="the next pass tries again"):
        async with one.hold("web"):
            pytest.fail("nobody gave it to us")


@virtual_time.test
async def test_who_is_cancelled_while_taking_it_leaves_nothing_behind() -> None:
    api = LeaseApi()
    one, link = host(api, "one")
    link.delay = lambda: 0.1

    async def hold() -> None:
        async with one.hold("web"):
            pytest.fail("it was cancelled before")

    task = asyncio.create_task(hold())
    await asyncio.sleep(0.35)  # created, and the answer is on its way
    assert holder(api) == "one"
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert holder(api) is None


@hypothesis.given(st.data())
@hypothesis.settings(deadline=None, max_examples=examples.some(60))
def test_never_two_at_once(data: st.DataObject) -> None:
    """Hosts that come and go, are cut off for a while, and touch the lease by hand."""

    async def scenario() -> None:
        api = LeaseApi()
        inside: list[str] = []

        async def live(name: str) -> None:
            locks, link = host(api, name, duration=10)
            link.delay = lambda: data.draw(st.sampled_from([0.0, 0.2, 1.5]))
            for _ in range(3):
                await asyncio.sleep(data.draw(st.floats(0, 20)))
                try:
                    async with locks.hold("web"):
                        inside.append(name)
                        assert len(inside) == 1
                        await _work(data, api)
                        inside.remove(name)
                except (Busy, HostError):
                    assert name not in inside

        await asyncio.gather(*(live(f"h{number}") for number in range(3)))
        assert holder(api) is None

    virtual_time.run(scenario())


async def _work(data: st.DataObject, api: LeaseApi) -> None:
    for _ in range(data.draw(st.integers(0, 5))):
        await asyncio.sleep(data.draw(st.floats(0, 8)))
        if data.draw(st.booleans()):
            api.touch()
