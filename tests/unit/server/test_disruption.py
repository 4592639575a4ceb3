"""Evictions and the controller of budgets together: no interleaving takes more than a budget allows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodemanager.kube import errors
from nodemanager.kube.objects import Untyped
from nodemanager.server.kinds.builtin_kinds import BUDGETS, PODS
from nodemanager.server.kinds.disruption import DisruptionController
from nodemanager.server.verbs import stored
from nodemanager.store.base import EventType, Mismatch, StoreError, Subscription
from support import examples
from support.budget_world import HesitantStore, World, pod
from support.scripted_server import until

PODS_READY = st.lists(st.sampled_from([True, True, True, False]), min_size=2, max_size=5)
AMOUNTS = st.sampled_from([1, 2, 3, 4, "0%", "20%", "34%", "50%", "75%", "100%"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["evict", "evict", "evict", "recover", "bury"]), st.integers(0, 4), st.integers(0, 40)
    ),
    min_size=3,
    max_size=16,
)
PAUSES = st.lists(st.integers(0, 6), min_size=10, max_size=60)


@contextlib.asynccontextmanager
async def controlled(world: World) -> AsyncIterator[None]:
    """Run the controller, until the end of the block."""
    task = asyncio.create_task(DisruptionController(world.hub).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def desired(bound: str, amount: int | str, whole: int) -> int:
    """Return how many pods must stay healthy."""
    exact = amount * 100 if isinstance(amount, int) else int(amount[:-1]) * whole
    number = (exact + 99) // 100
    return number if bound == "minAvailable" else whole - number


def is_healthy(one: Untyped) -> bool:
    ready = one["status"]["conditions"][0]["status"] == "True"
    return ready and "deletionTimestamp" not in one["metadata"]


async def step(world: World, what: str, name: str, wait: int) -> None:
    """Do one thing to one pod, some turns of the loop from now."""
    for _ in range(wait):
        await asyncio.sleep(0)
    found = world.get(PODS, name)
    with contextlib.suppress(errors.StatusError, StoreError):
        if what == "evict":
            await world.evict(name)
        elif what == "bury":
            await world.bury(name)
        elif found is not None and "deletionTimestamp" not in found["metadata"]:
            await world.pod(name)


async def losses(watch: Subscription, present: dict[str, Untyped]) -> list[tuple[int, int]]:
    """Return, for each healthy pod that was lost, how many healthy pods were left of how many."""
    found = []
    while "end" not in present:
        for event in await watch.next():
            name = event.record.key.split("/")[-1]
            before = present.pop(name, None)
            if event.kind is not EventType.DELETED:
                present[name] = stored.load(PODS, event.record)
            if before is not None and is_healthy(before) and not is_healthy(present[name]):
                found.append((sum(map(is_healthy, present.values())), len(present)))
    return found


@settings(max_examples=examples.some(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    PODS_READY,
    st.tuples(st.sampled_from(["minAvailable", "maxUnavailable"]), AMOUNTS),
    STEPS,
    PAUSES,
    st.booleans(),
)
def test_no_interleaving_of_evictions_takes_more_than_the_budget_allows(
    ready: list[bool],
    budget: tuple[str, int | str],
    steps: list[tuple[str, int, int]],
    pauses: list[int],
    refresh: bool,
) -> None:
    async def scenario() -> None:
        store = HesitantStore(iter(pauses))
        world = World(store, refresh=refresh)
        for number, is_ready in enumerate(ready):
            await world.pod(f"p{number}", ready=is_ready)
        await world.budget("b", 1, **dict([budget]))
        watch = store.watch(PODS.prefix(), store.revision)
        present = {one["metadata"]["name"]: one for one in world.pods()}
        async with controlled(world):
            await asyncio.gather(*(step(world, what, f"p{n}", wait) for what, n, wait in steps))
        await store.create("/core/pods/ns/end", stored.dump(PODS, pod("end")))
        for left, whole in await losses(watch, present):
            assert left >= desired(*budget, whole)

    asyncio.run(scenario())


async def test_the_next_eviction_is_judged_by_the_new_state() -> None:
    world = World()
    for name in ("a", "b", "c"):
        await world.pod(name)
    await world.budget(maxUnavailable=1)
    await world.evict("a")  # no controller runs: the budget was brought up to date on the way
    with pytest.raises(errors.TooManyRequests) as refused:
        await world.evict("b")
    assert "needs 2 healthy pods and has 2 currently" in refused.value.causes[0].message
    await world.bury("a")
    await world.evict("b")
    assert world.status()["expectedPods"] == 2


async def test_a_deleted_pod_does_not_hold_the_budget() -> None:
    world = World()
    for name in ("a", "b", "c"):
        await world.pod(name)
    await world.budget(minAvailable=1)
    for name in ("a", "b"):
        await world.evict(name, gracePeriodSeconds=0)
        assert world.get(PODS, name) is None
    with pytest.raises(errors.TooManyRequests):
        await world.evict("c")


async def test_the_controller_follows_pods_and_budgets() -> None:
    world = World()
    async with controlled(world):
        await world.pod("a")
        await world.budget(minAvailable=0)
        await until(lambda: world.status().get("disruptionsAllowed") == 1)
        await world.pod("a", ready=False)
        await until(lambda: world.status()["currentHealthy"] == 0)
        await world.pod("z")
        await until(lambda: world.status()["expectedPods"] == 2)
        await world.budget(generation=2, minAvailable=2)
        await until(lambda: world.status().get("observedGeneration") == 2)
        assert world.status()["disruptionsAllowed"] == 0


async def test_what_is_there_at_the_start_is_looked_at_once_and_then_left_alone() -> None:
    world = World()
    await world.pod("a")
    for name in ("b", "c"):
        await world.budget(name, minAvailable=0)
    async with controlled(world):
        await until(lambda: all(world.status(name) for name in ("b", "c")))
        revision = world.hub.store.revision
        assert await DisruptionController(world.hub).act(None) is None
        await world.hub.store.create("/core/pods/other/x", stored.dump(PODS, pod("x")))
        await asyncio.sleep(0)
        assert world.hub.store.revision == revision + 1


async def test_nothing_is_read_while_there_is_no_budget() -> None:
    world = World()
    await world.hub.store.create(PODS.key("ns", "broken"), b"no object at all")
    assert await DisruptionController(world.hub).act(None) is None


async def test_an_eviction_that_came_to_nothing_is_forgotten_after_two_minutes() -> None:
    world = World()
    await world.pod("a")
    await world.budget(minAvailable=0)
    with pytest.raises(errors.Conflict):
        await world.evict("a", preconditions={"uid": "another"})
    controller = DisruptionController(world.hub)
    assert await controller.act({BUDGETS.key("ns", "b")}) == 120
    assert (world.status()["disruptionsAllowed"], list(world.status()["disruptedPods"])) == (0, ["a"])
    world.now += timedelta(seconds=121)
    assert await controller.act(None) is None
    assert world.status()["disruptionsAllowed"] == 1
    assert "disruptedPods" not in world.status()


async def test_one_broken_budget_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    await world.pod("a")
    await world.hub.store.create(BUDGETS.key("ns", "a-broken"), b'{"metadata": {"name": "a-broken"}}')
    await world.budget(minAvailable=0)
    delay = await DisruptionController(world.hub).act(None)
    assert world.status()["disruptionsAllowed"] == 1
    assert delay == 10
    assert "cannot keep the budget /policy/poddisruptionbudgets/ns/a-broken" in caplog.text


async def test_a_budget_that_is_written_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    await world.pod("a")
    await world.budget(minAvailable=0)
    update = world.hub.store.update

    async def lose(key: str, value: bytes, expected: int) -> object:
        record = world.hub.store.get(key)
        assert record is not None
        if key.startswith(BUDGETS.prefix()):
            raise Mismatch("somebody else was faster", record)
        return await update(key, value, expected)

    monkeypatch.setattr(world.hub.store, "update", lose)
    with pytest.raises(errors.ServerTimeout) as refused:
        await world.evict("a")
    assert refused.value.message == 'Timeout: couldn\'t update PodDisruptionBudget "b" due to conflicts'
    assert refused.value.retry_after == 10
    found = world.get(PODS, "a")
    assert found is not None
    assert "deletionTimestamp" not in found["metadata"]


async def test_an_unready_pod_that_becomes_ready_meanwhile_is_not_evicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    await world.pod("a")
    await world.pod("b", ready=False)
    await world.budget(minAvailable=1)
    update = world.hub.store.update

    async def recover_first(key: str, value: bytes, expected: int) -> object:
        if key == PODS.key("ns", "b"):
            monkeypatch.setattr(world.hub.store, "update", update)
            await world.pod("b")
        return await update(key, value, expected)

    monkeypatch.setattr(world.hub.store, "update", recover_first)
    with pytest.raises(errors.TooManyRequests) as refused:
        await world.evict("b")
    assert refused.value.retry_after == 10
