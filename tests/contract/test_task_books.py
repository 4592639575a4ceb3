"""The books of tasks, on both servers: the operator ends and removes them, and what the agent says wins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodetask import COMPLETE, NODE_TASKS, RUN, NodeTask
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly, node_tasks
from nodemanager.controllers.assembly import Dependencies
from nodemanager.controllers.node_tasks import keeping
from nodemanager.fleet.tasks import bookkeeping
from nodemanager.host.process import runner
from nodemanager.kube import conditions, errors, manifests, times
from nodemanager.kube.core import EVENTS
from nodemanager.runtime import tasks as async_tasks
from nodemanager.runtime.metrics import Registry
from support.accounts import acting, operating
from support.agent_process import Api
from support.either import Place
from support.host_attempts import task

CLAIM = {"agent": "a", "time": "2026-01-01T00:00:00Z", "fencingToken": 1}


@dataclass
class Books:
    """An operator that keeps the books and nothing else, with a clock of its own."""

    maker: Client
    namespace: str
    ahead: timedelta = timedelta()
    metrics: Registry = field(default_factory=Registry)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    async def make(self, name: str, *, run: str = "", **spec: Any) -> None:
        made = task(name, self.namespace, "web1")
        made["spec"] |= spec
        made["metadata"]["labels"] |= {RUN: run} if run else {}
        await self.maker.create(NODE_TASKS, made, self.namespace)

    async def report(self, name: str, **status: Any) -> None:
        """Say something as the agent would."""
        body = MergePatch({"status": status})
        await self.maker.patch(NODE_TASKS, name, self.namespace, body, subresource="status")

    async def get(self, name: str) -> NodeTask | None:
        try:
            return await self.maker.get(NODE_TASKS, name, self.namespace)
        except errors.NotFound:
            return None

    async def until(self, name: str, wanted: Callable[[NodeTask | None], bool]) -> NodeTask | None:
        async with asyncio.timeout(90):
            while not wanted(found := await self.get(name)):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.06)
            return found


@pytest.fixture(name="books")
async def _books(place: Place, api: Api) -> AsyncIterator[Books]:
    """The controller under the operator's account, with exactly the rights that it asks for."""
    entries = [node_tasks.REGISTRATION]
    place.kubectl("apply", "-f", "-", stdin=manifests.dump(assembly.manifests(place.namespace, entries)))
    await api.client.create(MANAGED_NODES, {"metadata": {"name": "web1"}}, place.namespace)
    async with operating(place) as maker, acting(place, api, "nodemanager-operator") as own:
        books = Books(maker, place.namespace)
        given = Dependencies(
            own, place.namespace, books.metrics, runner.companion, leader_elect=False, now=books.now
        )
        running = asyncio.create_task(assembly.assemble(given, entries).manager.run())
        yield books
        await async_tasks.end([running])


def soon(seconds: float = 0.0) -> str:
    return times.rfc3339(datetime.now(UTC) + timedelta(seconds=seconds))


def ended(found: NodeTask | None) -> bool:
    return found is not None and found.status.finished_at is not None


async def test_what_nobody_takes_expires_and_what_somebody_took_does_not(books: Books) -> None:
    await books.make("late", deadline=soon(3600))
    await books.make("taken", deadline=soon(3600))
    await books.report("taken", phase="Pending", claim=CLAIM)
    books.ahead = timedelta(hours=2)
    for name, phase in (("taken", "Running"), ("late", "Pending")):
        await books.report(name, phase=phase)  # so that it is looked at
    found = await books.until("late", ended)
    assert found is not None
    assert (found.status.phase, found.status.message.split(":")[0]) == (
        "Expired", f"nobody took it until {found.spec.deadline.split(':')[0]}",
    )  # fmt: skip
    complete = conditions.get(found.status.conditions, COMPLETE)
    assert complete is not None
    assert (complete.status, complete.reason, complete.observed_generation) == ("False", "Expired", 1)
    taken = await books.get("taken")
    assert taken is not None
    assert (taken.status.phase, taken.status.finished_at) == ("Running", None)
    await books.report("late", phase="Running", claim=CLAIM, finishedAt=None)  # it had begun: its agent wins
    await books.report("taken", phase="Failed", finishedAt=soon())
    found = await books.get("late")
    assert found is not None
    assert found.status.phase == "Running"


