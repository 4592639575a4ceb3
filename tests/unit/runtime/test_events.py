"""The event recorder on a model server and virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import deque
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import LEASES, Lease
from nodemanager.kube.objects import ObjectMeta
from nodemanager.runtime.events import MAX_PENDING, EventLimits, EventRecorder
from support import virtual_time
from support.model_api import Answer, status_body


def about(name: str) -> Lease:
    return Lease(metadata=ObjectMeta(namespace="ns", name=name, uid=f"uid-{name}", resource_version="5"))


class EventApi:
    """Stores events, or fails as told."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.faults: deque[Answer | errors.KubeError | float] = deque()
        self.requests = 0

    async def send(self, request: Request) -> Answer:
        self.requests += 1
        if self.faults:
            fault = self.faults.popleft()
            if isinstance(fault, errors.KubeError):
                raise fault
            if isinstance(fault, Answer):
                return fault
            await asyncio.sleep(fault)
        body = json.loads(request.body)
        if request.method == "POST":
            assert request.target.startswith("/api/v1/namespaces/ns/events")
            name = body["metadata"]["name"]
            assert name not in self.events
            self.events[name] = body
            return Answer(201, request.body)
        name = request.target.split("/")[-1].split("?")[0]
        if name not in self.events:
            return Answer(404, status_body(404, "NotFound"))
        self.events[name].update(body)
        return Answer(200, json.dumps(self.events[name]).encode())

    async def reauthenticate(self) -> bool:
        return False

    async def close(self) -> None:
        pass

    def seen(self) -> list[tuple[str, str, int]]:
        return [(e["reason"], e["message"], e["count"]) for e in self.events.values()]


@contextlib.asynccontextmanager
async def recording(api: EventApi, **limits: float) -> AsyncIterator[EventRecorder]:
    started = datetime(2026, 1, 1, tzinfo=UTC)
    loop = asyncio.get_running_loop()
    recorder = EventRecorder(
        Client(api), "test", "host",
        limits=EventLimits(**limits),  # type: ignore[arg-type]
        now=lambda: started + timedelta(seconds=loop.time()),
    )  # fmt: skip
    task = asyncio.create_task(recorder.run())
    await asyncio.sleep(0)
    try:
        yield recorder
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@virtual_time.test
async def test_an_event_says_what_kubectl_shows() -> None:
    api = EventApi()
    async with recording(api) as recorder:
        recorder.warning(LEASES, about("a"), "Failed", "disk full")
    [event] = api.events.values()
    assert event["type"] == "Warning"
    assert event["involvedObject"] == {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "namespace": "ns", "name": "a",
        "uid": "uid-a", "resourceVersion": "5",
    }  # fmt: skip
    assert event["source"] == {"component": "test", "host": "host"}
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:00Z"
    assert event["metadata"]["name"].startswith("a.")


@virtual_time.test
async def test_equal_events_are_counted_within_the_window_and_anew_after_it() -> None:
    api = EventApi()
    async with recording(api) as recorder:
        for _ in range(3):
            recorder.normal(LEASES, about("a"), "Applied", "well")
            await asyncio.sleep(60)
        recorder.normal(LEASES, about("b"), "Applied", "well")
        await asyncio.sleep(1000)
        recorder.normal(LEASES, about("a"), "Applied", "well")
        await asyncio.sleep(1)
    assert sorted(api.seen()) == [("Applied", "well", 1), ("Applied", "well", 1), ("Applied", "well", 3)]
    assert "2026-01-01T00:02:00Z" in [event["lastTimestamp"] for event in api.events.values()]


@virtual_time.test
async def test_many_different_messages_are_combined() -> None:
    api = EventApi()
    async with recording(api, similar=3) as recorder:
        for number in range(9):
            recorder.normal(LEASES, about("a"), "Applied", f"file {number}")
        await virtual_time.settle()
    assert api.seen() == [
        ("Applied", "file 0", 1),
        ("Applied", "file 1", 1),
        ("Applied", "file 2", 1),
        ("Applied", "(combined from similar events): file 8", 6),
    ]


