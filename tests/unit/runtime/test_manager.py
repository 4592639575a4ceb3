"""The manager: order, readiness, failures, leadership, and that nothing is left running."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime import metrics
from nodemanager.runtime.controller import Controller
from nodemanager.runtime.manager import Manager, PartFailed, StartTimedOut, StopTimedOut
from nodemanager.runtime.parts import LeadershipLost
from nodemanager.runtime.probes import ListenAddress, ProbeServer, Routes
from nodemanager.runtime.queue import WorkQueue
from support import virtual_time

LOG = logging.getLogger("test.manager")


def now() -> float:
    return asyncio.get_running_loop().time()


class Part:
    """A part that writes down what happens to it."""

    def __init__(
        self, name: str, events: list[str], *, fails_at: float | None = None, ends_in: float = 0.0
    ) -> None:
        self.name = name
        self.events = events
        self.fails_at = fails_at
        self.ends_in = ends_in

    async def run(self) -> None:
        self.events.append(f"+{self.name}")
        try:
            if self.fails_at is None:
                await asyncio.sleep(1e6)
            else:
                await asyncio.sleep(self.fails_at)
                self.fail()
        finally:
            await asyncio.sleep(self.ends_in)
            self.events.append(f"-{self.name}")

    def fail(self) -> None:
        raise OSError(f"{self.name} broke")


class Server(Part):
    """Of use after a second."""

    async def ready(self) -> None:
        await asyncio.sleep(1)
        self.events.append(f"{self.name} listens")


class Cache(Part):
    """Of use after some time."""

    sync_after = 2.0

    async def synced(self) -> None:
        await asyncio.sleep(self.sync_after)
        self.events.append(f"{self.name} synced")


class Returns(Part):
    """Ends without an error, which is one."""

    def fail(self) -> None:
        return


class Stubborn(Part):
    """Does not end for any number of cancellations, until the test lets it."""

    def __init__(self, name: str, events: list[str]) -> None:
        super().__init__(name, events)
        self.release = asyncio.Event()

    async def run(self) -> None:
        while not self.release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await self.release.wait()


class FakeElector:
    """Keeps the promises of an Elector, and wins and loses when told."""

    def __init__(self, events: list[str], *, wins_at: float = 1.0, loses_at: float | None = None) -> None:
        self.events = events
        self.wins_at = wins_at
        self.loses_at = loses_at

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(self.wins_at)
        self.events.append("won")
        leading = asyncio.ensure_future(lead())
        try:
            term = None if self.loses_at is None else self.loses_at - now()
            done, _ = await asyncio.wait([leading], timeout=term)
            if not done:
                raise LeadershipLost("the lease could not be renewed")
        finally:
            while not leading.done():
                leading.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([leading])
            self.events.append("released")


def manager(**options: object) -> Manager:
    return Manager(log=LOG, **options)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def running(subject: Manager) -> AsyncIterator[asyncio.Task[None]]:
    """Run a manager, stop it afterwards, and check that it ends well."""
    task = asyncio.create_task(subject.run())
    yield task
    subject.stop("the test is over")
    await task
    assert asyncio.all_tasks() == {asyncio.current_task()}


@virtual_time.test
async def test_groups_start_in_order_and_stop_in_reverse() -> None:
    events: list[str] = []
    subject = manager()
    subject.add_leader_only(Part("leader", events))
    subject.add(Part("other", events))
    subject.add_cache(Cache("cache", events))
    subject.add_server(Server("server", events))
    async with running(subject):
        await asyncio.sleep(10)
    assert events == [
        "+server", "server listens", "+cache", "cache synced", "+other", "+leader",
        "-leader", "-other", "-cache", "-server",
    ]  # fmt: skip


@virtual_time.test
async def test_a_group_is_down_before_the_next_is_told() -> None:
    events: list[str] = []
    subject = manager()
    subject.add_cache(Cache("cache", events))
    subject.add(Part("slow", events, ends_in=9.0), Part("quick", events))
    async with running(subject):
        await asyncio.sleep(10)
        events.clear()
    assert events == ["-quick", "-slow", "-cache"]
    assert now() == 19.0


@virtual_time.test
async def test_readiness_says_what_it_waits_for() -> None:
    events: list[str] = []
    subject = manager()
    subject.add_server(Server("server", events))
    slow = Cache("nodes", events)
    slow.sync_after = 5.0
    subject.add_cache(Cache("sets", events), slow)
    subject.add(Part("other", events))
    reasons = [subject.not_ready()]
    async with running(subject):
        for _ in range(3):
            await asyncio.sleep(1.75)
            reasons.append(subject.not_ready())
        await asyncio.sleep(10)
        reasons.append(subject.not_ready())
        subject.stop("test")
        reasons.append(subject.not_ready())
    assert reasons == [
        "starting", "waiting for nodes, sets", "waiting for nodes", "waiting for nodes", None, "stopping",
    ]  # fmt: skip


@virtual_time.test
async def test_a_cache_that_never_syncs_ends_the_start_with_its_name() -> None:
    events: list[str] = []
    subject = manager(start_timeout=30.0)
    slow = Cache("nodes", events)
    slow.sync_after = 1e6
    subject.add_cache(Cache("sets", events), slow)
    subject.add(Part("other", events))
    with pytest.raises(StartTimedOut, match="not ready within 30 s: nodes;"):
        await subject.run()
    assert now() == 30.0
    assert events == ["+sets", "+nodes", "sets synced", "-nodes", "-sets"]


@virtual_time.test
async def test_without_a_start_timeout_it_waits_for_the_api_for_ever() -> None:
    events: list[str] = []
    subject = manager(start_timeout=None)
    slow = Cache("nodes", events)
    slow.sync_after = 1e5
    subject.add_cache(slow)
    async with running(subject):
        await asyncio.sleep(2e5)
        assert subject.not_ready() is None


@pytest.mark.parametrize(
    ("kind", "message", "cause"),
    [
        pytest.param(Part, "bad failed: bad broke", OSError, id="raises"),
        pytest.param(Returns, "bad ended, which it should not", type(None), id="returns"),
    ],
)
@pytest.mark.parametrize("group", ["add_server", "add_cache", "add", "add_leader_only"])
def test_a_part_that_ends_stops_everything(kind: type[Part], message: str, cause: type, group: str) -> None:
    async def scenario() -> None:
        events: list[str] = []
        subject = manager()
        subject.add(Part("good", events))
        getattr(subject, group)(kind("bad", events, fails_at=5.0))
        with pytest.raises(PartFailed, match=f"^{message}$") as caught:
            await subject.run()
        assert isinstance(caught.value.__cause__, cause)
        assert sorted(events) == ["+bad", "+good", "-bad", "-good"]
        assert now() == 5.0

    virtual_time.run(scenario())


@virtual_time.test
async def test_a_failure_during_start_stops_what_has_started() -> None:
    events: list[str] = []
    subject = manager()
    subject.add_server(Server("probes", events, fails_at=0.5))
    subject.add_cache(Cache("never-started", events))
    with pytest.raises(PartFailed, match="probes failed: probes broke"):
        await subject.run()
    assert events == ["+probes", "-probes"]


@pytest.mark.parametrize(
    ("error", "traced"),
    [
        pytest.param(ValueError("also broken"), True, id="bug"),
        pytest.param(errors.ConfigError("also broken"), False, id="no bug"),
    ],
)
def test_the_first_error_wins_and_the_others_are_logged(
    caplog: pytest.LogCaptureFixture, error: Exception, traced: bool
) -> None:
    async def scenario() -> None:
        class FailsOnStop(Part):
            async def run(self) -> None:
                try:
                    await super().run()
                finally:
                    raise error

        events: list[str] = []
        subject = manager()
        subject.add(Part("first", events, fails_at=1.0), FailsOnStop("second", events))
        with pytest.raises(PartFailed, match="first failed"):
            await subject.run()

    with caplog.at_level(logging.ERROR):
        virtual_time.run(scenario())
    assert [record.getMessage() for record in caplog.records] == [
        "stopping: first failed: first broke",
        "while stopping: second failed: also broken",
    ]
    assert bool(caplog.records[1].exc_info) is traced


@virtual_time.test
async def test_cancelling_the_manager_stops_in_good_order() -> None:
    events: list[str] = []
    subject = manager()
    subject.add(Part("a", events, ends_in=3.0))
    task = asyncio.create_task(subject.run())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert events == ["+a", "-a"]
    assert now() == 4.0


@virtual_time.test
async def test_cancelling_twice_stops_at_once() -> None:
    events: list[str] = []
    subject = manager()
    subject.add_server(Part("server", events))
    subject.add(Part("slow", events, ends_in=20.0))
    task = asyncio.create_task(subject.run())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert now() == 2.0
    assert events == ["+server", "+slow", "-server"]


@virtual_time.test
async def test_a_part_that_outlasts_the_timeout_is_cancelled_again() -> None:
    events: list[str] = []
    subject = manager(stop_timeout=30.0)
    subject.add_server(Part("server", events))
    subject.add(Part("slow", events, ends_in=500.0))
    task = asyncio.create_task(subject.run())
    await asyncio.sleep(1)
    subject.stop("test")
    await task
    assert now() == 31.0
    assert events == ["+server", "+slow", "-server"]


@virtual_time.test
async def test_a_part_that_cannot_be_stopped_is_named() -> None:
    events: list[str] = []
    subject = manager(stop_timeout=30.0)
    stubborn = Stubborn("stubborn", events)
    subject.add_server(Part("server", events))
    subject.add(stubborn)
    task = asyncio.create_task(subject.run())
    await asyncio.sleep(1)
    subject.stop("test")
    with pytest.raises(StopTimedOut, match="cannot stop within 30 s: still running: stubborn"):
        await task
    assert now() == 32.0
    assert events == ["+server", "-server"]
    stubborn.release.set()
    await virtual_time.settle()


@virtual_time.test
async def test_leader_parts_run_only_while_leading_and_end_before_the_release() -> None:
    events: list[str] = []
    subject = manager(elector=FakeElector(events, wins_at=5.0))
    subject.add(Part("other", events))
    subject.add_leader_only(Part("a", events, ends_in=3.0), Part("b", events))
    async with running(subject):
        await asyncio.sleep(4)
        assert subject.not_ready() is None  # a standby is ready
        assert events == ["+other"]
        await asyncio.sleep(4)
    assert events == ["+other", "won", "+a", "+b", "-b", "-a", "released", "-other"]


@virtual_time.test
async def test_stopping_a_standby() -> None:
    events: list[str] = []
    subject = manager(elector=FakeElector(events, wins_at=1e6))
    subject.add_leader_only(Part("a", events))
    async with running(subject):
        await asyncio.sleep(4)
    assert events == []


@virtual_time.test
async def test_losing_leadership_ends_the_process_with_an_error_after_its_parts() -> None:
    events: list[str] = []
    subject = manager(elector=FakeElector(events, wins_at=1.0, loses_at=10.0))
    subject.add(Part("other", events))
    subject.add_leader_only(Part("a", events, ends_in=0.5), Part("b", events))
    with pytest.raises(PartFailed, match="leader election failed: the lease could not be renewed") as caught:
        await subject.run()
    assert isinstance(caught.value.__cause__, LeadershipLost)
    assert events == ["+other", "won", "+a", "+b", "-b", "-a", "released", "-other"]


@virtual_time.test
async def test_when_leadership_is_lost_there_is_no_long_grace() -> None:
    events: list[str] = []
    subject = manager(elector=FakeElector(events, wins_at=1.0, loses_at=10.0))
    subject.add_leader_only(Part("slow", events, ends_in=20.0))
    with pytest.raises(PartFailed):
        await subject.run()
    assert now() == 11.0


@virtual_time.test
async def test_a_failing_leader_part_lets_its_siblings_end_in_good_order() -> None:
    events: list[str] = []
    subject = manager(elector=FakeElector(events))
    subject.add_leader_only(Part("bad", events, fails_at=2.0), Part("slow", events, ends_in=9.0))
    with pytest.raises(PartFailed, match="bad failed"):
        await subject.run()
    assert events == ["won", "+bad", "+slow", "-bad", "-slow", "released"]
    assert now() == 1.0 + 2.0 + 9.0


@virtual_time.test
async def test_a_lease_is_not_released_while_a_leader_part_still_runs() -> None:
    events: list[str] = []
    subject = manager(elector=FakeElector(events), stop_timeout=30.0)
    stubborn = Stubborn("stubborn", events)
    subject.add_leader_only(stubborn)
    task = asyncio.create_task(subject.run())
    await asyncio.sleep(2)
    subject.stop("test")
    with pytest.raises(StopTimedOut, match="still running: leader election"):
        await task
    assert events == ["won"]
    stubborn.release.set()
    await virtual_time.settle()
    assert events == ["won", "released"]


@virtual_time.test
async def test_a_leader_part_that_never_gets_ready_ends_the_process() -> None:
    events: list[str] = []
    subject = manager(elector=FakeElector(events), start_timeout=30.0)
    slow = Cache("slow", events)
    slow.sync_after = 1e6
    subject.add_leader_only(slow)
    with pytest.raises(StartTimedOut, match="slow"):
        await subject.run()
    assert events == ["won", "+slow", "-slow", "released"]


@virtual_time.test
async def test_mistakes_are_refused() -> None:
    events: list[str] = []
    subject = manager()
    subject.add(Part("a", events))
    with pytest.raises(ValueError, match="cannot add a: there is a part of that name"):
        subject.add_server(Part("a", events))
    async with running(subject):
        await asyncio.sleep(1)
        with pytest.raises(RuntimeError, match="cannot add late: the manager is running"):
            subject.add(Part("late", events))
    with pytest.raises(RuntimeError, match="cannot run a manager twice"):
        await subject.run()


async def test_probes_controller_and_manager_fit_together() -> None:
    class SlowCache(Part):
        """A cache that syncs when the test says so."""

        def __init__(self, name: str) -> None:
            super().__init__(name, [])
            self.go = asyncio.Event()

        async def synced(self) -> None:
            await self.go.wait()

    async def reconcile(key: ObjectKey) -> None:
        seen.append(key)

    def readyz() -> tuple[int, str]:
        client = http.client.HTTPConnection(server.bound[0].host, server.bound[0].port, timeout=60)
        with contextlib.closing(client):
            client.request("GET", "/readyz")
            answer = client.getresponse()
            return answer.status, answer.read().decode()

    seen: list[ObjectKey] = []
    registry = metrics.Registry()
    subject = manager()
    server = ProbeServer(
        "probes", ListenAddress("127.0.0.1", 0), Routes(readiness={"manager": subject.not_ready})
    )
    queue: WorkQueue[ObjectKey] = WorkQueue("web", metrics=registry)
    cache = SlowCache("nodes")
    subject.add_server(server)
    subject.add_cache(cache)
    subject.add(Controller("web", reconcile, queue=queue, metrics=registry, log=LOG))
    async with running(subject):
        await server.ready()
        status, body = await asyncio.to_thread(readyz)
        assert (status, body.splitlines()[0]) == (500, "[-]manager failed: waiting for nodes")
        queue.add(ObjectKey("", "a"))
        cache.go.set()
        while not seen:  # noqa: ASYNC110  # the controller runs in one of the next turns
            await asyncio.sleep(0)
        assert await asyncio.to_thread(readyz) == (200, "ok")
    assert seen == [ObjectKey("", "a")]
