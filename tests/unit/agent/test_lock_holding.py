"""What a host may count on while it holds a shared lock: several users at once, renewals that fail, loss."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.agent.upgrades.locks import LockLost, LockTimings, SharedLocks
from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from nodemanager.host.base import Busy, HostError
from nodemanager.kube import errors
from nodemanager.runtime.lease import Clocks
from support import virtual_time
from support.lease_api import LeaseApi, Link
from support.model_api import Answer, status_body

EPOCH = datetime(2026, 6, 1, tzinfo=UTC)


def now() -> float:
    return asyncio.get_running_loop().time()


def host(api: LeaseApi, name: str = "one", **timings: float) -> tuple[SharedLocks, Link]:
    link = Link(api)
    clocks = Clocks(steady=now, wall=lambda: EPOCH + timedelta(seconds=now()))
    return SharedLocks(Client(link), "test", name, timings=LockTimings(**timings), clocks=clocks), link


def spec(api: LeaseApi) -> dict[str, Any]:
    assert api.lease is not None
    found: dict[str, Any] = api.lease["spec"]
    return found


def holder(api: LeaseApi) -> str | None:
    found: str | None = spec(api).get("holderIdentity")
    return found


class Counting(LeaseApi):
    """Notes when somebody writes, and can refuse it."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[float] = []
        self.refuse = 0
        """How many writes from now on fail."""
        self.code, self.reason = 500, "InternalError"

    def handle(self, request: Request) -> Answer:
        if request.method != "GET":
            self.writes.append(now())
            if self.refuse:
                self.refuse -= 1
                return Answer(self.code, status_body(self.code, self.reason))
        return super().handle(request)


@virtual_time.test
async def test_one_renewal_that_fails_costs_no_lock(caplog: pytest.LogCaptureFixture) -> None:
    """The lease is ours for most of its duration: what is said of it then is not that it is lost."""
    api = Counting()
    one, _ = host(api)
    async with one.hold("web"):
        api.refuse = 1
        await asyncio.sleep(20)
        assert "lock web: cannot renew" in caplog.text
        one.check("web")
        await asyncio.sleep(60)
        one.check("web")
    assert holder(api) is None


@virtual_time.test
async def test_renewals_come_four_times_per_duration_and_sooner_after_a_failure() -> None:
    api = Counting()
    one, _ = host(api, duration=40)
    async with one.hold("web"):
        await asyncio.sleep(21)
        api.refuse = 2
        await asyncio.sleep(30)
    assert api.writes[:-1] == pytest.approx([0, 10, 20, 30, 35, 40, 50], abs=0.01)


@virtual_time.test
async def test_a_failed_renewal_of_a_long_lease_is_tried_again_within_a_quarter_of_a_minute() -> None:
    api = Counting()
    one, _ = host(api)
    assert await one.claim("web", 1800)
    api.refuse = 2
    await asyncio.sleep(500)
    assert api.writes == pytest.approx([0, 450, 465, 480], abs=0.01)
    await one.close()


@virtual_time.test
async def test_what_is_inside_twice_is_given_back_by_the_last() -> None:
    api = LeaseApi()
    one, _ = host(api)
    first = one.hold("web")
    await first.__aenter__()
    async with one.hold("web"):
        await first.__aexit__(None, None, None)
        assert holder(api) == "one"
        await asyncio.sleep(120)  # and is renewed for whoever is left
        assert holder(api) == "one"
        one.check("web")
    assert holder(api) is None


@virtual_time.test
async def test_a_claim_outlives_what_was_held_beside_it_and_a_hold_what_was_claimed() -> None:
    api = LeaseApi()
    one, _ = host(api)
    assert await one.claim("web", 1800)
    async with one.hold("web"):
        assert spec(api)["leaseDurationSeconds"] == 1800
        await one.release("web")
        assert holder(api) == "one"  # somebody is inside still
        await asyncio.sleep(1000)
        one.check("web")
        assert spec(api)["leaseDurationSeconds"] == 60
    assert holder(api) is None


@virtual_time.test
async def test_a_short_claim_does_not_shorten_what_is_held() -> None:
    api = LeaseApi()
    one, _ = host(api)
    async with one.hold("web"):
        assert await one.claim("web", 5)
        assert spec(api)["leaseDurationSeconds"] == 60
    assert holder(api) == "one"
    await one.release("web")


