"""A controller: workers that take names from a queue and call one reconcile function.

A request is a name, never an event: reconcile looks at what is, not at what happened. It says
how it ended by returning or raising, and one place (`Controller._settle`) decides what follows:

| reconcile                                | then                                      | counted as    |
|------------------------------------------|-------------------------------------------|---------------|
| returns None or `ReconcileResult()`      | failures forgotten                        | success       |
| returns `ReconcileResult(requeue_after)` | failures forgotten, again after that time | requeue_after |
| raises `Retry(delay)`                    | again after that time, failures kept      | requeue       |
| raises `Terminal`                        | failures forgotten, not again by itself   | error         |
| raises anything else, times out          | again after the backoff of its key        | error         |

`Retry` is for "not now" (a lock is held, a window is closed): it is no failure, so it does not
add to the backoff, and it proves nothing, so it does not reset the backoff either.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field

from nodemanager.kube import errors, objects
from nodemanager.runtime import metrics as metrics_
from nodemanager.runtime import parts, tasks
from nodemanager.runtime import queue as queue_

Request = objects.ObjectKey

TIME_BUCKETS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
    1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0,
    40.0, 50.0, 60.0,
)  # fmt: skip
"""The bounds of controller-runtime, so that its dashboards fit."""


class Terminal(Exception):
    """Trying again is of no use until something changes: a spec that cannot work."""


class Retry(Exception):
    """Not now: try again after `delay` seconds. Expected, hence no error."""

    def __init__(self, delay: float, reason: str = "") -> None:
        super().__init__(reason or f"asked to be tried again in {delay:g} s")
        self.delay = _checked(delay)


class ReconcileTimeout(Exception):
    """A reconcile took longer than its controller allows."""


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """How a reconcile went well."""

    requeue_after: float | None = None
    """Seconds until this name is due again without any event; None = not by itself, 0 = at once."""

    def __post_init__(self) -> None:
        if self.requeue_after is not None:
            _checked(self.requeue_after)


Reconcile = Callable[[Request], Awaitable[ReconcileResult | None]]


@dataclass(eq=False)
class Controller:
    """Reconciles names from a queue, `concurrency` at a time, never one name twice at once."""

    name: str
    reconcile: Reconcile
    _: KW_ONLY
    queue: queue_.WorkQueue[Request]
    metrics: metrics_.Registry
    log: logging.Logger
    concurrency: int = 1
    timeout: float | None = None
    """Seconds that one reconcile may take; None = as long as it likes."""
    grace: float = 20.0
    """Seconds that running reconciles get to finish when the controller is stopped."""
    expected: tuple[type[Exception], ...] = (errors.KubeError, ReconcileTimeout, parts.LeadershipLost)
    """Errors that happen in healthy code: one log line, no traceback, no panic counted."""
    _running: dict[Request, float] = field(default_factory=dict, init=False)
    _counts: _ControllerMetrics = field(init=False)

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(
                f"cannot run controller {self.name} with concurrency {self.concurrency}: need >= 1"
            )
        self._counts = _ControllerMetrics(self.name, self.metrics)
        self._counts.max_concurrent.set(self.concurrency)

    async def run(self) -> None:
        """Work until cancelled, then stop taking names and let running reconciles finish within `grace`.

        Cancelled a second time, running reconciles are cancelled at once. The queue is shut
        down afterwards: a controller runs once.
        """
        workers = [
            asyncio.create_task(self._work(), name=f"{self.name}-worker-{number}")
            for number in range(self.concurrency)
        ]
        try:
            # A worker ends early only through what must not be swallowed, such as SystemExit.
            await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.queue.shut_down()
            await self._finish(workers)

    def stuck(self) -> tuple[Request, float] | None:
        """Return the name that has been in work longest and for how many seconds, if any is."""
        if not self._running:
            return None
        key = min(self._running, key=self._running.__getitem__)
        return key, asyncio.get_running_loop().time() - self._running[key]

    def check(self, limit: float) -> str | None:
        """Return why this controller is unhealthy: a reconcile that runs longer than `limit` seconds."""
        oldest = self.stuck()
        if oldest is None or oldest[1] <= limit:
            return None
        return (
            f"the reconcile of {oldest[0]} in controller {self.name} has been running for {oldest[1]:.0f} s"
        )

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except queue_.QueueClosed:
                return
            try:
                await self._process(key)
            finally:
                self.queue.done(key)

    async def _process(self, key: Request) -> None:
        loop = asyncio.get_running_loop()
        started = self._running[key] = loop.time()
        self._counts.active.inc()
        try:
            outcome = await self._attempt(key)
        finally:
            del self._running[key]
            self._counts.active.dec()
            self._counts.time.observe(loop.time() - started)
        self._settle(key, outcome)

    async def _attempt(self, key: Request) -> ReconcileResult | Exception:
        """Call reconcile and return how it ended; only our own cancellation goes through."""
        task = asyncio.current_task()
        scope = asyncio.timeout(self.timeout)
        try:
            async with scope:
                return await self.reconcile(key) or ReconcileResult()
        except asyncio.CancelledError:
            if task is not None and task.cancelling():
                raise
            # Another task cancelled something that reconcile awaited. Let through, it
            # would end this worker for good.
            return RuntimeError("something that it waited for was cancelled")
        except TimeoutError as exc:
            if not scope.expired():
                return exc
            self._counts.timeouts.inc()
            return ReconcileTimeout(f"it took longer than {self.timeout:g} s")
        except Exception as exc:  # noqa: BLE001  # whatever it is, it is settled and logged below
            return exc

    def _settle(self, key: Request, outcome: ReconcileResult | Exception) -> None:
        """Decide what follows; the one place that does."""
        match outcome:
            case ReconcileResult(requeue_after=None):
                self.queue.forget(key)
                self._counts.success.inc()
            case ReconcileResult(requeue_after=float() | int() as delay):
                self.queue.forget(key)
                self.queue.add_after(key, delay)
                self._counts.requeue_after.inc()
            case Retry():
                self.queue.add_after(key, outcome.delay)
                self._counts.requeue.inc()
                self.log.info("%s %s: again in %.3g s: %s", self.name, key, outcome.delay, outcome)
            case Terminal():
                self.queue.forget(key)
                self._counts.terminal.inc()
                self._counts.failed()
                self.log.error("cannot reconcile %s %s: %s; waiting for a change", self.name, key, outcome)
            case Exception():
                self._counts.failed()
                retry_after = outcome.retry_after if isinstance(outcome, errors.StatusError) else None
                delay = self.queue.add_rate_limited(key, at_least=retry_after or 0.0)
                self._log_failure(key, outcome, delay)

    def _log_failure(self, key: Request, error: Exception, delay: float) -> None:
        """Write one line; a programming error has its traceback with it when it is new for this name."""
        message = "cannot reconcile %s %s: %s; again in %.3g s"
        if isinstance(error, self.expected):
            self.log.warning(message, self.name, key, error, delay)
            return
        self._counts.panics.inc()
        trace = error if self.queue.failures(key) == 1 else None
        self.log.error(message, self.name, key, repr(error), delay, exc_info=trace)

    async def _finish(self, workers: list[asyncio.Task[None]]) -> None:
        """Wait for the workers within the grace, cancel the rest, and pass on what ended one early."""
        try:
            _, late = await asyncio.wait(workers, timeout=self.grace)
            if late:
                names = ", ".join(map(str, self._running))
                self.log.warning(
                    "%s: cancelling what did not finish in %g s: %s", self.name, self.grace, names
                )
        finally:
            await tasks.end(workers)
        for worker in workers:
            if not worker.cancelled():
                worker.result()


class _ControllerMetrics:
    """The series of one controller, under the names of controller-runtime."""

    def __init__(self, name: str, registry: metrics_.Registry) -> None:
        def counter(suffix: str, help_text: str) -> metrics_.Counter:
            return registry.counter(f"controller_runtime_{suffix}", help_text, ("controller",)).labels(name)

        def gauge(suffix: str, help_text: str) -> metrics_.Gauge:
            return registry.gauge(f"controller_runtime_{suffix}", help_text, ("controller",)).labels(name)

        total = registry.counter(
            "controller_runtime_reconcile_total",
            "Reconciliations by how they ended.",
            ("controller", "result"),
        )
        self.success = total.labels(name, "success")
        self.requeue_after = total.labels(name, "requeue_after")
        self.requeue = total.labels(name, "requeue")
        self._error = total.labels(name, "error")
        self._errors = counter("reconcile_errors_total", "Reconciliations that failed.")
        self.terminal = counter("terminal_reconcile_errors_total", "Failures that are not tried again.")
        self.panics = counter("reconcile_panics_total", "Failures that are mistakes in the program.")
        self.timeouts = counter("reconcile_timeouts_total", "Reconciliations that took too long.")
        self.max_concurrent = gauge("max_concurrent_reconciles", "Reconciliations that may run at once.")
        self.active = gauge("active_workers", "Reconciliations that run now.")
        self.time = registry.histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconcile takes.",
            ("controller",),
            TIME_BUCKETS,
        ).labels(name)

    def failed(self) -> None:
        """Count an error, which has two names."""
        self._error.inc()
        self._errors.inc()


def _checked(delay: float) -> float:
    if not math.isfinite(delay):
        raise ValueError(f"cannot try again after {delay} seconds: the delay must be a finite number")
    return delay
