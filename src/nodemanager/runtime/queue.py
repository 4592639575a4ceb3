"""A work queue of names, with the promises of client-go's, for one event loop.

- A key that is added several times before a worker takes it is handed out once.
- A key is never handed out twice at once: added while it is being worked on, it is queued
  again when its worker says `done`, behind everything that waited before it.
- First in, first out: a key that is added over and over cannot starve the others.
- Delayed adds: the earliest deadline of a key wins; an immediate add takes nothing away from
  a delayed one. One timer serves them all.
- Failures are counted per key until `forget`, which really forgets.

Time is the loop's, which a change of the wall clock does not touch.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from nodemanager.runtime import metrics as metrics_
from nodemanager.runtime.backoff import Backoff

K = TypeVar("K", bound=Hashable)
_NEVER = (math.inf, 0)


class QueueClosed(Exception):
    """The queue was shut down; there is nothing more to take."""


class WorkQueue(Generic[K]):
    """Keys to work on; see the module for its promises.

    All methods but `get` return at once, and all belong to the loop's thread.
    """

    def __init__(self, name: str, *, metrics: metrics_.Registry, backoff: Backoff | None = None) -> None:
        self.name = name
        self.backoff = backoff or Backoff()
        self._ready: deque[K] = deque()
        self._dirty: dict[K, float] = {}  # waiting for a worker, since when; a superset of _ready
        self._processing: dict[K, float] = {}  # being worked on, since when
        self._failures: dict[K, int] = {}
        self._delayed: dict[K, tuple[float, int]] = {}  # the deadline that counts for each key, and its turn
        self._heap: list[tuple[float, int, K]] = []  # deadlines and turns; those not in _delayed are stale
        self._tie = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._metrics = _QueueMetrics(self, metrics)

    def __len__(self) -> int:
        """How many keys a worker could take now."""
        return len(self._ready)

    @property
    def closed(self) -> bool:
        """Whether the queue was shut down."""
        return self._closed

    def add(self, key: K) -> None:
        """Ask for a key to be worked on; ignored once the queue is shut down."""
        if self._closed or key in self._dirty:
            return
        self._metrics.adds.inc()
        self._dirty[key] = _now()
        if key not in self._processing:
            self._append(key)

    def add_after(self, key: K, delay: float) -> None:
        """Add a key once `delay` seconds have passed, unless an earlier delayed add is pending."""
        if not math.isfinite(delay):
            raise ValueError(f"cannot add {key} after {delay} seconds: the delay must be a finite number")
        if self._closed:
            return
        if delay <= 0:
            self.add(key)
            return
        self._metrics.retries.inc()
        deadline = _now() + delay
        if deadline < self._delayed.get(key, _NEVER)[0]:
            turn = next(self._tie)
            self._delayed[key] = deadline, turn
            heapq.heappush(self._heap, (deadline, turn, key))
            self._drop_stale()
            self._arm()

    def add_rate_limited(self, key: K, at_least: float = 0.0) -> float:
        """Count a failure of the key, add it after its backoff, and return the seconds that is.

        `at_least` raises the delay, up to the backoff's maximum: a server asked us to wait.
        """
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = self.backoff.delay(failures)
        delay = max(delay, min(at_least, self.backoff.maximum))
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Drop the failure count of a key; what is queued or delayed stays."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return how often the key failed since it was forgotten."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Wait for a key and take it; the caller must call `done` with it, whatever happens.

        Raises QueueClosed once the queue is shut down. Cancelling loses no key, but do
        not wrap this in `asyncio.wait_for`, which may drop the result of what it cancels.
        """
        while not self._can_take():
            if self._closed:
                raise QueueClosed(f"the queue {self.name} is shut down")
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter in self._getters:
                    self._getters.remove(getter)
                elif self._can_take():
                    self._wake()  # we were chosen but cannot take it: pass it on
                raise
        return self._take()

    def done(self, key: K) -> None:
        """Say that the worker which took the key has finished with it."""
        started = self._processing.pop(key, None)
        if started is None:
            raise ValueError(f"cannot finish {key}: nobody took it from the queue {self.name}")
        self._metrics.work.observe(_now() - started)
        if key in self._dirty:
            self._append(key)

    def shut_down(self) -> None:
        """Take no more adds, drop the delayed ones, and hand out nothing any more."""
        self._closed = True
        self._delayed.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            self._wake()

    def ages(self) -> list[float]:
        """Return for how many seconds each key in work has been worked on."""
        now = _now()
        return [now - started for started in self._processing.values()]

    def _can_take(self) -> bool:
        return bool(self._ready) and not self._closed

    def _take(self) -> K:
        key = self._ready.popleft()
        now = _now()
        self._metrics.latency.observe(now - self._dirty.pop(key))
        self._processing[key] = now
        return key

    def _append(self, key: K) -> None:
        self._ready.append(key)
        self._wake()

    def _wake(self) -> None:
        """Wake one getter that has not been woken or cancelled yet."""
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _arm(self) -> None:
        """Have exactly one timer, for the earliest deadline."""
        deadline = self._heap[0][0] if self._heap else math.inf
        if self._timer is not None:
            if self._timer.when() <= deadline < math.inf:
                return
            self._timer.cancel()
            self._timer = None
        if deadline < math.inf:
            self._timer = asyncio.get_running_loop().call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        # A loop fires a timer up to its clock's resolution early; such a key is due as well.
        due = max(_now(), self._timer.when() if self._timer else 0.0)
        self._timer = None
        while self._heap and self._heap[0][0] <= due:
            deadline, turn, key = heapq.heappop(self._heap)
            if self._delayed.get(key) == (deadline, turn):
                del self._delayed[key]
                self.add(key)
        self._arm()

    def _drop_stale(self) -> None:
        """Keep the heap in proportion to the keys in it, however often they are re-scheduled."""
        if len(self._heap) > 2 * len(self._delayed) + 64:
            self._heap = [entry for entry in self._heap if self._delayed.get(entry[2]) == entry[:2]]
            heapq.heapify(self._heap)


class _QueueMetrics:
    """The series of one queue, under the names and labels of controller-runtime."""

    def __init__(self, queue: WorkQueue[K], registry: metrics_.Registry) -> None:
        labels, values = ("name", "controller"), (queue.name, queue.name)
        buckets = metrics_.exponential_buckets(10e-9, 10, 12)

        def gauge(name: str, help_text: str, function: Callable[[], float]) -> None:
            registry.gauge(f"workqueue_{name}", help_text, labels).labels(*values).set_function(function)

        def counter(name: str, help_text: str) -> metrics_.Counter:
            return registry.counter(f"workqueue_{name}", help_text, labels).labels(*values)

        def histogram(name: str, help_text: str) -> metrics_.Histogram:
            return registry.histogram(f"workqueue_{name}", help_text, labels, buckets).labels(*values)

        gauge("depth", "Keys that wait for a worker.", lambda: len(queue))
        gauge(
            "unfinished_work_seconds", "Sum of the ages of all work in progress.", lambda: sum(queue.ages())
        )
        gauge(
            "longest_running_processor_seconds",
            "Age of the oldest work in progress.",
            lambda: max(queue.ages(), default=0.0),
        )
        self.adds = counter("adds_total", "Adds that were not duplicates of a waiting key.")
        self.retries = counter("retries_total", "Adds with a delay: backoff, or asked for.")
        self.latency = histogram("queue_duration_seconds", "How long a key waits before it is taken.")
        self.work = histogram("work_duration_seconds", "How long the work on a key takes.")


def _now() -> float:
    return asyncio.get_running_loop().time()