@virtual_time.test
async def test_an_object_that_reports_too_much_is_cut_off_until_its_bucket_fills() -> None:
    api = EventApi()
    async with recording(api, burst=5, refill=300) as recorder:
        for number in range(20):
            recorder.normal(LEASES, about("a"), f"Reason{number}", "x")
        recorder.normal(LEASES, about("b"), "Other", "x")
        await virtual_time.settle()
        assert len(api.events) == 6
        assert recorder.dropped == 15
        await asyncio.sleep(301)
        recorder.normal(LEASES, about("a"), "Again", "x")
        await virtual_time.settle()
        assert api.seen()[-1] == ("Again", "x", 1)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(errors.Unreachable("cut"), id="unreachable"),
        pytest.param(Answer(500, status_body(500, "InternalError")), id="500"),
        pytest.param(Answer(429, status_body(429, "TooManyRequests")), id="429"),
    ],
)
@virtual_time.test
async def test_an_outage_delays_events_but_keeps_them_in_order(fault: Answer | errors.KubeError) -> None:
    api = EventApi()
    body = fault.body if isinstance(fault, Answer) else b""
    api.faults.extend(Answer(fault.status, body) if isinstance(fault, Answer) else fault for _ in range(5))
    async with recording(api) as recorder:
        recorder.normal(LEASES, about("a"), "First", "x")
        recorder.normal(LEASES, about("a"), "Second", "x")
        await asyncio.sleep(120)
        assert [reason for reason, _, _ in api.seen()] == ["First", "Second"]
        assert recorder.dropped == 0


@pytest.mark.parametrize("code", [400, 403, 404, 409, 413, 422])
@virtual_time.test
async def test_a_refused_event_is_dropped_and_the_next_one_is_sent(code: int) -> None:
    api = EventApi()
    api.faults.append(Answer(code, status_body(code, "")))
    async with recording(api) as recorder:
        recorder.normal(LEASES, about("a"), "First", "x")
        recorder.normal(LEASES, about("a"), "Second", "x")
        await virtual_time.settle()
        assert [reason for reason, _, _ in api.seen()] == ["Second"]
        assert recorder.dropped == 1


@virtual_time.test
async def test_an_event_that_the_server_forgot_is_created_anew() -> None:
    api = EventApi()
    async with recording(api) as recorder:
        recorder.normal(LEASES, about("a"), "Applied", "x")
        await virtual_time.settle()
        api.events.clear()  # events live for an hour
        await asyncio.sleep(1)
        recorder.normal(LEASES, about("a"), "Applied", "x")
        await virtual_time.settle()
        assert api.seen() == [("Applied", "x", 1)]


@virtual_time.test
async def test_memory_is_bounded_while_the_server_is_away() -> None:
    api = EventApi()
    api.faults.append(3600.0)
    async with recording(api) as recorder:
        for number in range(MAX_PENDING + 500):
            recorder.normal(LEASES, about(f"host-{number}"), "Applied", "x" * 5000)
        assert len(recorder._pending) == MAX_PENDING
        assert recorder.dropped == 500
        assert max(len(note.message) for note in recorder._pending) == 1024


@virtual_time.test
async def test_what_is_waiting_at_the_end_is_sent_but_not_for_long() -> None:
    api = EventApi()
    async with recording(api) as recorder:
        recorder.normal(LEASES, about("a"), "Last", "words")
    assert api.seen() == [("Last", "words", 1)]
    silent = EventApi()
    silent.faults.append(3600.0)
    before = asyncio.get_running_loop().time()
    async with recording(silent) as recorder:
        recorder.normal(LEASES, about("a"), "Last", "words")
    assert asyncio.get_running_loop().time() - before <= 3.1


@virtual_time.test
async def test_a_message_that_is_no_unicode_does_not_end_us() -> None:
    api = EventApi()
    async with recording(api) as recorder:
        recorder.warning(LEASES, about("a"), "Failed", "cannot read " + os.fsdecode(b"/etc/caf\xe9"))
        recorder.warning(LEASES, about("a"), "Next", "x")
    assert api.seen() == [("Failed", "cannot read /etc/caf?", 1), ("Next", "x", 1)]


@virtual_time.test
async def test_messages_fit_what_the_api_takes_in_bytes_also_when_combined() -> None:
    api = EventApi()
    async with recording(api, similar=1) as recorder:
        for number in range(3):
            recorder.normal(LEASES, about("a"), "Applied", f"{number}" + "\u00e9" * 2000 + "; do it")
            await asyncio.sleep(1)
    sizes = [len(event["message"].encode()) for event in api.events.values()]
    assert len(sizes) == 2
    assert max(sizes) <= 1024
    assert all(" ... " in event["message"] for event in api.events.values())
    assert all(event["message"].endswith("\u00e9; do it") for event in api.events.values())
