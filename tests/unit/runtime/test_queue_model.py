"""The work queue against a model that is too simple to be wrong, over random interleavings."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nodemanager.runtime import metrics
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.queue import QueueClosed, WorkQueue
from support import examples, virtual_time

# Powers of two: sums of such delays are exact, so times can be compared with `==`.
BACKOFF = Backoff(base=0.25, maximum=4.0, factor=2.0, jitter=0.0)
KEYS = "abcd"
THOROUGH = settings(
    max_examples=examples.some(250),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

keys = st.sampled_from(KEYS)
delays = st.integers(0, 20).map(lambda eighths: eighths / 8)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("add"), keys),
        st.tuples(st.just("add_after"), keys, delays),
        st.tuples(st.just("add_rate_limited"), keys),
        st.tuples(st.just("forget"), keys),
        st.tuples(st.just("get")),
        st.tuples(st.just("done"), st.integers(0, 3)),
        st.tuples(st.just("sleep"), delays),
    ),
    max_size=40,
)


@dataclass
class Model:
    """What the queue should be: plain lists, searched from end to end."""

    now: float = 0.0
    waiting: list[str] = field(default_factory=list)
    working: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)  # added while in work
    delayed: list[tuple[float, str]] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)

    def add(self, key: str) -> None:
        if key in self.working:
            if key not in self.again:
                self.again.append(key)
        elif key not in self.waiting:
            self.waiting.append(key)

    def add_after(self, key: str, delay: float) -> None:
        pending = [deadline for deadline, other in self.delayed if other == key]
        if delay <= 0:
            self.add(key)
        elif not pending or self.now + delay < pending[0]:
            self.delayed = [entry for entry in self.delayed if entry[1] != key]
            self.delayed.append((self.now + delay, key))

    def add_rate_limited(self, key: str) -> None:
        failures = self.failures[key] = self.failures.get(key, 0) + 1
        self.add_after(key, min(BACKOFF.base * 2 ** (failures - 1), BACKOFF.maximum))

    def forget(self, key: str) -> None:
        self.failures.pop(key, None)

    def get(self) -> str:
        key = self.waiting.pop(0)
        self.working.append(key)
        return key

    def done(self, key: str) -> None:
        self.working.remove(key)
        if key in self.again:
            self.again.remove(key)
            self.waiting.append(key)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for entry in sorted(
            self.delayed, key=lambda entry: entry[0]
        ):  # stable: equal ones in order of adding
            if entry[0] <= self.now:
                self.delayed.remove(entry)
                self.add(entry[1])


def check(queue: WorkQueue[str], model: Model) -> None:
    assert list(queue._ready) == model.waiting
    assert list(queue._processing) == model.working
    assert {key: queue.failures(key) for key in KEYS} == {key: model.failures.get(key, 0) for key in KEYS}
    assert {key: when for key, (when, _) in queue._delayed.items()} == {key: at for at, key in model.delayed}


async def step(queue: WorkQueue[str], model: Model, operation: tuple[object, ...]) -> None:
    """Do the same thing to both."""
    match operation:
        case ("get",):
            getter = asyncio.create_task(queue.get())
            await virtual_time.settle()
            assert getter.done() == bool(model.waiting), "get waits exactly when nothing is ready"
            if getter.done():
                assert await getter == model.get()
            else:
                getter.cancel()
                await asyncio.wait([getter])
        case ("done", int() as number):
            if model.working:
                key = model.working[number % len(model.working)]
                model.done(key)
                queue.done(key)
        case ("sleep", float() as seconds):
            model.sleep(seconds)
            await asyncio.sleep(seconds)
        case (str() as name, *arguments):
            getattr(model, name)(*arguments)
            getattr(queue, name)(*arguments)


@THOROUGH
@example([  # a deadline of b that was given up comes up again, later than that of a
    ("add_after", "b", 2.25), ("add_after", "a", 2.25), ("add_rate_limited", "b"), ("sleep", 0.25),
    ("add_after", "b", 2.0), ("get",),
])  # fmt: skip
@given(operations)
def test_every_interleaving_ends_in_the_state_of_the_model(steps: list[tuple[object, ...]]) -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue("model", metrics=metrics.Registry(), backoff=BACKOFF)
        model = Model()
        for operation in steps:
            await step(queue, model, operation)
            check(queue, model)
        # No key is lost: whatever is left comes out, once each, and then nothing.
        while model.working:
            await step(queue, model, ("done", 0))
        model.sleep(1000.0)
        await asyncio.sleep(1000.0)
        while model.waiting:
            await step(queue, model, ("get",))
            await step(queue, model, ("done", 0))
        check(queue, model)
        assert (len(queue), queue._heap, queue._timer) == (0, [], None)

    virtual_time.run(scenario())


@dataclass
class Job:
    """One add in a run with real workers, and what happens to it."""

    at: float
    key: str
    takes: float
    fails: int


jobs = st.lists(
    st.builds(Job, delays, keys, st.integers(0, 8).map(lambda n: n / 8), st.integers(0, 3)), max_size=25
)


class Workers:
    """Several workers that fail as often as they are told."""

    def __init__(self, queue: WorkQueue[str], plan: list[Job]) -> None:
        self.queue = queue
        self.active: set[str] = set()
        self.starts: dict[str, list[float]] = {key: [] for key in KEYS}
        self.takes = {job.key: job.takes for job in plan}
        self.fails = {job.key: job.fails for job in plan}

    async def run(self) -> None:
        with contextlib.suppress(QueueClosed):
            while True:
                await self.work(await self.queue.get())

    async def work(self, key: str) -> None:
        assert key not in self.active, "handed out twice at once"
        self.active.add(key)
        self.starts[key].append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.takes[key])
        if self.fails[key]:
            self.fails[key] -= 1
            self.queue.add_rate_limited(key)
        else:
            self.queue.forget(key)
        self.active.remove(key)
        self.queue.done(key)


@settings(THOROUGH, max_examples=examples.some(75))
@given(plan=jobs, count=st.integers(1, 4))
def test_with_workers_every_add_is_followed_by_work(plan: list[Job], count: int) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        queue: WorkQueue[str] = WorkQueue("model", metrics=metrics.Registry(), backoff=BACKOFF)
        workers = Workers(queue, plan)
        running = [asyncio.create_task(workers.run()) for _ in range(count)]
        for job in plan:
            loop.call_at(job.at, queue.add, job.key)
        await asyncio.sleep(1000.0)
        assert (len(queue), queue._failures, queue._delayed, queue.ages()) == (0, {}, {}, [])
        for job in plan:
            assert max(workers.starts[job.key]) >= job.at
        assert not any(workers.fails.values())
        queue.shut_down()
        await asyncio.gather(*running)

    virtual_time.run(scenario())


@settings(THOROUGH, max_examples=examples.some(50))
@given(
    base=st.floats(0.001, 10),
    factor=st.floats(1, 10),
    span=st.floats(1, 1e5),
    jitter=st.floats(0, 0.9),
    chances=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=40),
)
def test_backoff_grows_up_to_its_maximum(
    base: float, factor: float, span: float, jitter: float, chances: list[float]
) -> None:
    async def scenario() -> None:
        rolls = iter(chances)
        limit = base * span
        backoff = Backoff(base=base, maximum=limit, factor=factor, jitter=jitter, random=lambda: next(rolls))
        queue: WorkQueue[str] = WorkQueue("model", metrics=metrics.Registry(), backoff=backoff)
        nominal, last = base, 0.0
        for chance in chances:
            delay = queue.add_rate_limited("a")
            assert nominal * (1 - jitter) * 0.999 <= delay <= nominal * 1.001 <= limit * 1.002
            without_jitter = delay / (1 - jitter * chance)
            assert without_jitter >= last * 0.999
            nominal, last = min(nominal * factor, limit), without_jitter
        queue.shut_down()

    virtual_time.run(scenario())
