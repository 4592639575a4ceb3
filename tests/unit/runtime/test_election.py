"""Leader election on virtual time: two candidates, one lease, every kind of trouble.

Aspects: never two leaders, also with slow links, cut links, paused processes and clocks that run
at different speed; the work has ended before the lease is given up; hand-over is quick.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import hypothesis
import pytest
from hypothesis import strategies as st

from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from nodemanager.runtime.election import LeaderElector
from nodemanager.runtime.lease import Clocks, LeaseLock, Timings
from nodemanager.runtime.parts import LeadershipLost
from support import examples, virtual_time
from support.lease_api import LeaseApi, Link
from support.model_api import Answer, status_body

TIMINGS = Timings(lease_duration=15, renew_deadline=10, retry_period=2)


@dataclass
class Candidate:
    """An elector with its own link and its own clock, and a record of when it led."""

    api: LeaseApi
    name: str
    rate: float = 1.0
    delay: Callable[[], float] = lambda: 0.0
    stop_takes: float = 0.0
    periods: list[list[float]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    overruns: int = 0

    def __post_init__(self) -> None:
        self.link = Link(self.api, self.delay)
        self.lock = LeaseLock(
            Client(self.link), "lease", "test", self.name, timings=TIMINGS, clocks=Clocks(steady=self.now)
        )
        self.elector = LeaderElector(self.lock, on_overrun=self.overrun)

    def now(self) -> float:
        return asyncio.get_running_loop().time() * self.rate

    def overrun(self) -> None:
        self.overruns += 1

    async def lead(self) -> None:
        loop = asyncio.get_running_loop()
        period = [loop.time(), float("inf")]
        self.periods.append(period)
        self.tokens.append(self.lock.token)
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await asyncio.sleep(self.stop_takes)
            finally:
                period[1] = loop.time()

    async def stand_for_ever(self) -> None:
        while True:
            with contextlib.suppress(LeadershipLost):
                await self.elector.run(self.lead)


@contextlib.asynccontextmanager
async def standing(*candidates: Candidate) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(candidate.stand_for_ever()) for candidate in candidates]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def assert_never_two(*candidates: Candidate) -> None:
    periods = sorted((start, end, c.name) for c in candidates for start, end in c.periods)
    for (_, end, one), (start, _, other) in itertools.pairwise(periods):
        assert end <= start, f"{one} led until {end} when {other} began at {start}"


@virtual_time.test
async def test_one_leads_and_the_other_waits() -> None:
    api = LeaseApi()
    one, two = Candidate(api, "one"), Candidate(api, "two")
    async with standing(one):
        await virtual_time.settle()
        async with standing(two):
            await asyncio.sleep(300)
            assert len(one.periods) == 1
            assert not two.periods
            assert one.lock.held
            assert not two.lock.held
            with pytest.raises(LeadershipLost, match="two does not hold lease test/lease"):
                two.lock.check()
            one.lock.check()


@virtual_time.test
async def test_a_leader_that_stops_hands_over_at_once() -> None:
    api = LeaseApi()
    one, two = Candidate(api, "one", stop_takes=5), Candidate(api, "two")
    async with standing(one) as [task]:
        await virtual_time.settle()
        async with standing(two):
            await asyncio.sleep(60)
            task.cancel()
            await asyncio.sleep(8)
            assert [end - 60 for _, end in one.periods] == [pytest.approx(5)]
            [(start, _)] = two.periods
            assert start == pytest.approx(65, abs=1.1)  # after the work has ended, not before
            assert two.tokens[0] > one.tokens[0]


@virtual_time.test
async def test_a_leader_without_a_link_is_replaced_within_the_lease_and_two_seconds() -> None:
    api = LeaseApi()
    one, two = Candidate(api, "one"), Candidate(api, "two")
    async with standing(one):
        await virtual_time.settle()
        async with standing(two):
            await asyncio.sleep(61)
            cut_at = asyncio.get_running_loop().time()
            one.link.cut = True
            await asyncio.sleep(20)
            assert_never_two(one, two)
            [(start, _)] = two.periods
            assert start - cut_at <= TIMINGS.lease_duration + 2
            assert one.periods[0][1] <= cut_at + TIMINGS.renew_deadline


@virtual_time.test
async def test_a_leader_that_slept_finds_itself_deposed() -> None:
    """A process stopped for an hour must not write a single thing when it wakes up."""
    api = LeaseApi()
    one = Candidate(api, "one")
    async with standing(one):
        await virtual_time.settle()
        assert one.lock.held
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual_time.VirtualTimeLoop)
        loop.advance(3600)
        with pytest.raises(LeadershipLost):
            one.lock.check()


@virtual_time.test
async def test_a_touched_lease_is_not_a_lost_one() -> None:
    api = LeaseApi()
    one = Candidate(api, "one")
    async with standing(one):
        for _ in range(50):
            await asyncio.sleep(3)
            api.touch()
        assert len(one.periods) == 1


@virtual_time.test
async def test_a_renewal_whose_answer_got_lost_does_not_cost_the_lease() -> None:
    api = LeaseApi()
    one = Candidate(api, "one")
    async with standing(one):
        await asyncio.sleep(1)
        one.link.lose_answers = 1  # it takes effect, so our version is out of date afterwards
        await asyncio.sleep(120)
        assert len(one.periods) == 1


@virtual_time.test
async def test_a_conflict_and_a_server_that_then_hangs_end_the_term_in_time() -> None:
    api = LeaseApi()
    one, two = Candidate(api, "one"), Candidate(api, "two")
    async with standing(one):
        await virtual_time.settle()
        async with standing(two):
            await asyncio.sleep(61)
            one.link.lose_answers = 1
            one.link.hang_on = "GET"
            await asyncio.sleep(60)
            assert_never_two(one, two)
            assert one.periods[0][1] <= 61 + 2 + TIMINGS.renew_deadline + 0.1
            assert two.periods


@virtual_time.test
async def test_a_holder_that_a_person_cleared_is_not_succeeded_at_once() -> None:
    api = LeaseApi()
    one, two = Candidate(api, "one"), Candidate(api, "two")
    async with standing(one):
        await virtual_time.settle()
        async with standing(two):
            await asyncio.sleep(61)
            assert api.lease is not None
            api.lease["spec"]["holderIdentity"] = None
            api.touch()
            await asyncio.sleep(60)
            assert_never_two(one, two)


@virtual_time.test
async def test_who_is_stopped_while_winning_gives_the_lease_back() -> None:
    api = LeaseApi()
    one, two = Candidate(api, "one", delay=lambda: 0.5), Candidate(api, "two")
    task = asyncio.create_task(one.elector.run(one.lead))
    await asyncio.sleep(1.7)  # the request has taken effect, its answer is on the way
    assert api.lease is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with standing(two):
        await asyncio.sleep(3)
        assert two.periods
        assert not one.periods


@virtual_time.test
async def test_the_same_complaint_is_written_once_a_minute_with_a_hint(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class NoNamespace(LeaseApi):
        def handle(self, request: Request) -> Answer:
            return Answer(404, status_body(404, "NotFound", 'namespaces "test" not found'))

    async with standing(Candidate(NoNamespace(), "one")):
        await asyncio.sleep(130)
    assert caplog.text.count("cannot stand for election") == 3
    assert "kubectl create namespace test" in caplog.text


@virtual_time.test
async def test_a_deleted_lease_is_lost_and_nobody_who_knew_its_holder_jumps_in() -> None:
    api = LeaseApi()
    one, two = Candidate(api, "one"), Candidate(api, "two")
    async with standing(one):
        await virtual_time.settle()
        async with standing(two):
            await asyncio.sleep(61)
            api.delete()
            await asyncio.sleep(60)
            assert_never_two(one, two)
            assert len(one.periods) + len(two.periods) == 2


@virtual_time.test
async def test_work_that_does_not_stop_after_the_loss_ends_the_process() -> None:
    api = LeaseApi()
    one = Candidate(api, "one", stop_takes=60)
    async with standing(one):
        await asyncio.sleep(10)
        one.link.cut = True
        await asyncio.sleep(10 + TIMINGS.stop_grace + 0.1)
        assert one.overruns == 1
        await asyncio.sleep(60)


@virtual_time.test
async def test_an_impatient_second_cancellation_reaches_the_work_and_the_lease_is_still_given_back() -> None:
    api = LeaseApi()
    one = Candidate(api, "one", stop_takes=30)
    task = asyncio.create_task(one.elector.run(one.lead))
    await asyncio.sleep(5)
    task.cancel()
    await asyncio.sleep(20)  # longer than a lease: it is renewed while the work takes its time
    assert one.lock.held
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.get_running_loop().time() == pytest.approx(25)
    assert api.lease is not None
    assert api.lease["spec"]["holderIdentity"] == ""


@virtual_time.test
async def test_work_that_fails_releases_the_lease_and_passes_the_error_on() -> None:
    api = LeaseApi()
    one = Candidate(api, "one")

    async def lead() -> None:
        raise ValueError("work is broken")

    with pytest.raises(ValueError, match="work is broken"):
        await one.elector.run(lead)
    assert api.lease is not None
    assert api.lease["spec"]["holderIdentity"] == ""
    assert not one.lock.held


@pytest.mark.parametrize("timings", [(10, 10, 2), (15, 10, 10), (15, 10, 0), (5, 10, 2)])
def test_timings_that_cannot_be_safe_are_refused(timings: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match="cannot use lease timings"):
        Timings(*timings)


NAMES = ("one", "two", "three")
TROUBLES = st.lists(
    st.tuples(
        st.sampled_from(
            [*(f"{verb} {who}" for verb in ("cut", "mend", "restart") for who in NAMES), "touch", "touch"]
        ),
        st.floats(0.1, 40),
    ),
    max_size=25,
)


@hypothesis.settings(max_examples=examples.some(75), deadline=None)
@hypothesis.given(TROUBLES, st.integers(0, 2**32), st.tuples(*[st.floats(0.97, 1.03)] * 3))
def test_never_two_leaders_whatever_happens(
    troubles: list[tuple[str, float]], seed: int, rates: tuple[float, float, float]
) -> None:
    chance = random.Random(seed)

    def delay() -> float:
        return chance.choice([0.0, 0.0, 0.01, 0.5, 3.0, 9.0, 12.0])

    async def scenario() -> None:
        api = LeaseApi()
        candidates = {
            name: Candidate(api, name, rate, delay, stop_takes=1.0)
            for name, rate in zip(NAMES, rates, strict=True)
        }
        async with standing(*candidates.values()) as tasks:
            running = dict(zip(candidates, tasks, strict=True))
            for trouble, pause in troubles:
                await asyncio.sleep(pause)
                verb, _, who = trouble.partition(" ")
                if verb == "touch":
                    api.touch()
                elif verb == "restart":
                    running[who].cancel()
                    await asyncio.wait({running[who]})
                    running[who] = asyncio.create_task(candidates[who].stand_for_ever())
                else:
                    candidates[who].link.cut = verb == "cut"
            for candidate in candidates.values():
                candidate.link.cut = False
                candidate.link.delay = lambda: 0.0
            await asyncio.sleep(60)
            assert any(c.lock.held for c in candidates.values()), "nobody leads though all is well"
            for task in running.values():
                task.cancel()
            await asyncio.wait(running.values())
        assert_never_two(*candidates.values())
        terms = [(p[0], t) for c in candidates.values() for p, t in zip(c.periods, c.tokens, strict=True)]
        tokens = [token for _, token in sorted(terms)]
        assert tokens == sorted(set(tokens)), "a token went back"
        assert not any(c.overruns for c in candidates.values())

    virtual_time.run(scenario())
