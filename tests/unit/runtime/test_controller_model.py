"""Random sequences of outcomes, several names at once, against a model of what follows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime import metrics
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.controller import Controller, ReconcileResult, Retry, Terminal
from nodemanager.runtime.queue import WorkQueue
from support import examples, virtual_time

LOG = logging.getLogger("test.controller.model")
LOG.disabled = True  # thousands of failures on purpose
TIMEOUT = 2.0
BACKOFF = Backoff(base=0.25, maximum=4.0, factor=2.0, jitter=0.0)

delays = st.integers(0, 40).map(lambda quarters: quarters / 4)
outcomes = st.one_of(
    st.tuples(st.sampled_from(["ok", "terminal", "error", "bug", "hang"]), st.just(0.0)),
    st.tuples(st.sampled_from(["requeue_after", "retry"]), delays),
)
plans = st.dictionaries(
    st.sampled_from([ObjectKey("", "a"), ObjectKey("x", "a"), ObjectKey("x", "b")]),
    st.lists(outcomes, max_size=12),
    min_size=1,
)
Plan = dict[ObjectKey, list[tuple[str, float]]]
Seen = dict[ObjectKey, list[tuple[float, int]]]


@dataclass
class Model:
    """When each reconcile should start, with how many failures before it, and what is counted."""

    seen: Seen = field(default_factory=dict)
    results: Counter[str] = field(default_factory=Counter)

    def play(self, key: ObjectKey, sequence: list[tuple[str, float]]) -> None:
        now, failures = 0.0, 0
        self.seen[key] = [(now, failures)]
        for kind, delay in sequence:
            if kind in ("ok", "terminal"):  # an event that came in meanwhile brings it back at once
                failures = 0
            elif kind == "requeue_after":
                failures, now = 0, now + delay
            elif kind == "retry":
                now += delay
            else:
                failures += 1
                now += (TIMEOUT if kind == "hang" else 0.0) + min(0.25 * 2 ** (failures - 1), 4.0)
            self.results[{"ok": "success", "retry": "requeue", "requeue_after": kind}.get(kind, "error")] += 1
            self.seen[key].append((now, failures))
        self.results["success"] += 1  # the last one, after the sequence


class System:
    """The real thing, doing what the plan says."""

    def __init__(self, plan: Plan) -> None:
        self.left = {key: list(sequence) for key, sequence in plan.items()}
        self.seen: Seen = {key: [] for key in plan}
        self.active: set[ObjectKey] = set()
        self.registry = metrics.Registry()
        self.queue: WorkQueue[ObjectKey] = WorkQueue("m", metrics=self.registry, backoff=BACKOFF)

    async def reconcile(self, key: ObjectKey) -> ReconcileResult | None:
        assert key not in self.active, "two reconciles of one name"
        self.active.add(key)
        try:
            self.seen[key].append((asyncio.get_running_loop().time(), self.queue.failures(key)))
            return await self.act(key, *self.left[key].pop(0)) if self.left[key] else None
        finally:
            self.active.remove(key)

    async def act(self, key: ObjectKey, kind: str, delay: float) -> ReconcileResult | None:
        if kind in ("ok", "terminal"):
            self.queue.add(key)
        if kind == "hang":
            await asyncio.sleep(1e6)
        failures = {
            "terminal": Terminal("no use"),
            "retry": Retry(delay),
            "error": errors.Unreachable("no route"),
            "bug": ZeroDivisionError("oops"),
        }
        if kind in failures:
            raise failures[kind]
        return ReconcileResult(delay) if kind == "requeue_after" else None

    def results(self) -> dict[str, float]:
        total = self.registry.counter("controller_runtime_reconcile_total", "", ("controller", "result"))
        names = ("success", "error", "requeue", "requeue_after")
        return {name: total.labels("m", name).get() for name in names}


@settings(max_examples=examples.some(75), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans)
def test_every_sequence_of_outcomes_ends_as_the_model_says(plan: Plan) -> None:
    async def scenario() -> None:
        system, model = System(plan), Model()
        controller = Controller(
            "m",
            system.reconcile,
            queue=system.queue,
            metrics=system.registry,
            log=LOG,
            concurrency=len(plan),
            timeout=TIMEOUT,
        )
        running = asyncio.create_task(controller.run())
        for key, sequence in plan.items():
            model.play(key, sequence)
            system.queue.add(key)
        await asyncio.sleep(10_000)
        assert system.seen == model.seen
        assert system.results() == {name: model.results[name] for name in system.results()}
        assert (len(system.queue), system.queue._failures, system.queue._delayed) == (0, {}, {})
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    virtual_time.run(scenario())