@virtual_time.test
async def test_a_lock_is_never_with_two_hosts() -> None:
    api = LeaseApi()
    (one, _), (two, _) = host(api, "one"), host(api, "two")
    assert await one.claim("web", 60)
    assert not await two.claim("web", 60)
    with pytest.raises(LockLost, match="lock web was lost: it could not be renewed in time"):
        two.check("web")
    with pytest.raises(LockLost, match="lock web is not held"):
        await two.prolong("web")
    with pytest.raises(Busy, match="one holds it"):
        async with two.at_once().hold("web"):
            pytest.fail("both hold it")
    await two.release("web")  # gives back nothing that is not its own
    assert holder(api) == "one"
    assert two.holder("web") == "one"
    assert two.holder("other") == "somebody else"
    await one.release("web")
    assert await two.claim("web", 60)
    await two.release("web")


@virtual_time.test
async def test_nobody_else_gets_in_while_the_holder_counts_on_it() -> None:
    """A holder that is cut off stops counting on its lock before the next one may have it."""
    api = LeaseApi()
    (one, link), (two, _) = host(api, "one"), host(api, "two")
    assert await one.claim("web", 60)
    assert not await two.claim("web", 60)
    link.cut = True
    for _ in range(200):
        await asyncio.sleep(1)
        taken = await two.claim("web", 60)
        if taken:
            break
        with pytest.raises(LockLost):
            two.check("web")
    assert taken
    with pytest.raises(LockLost):
        one.check("web")
    link.cut = False
    with pytest.raises(LockLost):
        await one.prolong("web")
    assert holder(api) == "two"
    for locks in (one, two):
        await locks.close()


@virtual_time.test
async def test_what_nobody_has_asked_for_is_not_ours() -> None:
    one, _ = host(LeaseApi())
    with pytest.raises(LockLost, match="lock web was lost: it could not be renewed in time"):
        one.check("web")
    with pytest.raises(LockLost, match="lock web is not held"):
        await one.prolong("web")


@virtual_time.test
async def test_a_lock_that_somebody_took_says_so_once_and_for_all(caplog: pytest.LogCaptureFixture) -> None:
    api = Counting()
    one, _ = host(api)

    async def work() -> None:
        async with one.hold("web"):
            spec(api).update(holderIdentity="two", leaseDurationSeconds=600)
            api.touch()
            await asyncio.sleep(20)
            with pytest.raises(LockLost, match="lock web was lost: lease test/web was taken by two"):
                one.check("web")
            with pytest.raises(LockLost):
                await one.prolong("web")
            written = len(api.writes)
            await asyncio.sleep(200)
            assert len(api.writes) == written  # nobody renews what is lost

    with pytest.raises(LockLost, match=r"lock web was lost before the work under it was done.*taken by two"):
        await work()
    assert caplog.text.count("lock web is lost") == 1
    assert holder(api) == "two"


@virtual_time.test
async def test_what_is_lost_is_not_taken_again_by_prolonging_it() -> None:
    """Another host had it meanwhile: whoever goes on as if nothing had been is told."""
    api = LeaseApi()
    one, _ = host(api)
    assert await one.claim("web", 60)
    spec(api).update(holderIdentity="two", leaseDurationSeconds=600)
    api.touch()
    await asyncio.sleep(20)
    spec(api).update(holderIdentity=None, leaseDurationSeconds=1)
    api.touch()
    with pytest.raises(LockLost, match="lock web was lost: lease test/web was taken by two"):
        await one.prolong("web")
    assert holder(api) is None
    await one.close()


async def test_without_clocks_of_its_own_it_goes_by_those_of_the_machine() -> None:
    api = LeaseApi()
    one = SharedLocks(Client(Link(api)), "test", "one")
    async with one.hold("web"):
        one.check("web")
        assert spec(api)["renewTime"] >= "2026"
    assert holder(api) is None


@virtual_time.test
async def test_what_was_lost_and_taken_again_is_ours_again() -> None:
    api = Counting()
    one, link = host(api)
    assert await one.claim("web", 60)
    link.cut = True
    await asyncio.sleep(100)
    with pytest.raises(LockLost, match="it could not be renewed: "):
        one.check("web")
    link.cut = False
    assert await one.claim("web", 60)
    one.check("web")
    await asyncio.sleep(120)  # and is renewed again
    one.check("web")
    await one.release("web")
    written = len(api.writes)
    await asyncio.sleep(120)
    assert len(api.writes) == written


