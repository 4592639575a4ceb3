"""The work queue, promise by promise, on a virtual clock."""

from __future__ import annotations

import asyncio
import contextlib
import math

import pytest
from prometheus_client import parser

from nodemanager.runtime import metrics
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.queue import QueueClosed, WorkQueue
from support import virtual_time

EXACT = Backoff(base=0.1, maximum=300.0, factor=2.0, jitter=0.0)


def new(registry: metrics.Registry | None = None) -> WorkQueue[str]:
    return WorkQueue("test", metrics=registry or metrics.Registry(), backoff=EXACT)


def now() -> float:
    return asyncio.get_running_loop().time()


async def take(queue: WorkQueue[str]) -> str:
    """Take a key and finish it at once."""
    key = await queue.get()
    queue.done(key)
    return key


async def end(task: asyncio.Task[str]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@virtual_time.test
async def test_first_in_first_out_without_duplicates() -> None:
    queue = new()
    for key in "abacb":
        queue.add(key)
    assert len(queue) == 3
    assert [await take(queue) for _ in range(3)] == ["a", "b", "c"]
    assert len(queue) == 0


@virtual_time.test
async def test_a_key_in_work_is_handed_out_again_only_after_done_and_behind_the_others() -> None:
    queue = new()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert len(queue) == 1
    queue.done("a")
    assert [await take(queue), await take(queue)] == ["b", "a"]
    assert len(queue) == 0


@virtual_time.test
async def test_a_key_that_always_comes_back_does_not_starve_the_others() -> None:
    queue = new()
    queue.add("busy")
    order = []
    for number in range(20):
        key = await queue.get()
        order.append(key)
        queue.add("busy")
        if number == 5:
            queue.add("quiet")
        queue.done(key)
    assert order.index("quiet") == 6  # the very next turn: the busy key had not waited before it


@virtual_time.test
async def test_waiting_getters_are_served() -> None:
    queue = new()
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await virtual_time.settle()
    for key in "abc":
        queue.add(key)
    assert sorted(await asyncio.gather(*getters)) == ["a", "b", "c"]


@virtual_time.test
async def test_a_cancelled_getter_loses_no_key() -> None:
    queue = new()
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await virtual_time.settle()
    queue.add("a")  # wakes the first getter, which is cancelled before it can run
    await end(first)
    assert await second == "a"
    assert first.cancelled()


@virtual_time.test
async def test_a_cancelled_waiting_getter_leaves_nothing_behind() -> None:
    queue = new()
    getter = asyncio.create_task(queue.get())
    await virtual_time.settle()
    await end(getter)
    assert not queue._getters
    queue.add("a")
    assert await take(queue) == "a"


@virtual_time.test
async def test_delayed_adds_come_at_their_time() -> None:
    queue = new()
    queue.add_after("late", 10.0)
    queue.add_after("soon", 2.5)
    queue.add_after("now", 0.0)
    queue.add_after("past", -1.0)
    got = [(await take(queue), now()) for _ in range(4)]
    assert got == [("now", 0.0), ("past", 0.0), ("soon", 2.5), ("late", 10.0)]


@virtual_time.test
async def test_the_earliest_deadline_wins() -> None:
    queue = new()
    queue.add_after("a", 10.0)
    queue.add_after("a", 5.0)
    queue.add_after("a", 20.0)
    assert (await take(queue), now()) == ("a", 5.0)
    queue.add_after("end", 100.0)
    assert (await take(queue), now()) == ("end", 105.0)


@virtual_time.test
async def test_an_immediate_add_takes_nothing_from_a_delayed_one() -> None:
    queue = new()
    queue.add_after("a", 5.0)
    queue.add("a")
    assert (await take(queue), now()) == ("a", 0.0)
    assert (await take(queue), now()) == ("a", 5.0)


@virtual_time.test
async def test_a_delayed_add_of_a_waiting_key_is_a_duplicate() -> None:
    queue = new()
    queue.add_after("a", 5.0)
    await asyncio.sleep(4)
    queue.add("a")
    await asyncio.sleep(2)
    assert len(queue) == 1


@virtual_time.test
async def test_one_timer_whatever_is_delayed() -> None:
    queue = new()
    loop = asyncio.get_running_loop()
    for number in range(500):
        queue.add_after(f"k{number}", 1000.0 - number)
    live = [handle for handle in loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
    assert len(live) == 1
    assert await take(queue) == "k499"
    queue.shut_down()
    assert not [h for h in loop._scheduled if not h.cancelled()]  # type: ignore[attr-defined]


@virtual_time.test
async def test_rescheduling_for_ever_does_not_grow() -> None:
    queue = new()
    for number in range(10_000):
        queue.add_after("a", 1e6 - number)
    assert len(queue._heap) < 200
    assert (await take(queue), now()) == ("a", 1e6 - 9_999)


@virtual_time.test
async def test_backoff_doubles_per_key_up_to_the_maximum_until_forgotten() -> None:
    queue = new()
    delays = []
    for _ in range(14):
        queue.add_rate_limited("a")
        before = now()
        await take(queue)
        delays.append(round(now() - before, 6))
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 300.0, 300.0]
    assert queue.failures("a") == 14
    assert queue.add_rate_limited("b") == 0.1
    queue.forget("a")
    assert queue.failures("a") == 0
    assert queue.add_rate_limited("a") == 0.1


@virtual_time.test
async def test_a_server_may_ask_for_more_patience_within_reason() -> None:
    queue = new()
    assert queue.add_rate_limited("a", at_least=7.0) == 7.0
    assert queue.add_rate_limited("b", at_least=1e9) == 300.0
    assert queue.add_rate_limited("c", at_least=0.01) == 0.1


@virtual_time.test
async def test_nothing_is_remembered_of_forgotten_keys() -> None:
    queue = new()
    for number in range(1000):
        key = f"k{number}"
        queue.add(key)
        queue.add_rate_limited(key)
    for _ in range(2000):
        key = await queue.get()
        queue.forget(key)
        queue.done(key)
    kept = (queue._ready, queue._dirty, queue._processing, queue._failures, queue._delayed, queue._heap)
    assert [len(container) for container in kept] == [0] * 6


@virtual_time.test
async def test_mistakes_are_refused() -> None:
    queue = new()
    with pytest.raises(ValueError, match="cannot finish a: nobody took it"):
        queue.done("a")
    for delay in (math.nan, math.inf):
        with pytest.raises(ValueError, match="cannot add a after"):
            queue.add_after("a", delay)


@virtual_time.test
async def test_shut_down_ends_all_getters_and_takes_no_more() -> None:
    queue = new()
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await virtual_time.settle()
    queue.add_after("late", 5.0)
    queue.shut_down()
    queue.add("a")
    queue.add_after("a", 1.0)
    queue.add_rate_limited("a")
    assert all(isinstance(e, QueueClosed) for e in await asyncio.gather(*getters, return_exceptions=True))
    await asyncio.sleep(10)
    assert len(queue) == 0
    with pytest.raises(QueueClosed, match="test is shut down"):
        await queue.get()


@virtual_time.test
async def test_a_queue_that_is_shut_down_hands_out_nothing() -> None:
    queue = new()
    queue.add("a")
    queue.add("b")
    await queue.get()
    queue.shut_down()
    with pytest.raises(QueueClosed):
        await queue.get()
    queue.done("a")
    with pytest.raises(QueueClosed):
        await queue.get()


@virtual_time.test
async def test_metrics_have_the_names_and_values_that_dashboards_expect() -> None:
    registry = metrics.Registry()
    queue = new(registry)
    queue.add("a")
    queue.add("a")
    queue.add("b")
    queue.add_after("c", 100.0)
    await asyncio.sleep(2)
    await queue.get()
    await asyncio.sleep(3)
    await queue.get()
    await asyncio.sleep(4)

    def values() -> dict[str, float]:
        families = parser.text_string_to_metric_families(registry.render())
        samples = [s for family in families for s in family.samples if not s.name.endswith("_bucket")]
        assert all(s.labels == {"name": "test", "controller": "test"} for s in samples)
        return {s.name.removeprefix("workqueue_"): s.value for s in samples}

    assert values() == {
        "depth": 0.0,
        "adds_total": 2.0,
        "retries_total": 1.0,
        "queue_duration_seconds_count": 2.0,
        "queue_duration_seconds_sum": 7.0,
        "work_duration_seconds_count": 0.0,
        "work_duration_seconds_sum": 0.0,
        "unfinished_work_seconds": 11.0,
        "longest_running_processor_seconds": 7.0,
    }
    queue.done("a")
    queue.done("b")
    queue.add("d")
    after = values()
    assert (after["depth"], after["work_duration_seconds_sum"], after["unfinished_work_seconds"]) == (
        1,
        11,
        0,
    )
    queue.shut_down()