async def test_who_ended_a_task_for_its_host_can_be_told(books: Books, place: Place) -> None:
    await books.make("late", deadline=soon(-60))
    await books.until("late", ended)
    shown = place.shown("nodetask", "late", "--show-managed-fields")
    wrote = {
        one["manager"] for one in shown["metadata"]["managedFields"] if one.get("subresource") == "status"
    }
    assert wrote == {keeping.MANAGER}

    async def told() -> list[str]:
        items = (await books.maker.list(EVENTS, Selection(books.namespace))).items
        return [one.reason for one in items if one.involved_object.name == "late"]

    async with asyncio.timeout(90):
        while "TaskExpired" not in await told():  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.05)


async def test_the_beginning_and_the_end_of_a_task_are_told(books: Books) -> None:
    await books.make("seen", deadline=soon(3600))
    await books.make("late", deadline=soon(-60))
    await books.until("late", ended)  # by then the first one was looked at, too
    await books.report("seen", phase="Running", claim=CLAIM)

    async def told() -> list[str]:
        items = (await books.maker.list(EVENTS, Selection(books.namespace))).items
        return [one.reason for one in items if one.involved_object.name == "seen"]

    async with asyncio.timeout(90):
        while "TaskStarted" not in await told():  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.05)
        await books.report("seen", phase="Succeeded", claim=CLAIM, finishedAt=soon())
        while "TaskSucceeded" not in await told():  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(("claim", "phase"), [(None, "Expired"), (CLAIM, "Halted")])
async def test_tasks_of_a_host_that_is_gone_end(
    books: Books, api: Api, monkeypatch: pytest.MonkeyPatch, claim: Any, phase: str
) -> None:
    monkeypatch.setattr(bookkeeping, "GONE_FOR", timedelta(seconds=0.2))
    await books.make("of-web1")
    await books.report("of-web1", phase="Running" if claim else "Pending", claim=claim)
    await api.client.delete(MANAGED_NODES, "web1", books.namespace)
    found = await books.until("of-web1", ended)
    assert found is not None
    assert found.status.phase == phase
    assert "there is no ManagedNode web1 any more" in found.status.message


async def test_an_ended_task_is_removed_when_its_time_is_up_but_not_in_its_run(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bookkeeping, "KEPT_AGAIN", timedelta(seconds=0.1))
    await books.make("first", run="r1", ttlSecondsAfterFinished=0)
    await books.make("second", run="r1", ttlSecondsAfterFinished=0)
    await books.make("other", run="r2", ttlSecondsAfterFinished=0)
    await books.make("kept", ttlSecondsAfterFinished=3600)
    for name in ("first", "other", "kept"):
        await books.report(name, phase="Succeeded", claim=CLAIM, finishedAt=soon())
    await books.until("other", lambda found: found is None)
    assert await books.get("first") is not None  # its run goes on: the second one has not ended
    await books.report("second", phase="Failed", claim=CLAIM, finishedAt=soon())
    await books.until("first", lambda found: found is None)
    await books.until("second", lambda found: found is None)
    assert await books.get("kept") is not None


async def test_tasks_are_counted_by_phase(books: Books) -> None:
    await books.make("waiting")
    await books.make("running")
    await books.report("running", phase="Running", claim=CLAIM)
    wanted = ('nodemanager_tasks{phase="Pending"} 1\n', 'nodemanager_tasks{phase="Running"} 1\n')
    async with asyncio.timeout(90):
        while not all(line in books.metrics.render() for line in wanted):  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.02)
    assert 'nodemanager_tasks{phase="Halted"} 0\n' in books.metrics.render()
