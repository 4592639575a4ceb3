"""Controllers: what follows each outcome, never two at once, and a graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from prometheus_client import parser

from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime import controller as controllers
from nodemanager.runtime import metrics
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.controller import Controller, ReconcileResult, Retry, Terminal
from nodemanager.runtime.queue import WorkQueue
from support import virtual_time

LOG = logging.getLogger("test.controller")
KEY = ObjectKey("default", "web")
OTHER = ObjectKey("default", "db")
EXACT = Backoff(base=0.1, maximum=300.0, factor=2.0, jitter=0.0)


def now() -> float:
    return asyncio.get_running_loop().time()


class Harness:
    """A controller whose reconcile takes its outcomes from a list, and what came of it."""

    def __init__(self, *outcomes: object, concurrency: int = 1, timeout: float | None = None) -> None:
        self.outcomes = list(outcomes)
        self.calls: list[tuple[ObjectKey, float]] = []
        self.registry = metrics.Registry()
        self.queue: WorkQueue[ObjectKey] = WorkQueue("web", metrics=self.registry, backoff=EXACT)
        self.controller = Controller(
            "web",
            self.reconcile,
            queue=self.queue,
            metrics=self.registry,
            log=LOG,
            concurrency=concurrency,
            timeout=timeout,
            grace=20.0,
        )

    async def reconcile(self, key: ObjectKey) -> ReconcileResult | None:
        self.calls.append((key, now()))
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, BaseException):
            raise outcome
        if callable(outcome):
            act: Callable[[], Awaitable[ReconcileResult | None]] = outcome
            return await act()
        assert outcome is None or isinstance(outcome, ReconcileResult)
        return outcome

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.create_task(self.controller.run())
        try:
            yield task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def run(self, *keys: ObjectKey, seconds: float = 1000.0) -> None:
        async with self.running():
            for key in keys:
                self.queue.add(key)
            await asyncio.sleep(seconds)

    def counts(self) -> dict[str, float]:
        """Return the counters that are not zero, by result for the total."""
        families = parser.text_string_to_metric_families(self.registry.render())
        samples = [s for family in families for s in family.samples if s.value]
        found = {}
        for sample in samples:
            if sample.name.startswith("controller_runtime_") and sample.name.endswith("_total"):
                assert sample.labels["controller"] == "web"
                name = sample.name.removeprefix("controller_runtime_")
                found[sample.labels.get("result", name)] = sample.value
        return found


@pytest.mark.parametrize(
    ("outcome", "times", "failures", "counts"),
    [
        pytest.param(None, [0.0], 0, {"success": 1}, id="none"),
        pytest.param(ReconcileResult(), [0.0], 0, {"success": 1}, id="success"),
        pytest.param(
            ReconcileResult(7.5), [0.0, 7.5], 0, {"requeue_after": 1, "success": 1}, id="requeue-after"
        ),
        pytest.param(
            ReconcileResult(0), [0.0, 0.0], 0, {"requeue_after": 1, "success": 1}, id="requeue-at-once"
        ),
        pytest.param(ReconcileResult(-3.0), [0.0, 0.0], 0, {"requeue_after": 1, "success": 1}, id="overdue"),
        pytest.param(Retry(5.0, "locked"), [0.0, 5.0], 0, {"requeue": 1, "success": 1}, id="retry"),
        pytest.param(
            Terminal("bad spec"),
            [0.0],
            0,
            {"error": 1, "reconcile_errors_total": 1, "terminal_reconcile_errors_total": 1},
            id="terminal",
        ),
        pytest.param(
            errors.Conflict("changed"),
            [0.0, 0.1],
            0,
            {"error": 1, "reconcile_errors_total": 1, "success": 1},
            id="expected-error",
        ),
        pytest.param(
            KeyError("oops"),
            [0.0, 0.1],
            0,
            {"error": 1, "reconcile_errors_total": 1, "reconcile_panics_total": 1, "success": 1},
            id="programming-error",
        ),
    ],
)
def test_what_follows_an_outcome(
    outcome: object, times: list[float], failures: int, counts: dict[str, float]
) -> None:
    async def scenario() -> None:
        harness = Harness(outcome)
        await harness.run(KEY)
        assert harness.calls == [(KEY, time) for time in times]
        assert harness.queue.failures(KEY) == failures
        assert harness.counts() == counts

    virtual_time.run(scenario())


@virtual_time.test
async def test_failures_in_a_row_back_off_and_success_forgets_them() -> None:
    bad = errors.Unreachable("no route")
    harness = Harness(bad, bad, bad, None)
    async with harness.running():
        harness.queue.add(KEY)
        await asyncio.sleep(100)
        harness.outcomes[:] = [bad]
        harness.queue.add(KEY)
        await asyncio.sleep(100)
    assert [time for _, time in harness.calls] == pytest.approx([0.0, 0.1, 0.3, 0.7, 100.0, 100.1])


@virtual_time.test
async def test_retry_neither_adds_to_the_backoff_nor_resets_it() -> None:
    bad = errors.Unreachable("no route")
    harness = Harness(bad, bad, Retry(5.0), bad)
    await harness.run(KEY)
    assert [time for _, time in harness.calls] == pytest.approx([0.0, 0.1, 0.3, 5.3, 5.7])


@virtual_time.test
async def test_the_server_decides_how_long_to_wait_when_it_says_so() -> None:
    details = errors.StatusDetails(retry_after_seconds=30)
    harness = Harness(errors.TooManyRequests("slow down", details=details))
    await harness.run(KEY)
    assert [time for _, time in harness.calls] == [0.0, 30.0]


@pytest.mark.parametrize("delay", [math.nan, math.inf, -math.inf])
def test_a_delay_that_is_no_number_is_refused(delay: float) -> None:
    with pytest.raises(ValueError, match="cannot try again after"):
        ReconcileResult(delay)
    with pytest.raises(ValueError, match="cannot try again after"):
        Retry(delay)


@virtual_time.test
async def test_a_hanging_reconcile_times_out_and_is_tried_again() -> None:
    async def hang() -> ReconcileResult | None:
        await asyncio.sleep(1e6)
        return None

    harness = Harness(hang, timeout=10.0)
    await harness.run(KEY)
    assert [time for _, time in harness.calls] == [0.0, 10.1]
    assert harness.counts() == {
        "error": 1,
        "reconcile_errors_total": 1,
        "reconcile_timeouts_total": 1,
        "success": 1,
    }


@virtual_time.test
async def test_a_timeout_of_the_reconcile_itself_is_an_ordinary_error() -> None:
    harness = Harness(TimeoutError("socket"), timeout=10.0)
    await harness.run(KEY)
    assert harness.counts()["error"] == 1
    assert "reconcile_timeouts_total" not in harness.counts()


@virtual_time.test
async def test_a_cancellation_from_elsewhere_does_not_end_the_worker() -> None:
    async def awaits_cancelled() -> ReconcileResult | None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future
        return None

    harness = Harness(awaits_cancelled)
    await harness.run(KEY)
    assert [time for _, time in harness.calls] == [0.0, 0.1]
    assert harness.counts()["error"] == 1


def test_expected_errors_are_one_line_each(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        await Harness(errors.Forbidden("cannot list x: no"), errors.Forbidden("cannot list x: no")).run(KEY)

    with caplog.at_level(logging.WARNING):
        virtual_time.run(scenario())
    assert [(r.getMessage(), r.exc_info) for r in caplog.records] == [
        ("cannot reconcile web default/web: cannot list x: no; again in 0.1 s", None),
        ("cannot reconcile web default/web: cannot list x: no; again in 0.2 s", None),
    ]


def test_a_programming_error_has_its_traceback_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        await Harness(KeyError("oops"), KeyError("oops"), KeyError("oops")).run(KEY)

    with caplog.at_level(logging.WARNING):
        virtual_time.run(scenario())
    assert len(caplog.records) == 3
    assert [record.exc_info is not None for record in caplog.records] == [True, False, False]
    assert all("default/web: KeyError('oops')" in record.getMessage() for record in caplog.records)


@virtual_time.test
async def test_names_run_side_by_side_but_never_one_twice() -> None:
    active: list[ObjectKey] = []
    most = 0

    async def work() -> ReconcileResult | None:
        nonlocal most
        key = harness.calls[-1][0]
        assert key not in active
        active.append(key)
        most = max(most, len(active))
        harness.queue.add(KEY)
        await asyncio.sleep(1)
        active.remove(key)
        return None

    harness = Harness(*[work] * 20, concurrency=3)
    await harness.run(KEY, OTHER, ObjectKey("", "node"), ObjectKey("", "fourth"), seconds=9.5)
    assert most == 3
    assert [time for key, time in harness.calls if key == KEY] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert (ObjectKey("", "fourth"), 1.0) in harness.calls


@virtual_time.test
async def test_a_stop_lets_running_reconciles_finish_and_takes_no_more() -> None:
    finished = []

    async def work() -> ReconcileResult | None:
        await asyncio.sleep(15)
        finished.append(now())
        return ReconcileResult(1.0)

    harness = Harness(work, work)
    task = asyncio.create_task(harness.controller.run())
    harness.queue.add(KEY)
    harness.queue.add(OTHER)
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert finished == [15.0]
    assert harness.calls == [(KEY, 0.0)]
    assert harness.counts() == {"requeue_after": 1}


async def _cleans_up(log: list[float]) -> ReconcileResult | None:
    try:
        await asyncio.sleep(1e6)
    finally:
        log.append(now())
    return None


@virtual_time.test
async def test_a_reconcile_that_outlasts_the_grace_is_cancelled() -> None:
    log: list[float] = []
    harness = Harness(lambda: _cleans_up(log))
    task = asyncio.create_task(harness.controller.run())
    harness.queue.add(KEY)
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == [21.0]
    assert harness.controller.stuck() is None


@virtual_time.test
async def test_a_second_cancellation_does_not_wait() -> None:
    log: list[float] = []
    harness = Harness(lambda: _cleans_up(log))
    task = asyncio.create_task(harness.controller.run())
    harness.queue.add(KEY)
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == [2.0]


@virtual_time.test
async def test_what_must_not_be_swallowed_ends_the_controller() -> None:
    class Abort(BaseException):
        pass

    harness = Harness(Abort(), concurrency=2)
    harness.queue.add(KEY)
    with pytest.raises(Abort):
        await harness.controller.run()


@virtual_time.test
async def test_the_longest_running_reconcile_is_visible() -> None:
    async def work() -> ReconcileResult | None:
        await asyncio.sleep(50)
        return None

    harness = Harness(work, work, concurrency=2)
    assert harness.controller.stuck() is None
    async with harness.running():
        harness.queue.add(KEY)
        await asyncio.sleep(10)
        harness.queue.add(OTHER)
        await asyncio.sleep(20)
        assert harness.controller.stuck() == (KEY, 30.0)
        assert harness.controller.check(limit=30.0) is None
        assert harness.controller.check(limit=29.0) == (
            "the reconcile of default/web in controller web has been running for 30 s"
        )
        rendered = harness.registry.render()
        assert 'controller_runtime_active_workers{controller="web"} 2\n' in rendered
        assert 'controller_runtime_max_concurrent_reconciles{controller="web"} 2\n' in rendered
        await asyncio.sleep(100)
    rendered = harness.registry.render()
    assert 'controller_runtime_active_workers{controller="web"} 0\n' in rendered
    assert 'controller_runtime_reconcile_time_seconds_sum{controller="web"} 100\n' in rendered
    assert 'controller_runtime_reconcile_time_seconds_bucket{controller="web",le="50"} 2\n' in rendered


def test_a_controller_needs_a_worker() -> None:
    harness = Harness()
    with pytest.raises(ValueError, match="cannot run controller web with concurrency 0"):
        controllers.Controller(
            "web",
            harness.reconcile,
            queue=harness.queue,
            metrics=harness.registry,
            log=LOG,
            concurrency=0,
        )
