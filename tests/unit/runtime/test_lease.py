"""One Lease as a lock, call by call: who may take it when, and what becomes of a holder in trouble."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.runtime import lease
from nodemanager.runtime.lease import Clocks, LeaseLock, Timings
from nodemanager.runtime.parts import LeadershipLost
from support import virtual_time
from support.lease_api import LeaseApi, Link
from support.model_api import Answer, status_body

TIMINGS = Timings(lease_duration=15, renew_deadline=10, retry_period=2)
EPOCH = datetime(2026, 6, 1, 12, tzinfo=UTC)


def now() -> float:
    return asyncio.get_running_loop().time()


def candidate(api: LeaseApi, name: str) -> tuple[LeaseLock, Link]:
    link = Link(api)
    clocks = Clocks(steady=now, wall=lambda: EPOCH + timedelta(seconds=now()))
    return LeaseLock(Client(link), "lease", "test", name, timings=TIMINGS, clocks=clocks), link


def spec(api: LeaseApi) -> dict[str, Any]:
    assert api.lease is not None
    found: dict[str, Any] = api.lease["spec"]
    return found


@virtual_time.test
async def test_what_people_read_in_a_lease() -> None:
    api = LeaseApi()
    one, _ = candidate(api, "one")
    assert await one.try_acquire()
    assert spec(api) == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-06-01T12:00:00.000000Z",
        "renewTime": "2026-06-01T12:00:00.000000Z",
        "leaseTransitions": 1,
    }
    assert one.token == 1
    await asyncio.sleep(3)
    await one.renew()
    assert spec(api)["renewTime"] == "2026-06-01T12:00:03.000000Z"
    assert spec(api)["acquireTime"] == "2026-06-01T12:00:00.000000Z"
    assert (spec(api)["leaseTransitions"], one.token) == (1, 1)


@virtual_time.test
async def test_it_is_ours_until_the_deadline_after_it_was_sent_and_not_a_moment_longer() -> None:
    api = LeaseApi()
    one, link = candidate(api, "one")
    link.delay = lambda: 1.0
    assert await one.try_acquire()  # read: 2 s; sent after that, and answered 2 s later
    assert one.remaining() == pytest.approx(8)
    await asyncio.sleep(7.9)
    one.check()
    await asyncio.sleep(0.1)
    assert (one.held, one.remaining()) == (False, 0.0)
    with pytest.raises(LeadershipLost, match="cannot write: one does not hold lease test/lease"):
        one.check()


@virtual_time.test
async def test_a_renewal_counts_from_when_it_was_sent() -> None:
    one, link = candidate(LeaseApi(), "one")
    assert await one.try_acquire()
    await asyncio.sleep(4)
    link.delay = lambda: 1.0
    await one.renew()
    assert one.remaining() == pytest.approx(8)


@virtual_time.test
async def test_an_answer_that_comes_after_the_deadline_wins_nothing() -> None:
    one, link = candidate(LeaseApi(), "one")
    delays = iter([0.0, 0.0, 5.0, 5.0])
    link.delay = lambda: next(delays)
    assert not await one.try_acquire()
    assert not one.held


@virtual_time.test
async def test_whoever_comes_second_takes_over_only_when_it_saw_no_renewal_for_the_whole_duration() -> None:
    api = LeaseApi()
    (one, _), (two, _) = candidate(api, "one"), candidate(api, "two")
    assert await one.try_acquire()
    assert not await two.try_acquire()
    await asyncio.sleep(14.9)
    assert not await two.try_acquire()
    await asyncio.sleep(0.1)
    assert await two.try_acquire()
    assert (spec(api)["holderIdentity"], spec(api)["leaseTransitions"], two.token) == ("two", 2, 2)


@virtual_time.test
async def test_every_renewal_that_was_seen_begins_the_wait_anew() -> None:
    api = LeaseApi()
    (one, _), (two, _) = candidate(api, "one"), candidate(api, "two")
    assert await one.try_acquire()
    assert not await two.try_acquire()
    await asyncio.sleep(9)
    await one.renew()
    await asyncio.sleep(5)
    assert not await two.try_acquire()  # seen now
    await asyncio.sleep(14)
    assert not await two.try_acquire()
    await asyncio.sleep(1)
    assert await two.try_acquire()


@virtual_time.test
@pytest.mark.parametrize(("seconds", "wait"), [(60, 60), (5, 15), (None, 15)])
async def test_the_longer_duration_counts_whosever_it_is(seconds: int | None, wait: float) -> None:
    """A holder that was started with other timings goes by its own."""
    api = LeaseApi()
    (one, _), (two, _) = candidate(api, "one"), candidate(api, "two")
    assert await one.try_acquire()
    spec(api)["leaseDurationSeconds"] = seconds
    assert not await two.try_acquire()
    await asyncio.sleep(wait - 0.1)
    assert not await two.try_acquire()
    await asyncio.sleep(0.1)
    assert await two.try_acquire()


@virtual_time.test
@pytest.mark.parametrize(
    ("holder", "seconds", "free"), [("", 1, True), (None, 1, True), ("one", 1, False), ("", 15, False)]
)
async def test_only_what_was_given_back_is_free_at_once(holder: str | None, seconds: int, free: bool) -> None:
    """Cleared by a person, its holder would not know yet."""
    api = LeaseApi()
    (one, _), (two, _) = candidate(api, "one"), candidate(api, "two")
    assert await one.try_acquire()
    spec(api).update(holderIdentity=holder, leaseDurationSeconds=seconds)
    assert await two.try_acquire() is free


@virtual_time.test
async def test_a_lease_that_is_gone_is_made_anew_by_those_who_saw_it_only_after_its_duration() -> None:
    api = LeaseApi()
    (one, _), (two, _), (three, _) = (candidate(api, name) for name in ("one", "two", "three"))
    assert await one.try_acquire()
    assert not await two.try_acquire()
    api.delete()
    await asyncio.sleep(14.9)
    assert not await two.try_acquire()
    assert api.lease is None
    await asyncio.sleep(0.1)
    assert await two.try_acquire()
    api.delete()
    assert await three.try_acquire()  # who never saw it cannot know


@virtual_time.test
async def test_a_token_does_not_go_back_when_the_lease_was_deleted() -> None:
    api = LeaseApi()
    one, _ = candidate(api, "one")
    assert await one.try_acquire()
    assert await _again(api, one) == 2
    api.delete()
    await asyncio.sleep(20)
    assert await one.try_acquire()
    assert (spec(api)["leaseTransitions"], one.token) == (3, 3)


async def _again(api: LeaseApi, lock: LeaseLock) -> int:
    """Let it run out, and take it again."""
    await asyncio.sleep(20)
    assert not await lock.try_acquire()
    await asyncio.sleep(15)
    assert await lock.try_acquire()
    return lock.token


@virtual_time.test
async def test_a_lease_without_a_count_begins_one() -> None:
    api = LeaseApi()
    one, _ = candidate(api, "one")
    api.lease = {
        "metadata": {"name": "lease", "namespace": "test", "resourceVersion": "0"},
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
    }
    assert await one.try_acquire()
    assert one.token == spec(api)["leaseTransitions"] == 1


class Racing(LeaseApi):
    """An API at which somebody else is faster, once."""

    def __init__(self, method: str, meanwhile: Callable[[LeaseApi], None]) -> None:
        super().__init__()
        self.method, self.meanwhile = method, meanwhile

    def handle(self, request: Request) -> Answer:
        if request.method == self.method:
            self.method = ""
            self.meanwhile(self)
        return super().handle(request)


@virtual_time.test
@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_whoever_is_slower_has_not_won(method: str) -> None:
    api = Racing("", lambda found: None)
    (one, _), (two, _) = candidate(api, "one"), candidate(api, "two")
    if method == "PATCH":
        assert await two.try_acquire()
        await two.release()
    api.method = method
    other = {
        "metadata": {"name": "lease", "namespace": "test"},
        "spec": {"holderIdentity": "two", "leaseDurationSeconds": 15, "leaseTransitions": 5},
    }

    def meanwhile(found: LeaseApi) -> None:
        found._store(other)

    api.meanwhile = meanwhile
    assert not await one.try_acquire()
    assert not one.held
    assert spec(api)["holderIdentity"] == "two"


@virtual_time.test
@pytest.mark.parametrize("what", ["deleted", "taken", "taken and given back to us"])
async def test_a_lease_that_went_to_somebody_else_is_lost_at_once(what: str) -> None:
    """Also if it was deleted in the middle of a renewal: that is no reason to go on until the deadline."""
    api = LeaseApi()
    one, _ = candidate(api, "one")
    assert await one.try_acquire()
    if what == "deleted":
        api.delete()
    else:
        holder = "two" if what == "taken" else "one"
        spec(api).update(holderIdentity=holder, leaseTransitions=2)
        api.touch()
    with pytest.raises(LeadershipLost, match="lease test/lease was taken from one"):
        await one.renew()
    assert not one.held
    await one.release()  # and is not given back: it is not ours
    assert api.lease is None or spec(api)["holderIdentity"]


@virtual_time.test
async def test_a_renewal_that_a_person_got_in_the_way_of_is_sent_again() -> None:
    api = LeaseApi()
    one, _ = candidate(api, "one")
    assert await one.try_acquire()
    await asyncio.sleep(5)
    api.touch()
    await one.renew()
    assert one.remaining() == pytest.approx(10)
    await asyncio.sleep(5)
    await one.renew()
    assert one.remaining() == pytest.approx(10)


@virtual_time.test
@pytest.mark.parametrize(("held_for", "left"), [(1.0, 5.0), (7.0, 3.0)])
async def test_a_renewal_without_an_answer_leaves_room_for_another(held_for: float, left: float) -> None:
    """It takes half a deadline at most, and no longer than the lease is ours."""
    one, link = candidate(LeaseApi(), "one")
    assert await one.try_acquire()
    await asyncio.sleep(held_for)
    link.hang_on = "PATCH"
    began = now()
    with pytest.raises(errors.TimedOut, match="no answer in time"):
        await one.renew()
    assert now() - began == pytest.approx(left)


@virtual_time.test
async def test_one_that_cannot_be_read_is_no_free_one() -> None:
    one, link = candidate(LeaseApi(), "one")
    link.hang_on = "GET"
    began = now()
    with pytest.raises(errors.TimedOut, match="cannot read lease test/lease: no answer in time"):
        await one.try_acquire()
    assert now() - began == pytest.approx(10)


@virtual_time.test
async def test_what_is_given_back_is_free_for_the_next(caplog: pytest.LogCaptureFixture) -> None:
    api = LeaseApi()
    (one, _), (two, _) = candidate(api, "one"), candidate(api, "two")
    await one.release()  # not ours: nothing is sent
    assert api.lease is None
    assert caplog.text == ""
    assert await one.try_acquire()
    await one.release()
    assert not one.held
    assert (spec(api)["holderIdentity"], spec(api)["leaseDurationSeconds"]) == ("", 1)
    assert await two.try_acquire()
    await one.release()
    assert spec(api)["holderIdentity"] == "two"


@virtual_time.test
@pytest.mark.parametrize("trouble", ["cut", "silent"])
async def test_what_cannot_be_given_back_is_not_ours_either(
    trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    one, link = candidate(LeaseApi(), "one")
    assert await one.try_acquire()
    link.cut, link.hang_on = trouble == "cut", "PATCH" if trouble == "silent" else ""
    began = now()
    await one.release()
    assert now() - began <= TIMINGS.retry_period
    assert not one.held
    assert "cannot release, it will run out by itself" in caplog.text


@virtual_time.test
async def test_what_was_won_without_knowing_is_given_back_and_nothing_else() -> None:
    api = LeaseApi()
    (one, _), (two, _) = candidate(api, "one"), candidate(api, "two")
    assert await one.try_acquire()
    await two.disown()
    assert spec(api)["holderIdentity"] == "one"
    await one.disown()
    assert spec(api)["holderIdentity"] == ""


@virtual_time.test
@pytest.mark.parametrize("trouble", ["cut", "silent", "absent"])
async def test_whether_something_was_won_is_not_worth_waiting_for(
    trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    one, link = candidate(LeaseApi(), "one")
    link.cut, link.hang_on = trouble == "cut", "GET" if trouble == "silent" else ""
    began = now()
    with caplog.at_level(logging.DEBUG):
        await one.disown()
    assert now() - began <= TIMINGS.retry_period
    assert "cannot look whether it is ours" in caplog.text


@virtual_time.test
async def test_an_api_in_trouble_is_told_and_costs_no_term() -> None:
    class Broken(LeaseApi):
        def handle(self, request: Request) -> Answer:
            if request.method == "PATCH":
                return Answer(500, status_body(500, "InternalError"))
            return super().handle(request)

    one, _ = candidate(Broken(), "one")
    assert await one.try_acquire()
    with pytest.raises(errors.InternalError):
        await one.renew()
    assert one.held


async def test_it_goes_by_the_usual_timings_and_clocks_unless_told_otherwise() -> None:
    api = LeaseApi()
    one = LeaseLock(Client(Link(api)), "lease", "test", "one")
    assert await one.try_acquire()
    assert spec(api)["leaseDurationSeconds"] == 15
    assert 9 < one.remaining() <= 10


@pytest.mark.parametrize(
    "timings", [(1, 0.9, 0.5), (15, 15, 2), (15, 10, 10), (15, 10, 0), (15, 10, -1), (15, 16, 2)]
)
def test_timings_without_a_gap_are_refused(timings: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match="cannot use lease timings"):
        Timings(*timings)


def test_the_shortest_timings_that_can_be_told_from_a_lease_that_was_given_back() -> None:
    assert Timings(2, 1, 0.5).stop_grace == 0.5
    assert TIMINGS.stop_grace == 2.5


def test_time_passes_also_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = {time.CLOCK_BOOTTIME: 7.0}
    monkeypatch.setattr(time, "clock_gettime", clocks.__getitem__)
    assert lease.boot_clock() == 7.0
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    assert lease.boot_clock() != 7.0
    assert lease.wall_clock().tzinfo is UTC