@virtual_time.test
async def test_a_lock_is_prolonged_right_now_and_for_its_longest_user() -> None:
    api = Counting()
    one, _ = host(api)
    assert await one.claim("web", 1800)
    await asyncio.sleep(100)
    await one.prolong("web")
    assert api.writes == pytest.approx([0, 100])
    assert spec(api)["leaseDurationSeconds"] == 1800
    api.refuse = 1
    with pytest.raises(errors.InternalError):
        await one.prolong("web")
    one.check("web")
    spec(api).update(holderIdentity="two")
    api.touch()
    with pytest.raises(LockLost, match="lock web was lost: lease test/web was taken by two"):
        await one.prolong("web")
    api.refuse = 99
    await asyncio.sleep(500)  # what a renewal says after that is not why it was lost
    with pytest.raises(LockLost, match="taken by two"):
        one.check("web")
    await one.close()


@virtual_time.test
async def test_a_process_that_ends_gives_nothing_back_and_renews_nothing() -> None:
    api = Counting()
    one, _ = host(api)
    assert await one.claim("web", 60)
    await one.close()
    await asyncio.sleep(100)
    assert len(api.writes) == 1
    assert holder(api) == "one"


@virtual_time.test
async def test_work_that_is_being_finished_keeps_its_lock_to_the_end() -> None:
    api = LeaseApi()
    one, _ = host(api)
    async with one.hold("web"):
        await one.close()
        await asyncio.sleep(200)
        one.check("web")
    assert holder(api) is None


@pytest.mark.parametrize(
    ("code", "reason"),
    [(403, "Forbidden"), (422, "Invalid"), (404, "NotFound"), (400, "BadRequest")],
)
@virtual_time.test
async def test_what_no_waiting_mends_is_told_at_once(code: int, reason: str) -> None:
    api = Counting()
    one, _ = host(api)
    api.refuse, api.code, api.reason = 99, code, reason
    began = now()
    with pytest.raises(HostError, match="cannot take lock web") as caught:
        async with one.hold("web"):
            pytest.fail("nobody gave it to us")
    assert not isinstance(caught.value, Busy)
    assert now() - began < 1


@virtual_time.test
async def test_an_api_in_trouble_is_waited_for_and_then_named() -> None:
    api = Counting()
    one, _ = host(api, wait=10)
    api.refuse = 3
    async with one.hold("web"):
        assert now() == pytest.approx(6)
    api.refuse = 99
    began = now()
    with pytest.raises(Busy, match=r"cannot take lock db: .*; waited 10 s, the next pass tries again"):
        async with one.hold("db"):
            pytest.fail("nobody gave it to us")
    assert now() - began == pytest.approx(10)


@virtual_time.test
async def test_a_lock_that_cannot_be_given_back_is_told_and_fails_no_work(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = Counting()
    one, _ = host(api)
    with caplog.at_level(logging.WARNING):
        async with one.hold("web"):
            api.refuse = 1
    assert "lock web: cannot give it back, it will run out by itself" in caplog.text
    api.refuse = 1
    with pytest.raises(errors.InternalError):
        await one.release("web")


@virtual_time.test
async def test_work_that_fails_gives_its_lock_back_and_keeps_its_error() -> None:
    api = LeaseApi()
    one, _ = host(api)
    with pytest.raises(ValueError, match="broken"):
        async with one.hold("web"):
            raise ValueError("broken")
    assert holder(api) is None


@virtual_time.test
async def test_what_the_operator_holds_for_this_host_is_neither_taken_nor_given_back() -> None:
    """Services of a host that is being upgraded restart: it is its turn."""
    api = LeaseApi()
    lent, link = ["web"], Link(api)
    locks = SharedLocks(Client(link), "test", "one", lent=lambda: lent[0])
    for users in (locks, locks.at_once()):
        async with users.hold("web"):
            assert api.lease is None
    lent[0] = ""
    async with locks.hold("web"):
        assert spec(api)["holderIdentity"] == "one"
