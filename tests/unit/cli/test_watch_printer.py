"""Following changes: through ends, cuts and lost history, without missing one and without spinning."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.cli.sources import ListedObject, Listing, ObjectSource, Source, TableSource
from nodemanager.cli.views.tables import TableTransport
from nodemanager.cli.watch_printer import WatchPrinter
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.runtime.backoff import Backoff
from support import cli
from support.scripted_server import Exchange, ScriptedServer, serve, until

SELECTION = Selection("nodemanager")
Step = Callable[[Exchange], Awaitable[None]]


class Watched:
    """A follower at work, and what it showed."""

    def __init__(self, source: Source, backoff: Backoff) -> None:
        self.shown: list[str] = []
        self.warnings: list[str] = []
        self._printer = WatchPrinter(
            source, SELECTION, show=self._show, warn=self.warnings.append, backoff=backoff
        )
        self._source = source

    def _show(self, items: list[ListedObject]) -> None:
        self.shown += [f"{item.key.name}@{item.version}{'-' if item.deleted else ''}" for item in items]

    async def run(self) -> None:
        await self._printer.run(await self._source.fetch(SELECTION))


async def follow(
    listings: list[dict[str, Any]],
    steps: list[Step],
    check: Callable[[Watched, ScriptedServer], bool],
    backoff: Backoff = Backoff(base=0.001, maximum=0.01),  # noqa: B008 - frozen
) -> tuple[Watched, ScriptedServer]:
    """Serve lists and watches one after the other until `check` holds; the last watch hangs."""

    async def handler(exchange: Exchange) -> None:
        if "watch" not in exchange.query:
            await exchange.json(listings.pop(0))
        elif steps:
            await steps.pop(0)(exchange)
        else:
            await exchange.stream()
            await exchange.hang()

    async with serve(handler) as server:
        client = Client(TableTransport(HttpTransport(ClientConfig(server.url))))
        watched = Watched(TableSource(client, MANAGED_NODES), backoff)
        task = asyncio.create_task(watched.run())
        try:
            await until(lambda: task.done() or check(watched, server))
            if task.done():
                task.result()
        finally:
            task.cancel()
            await asyncio.wait({task})
            await client.close()
        return watched, server


def events(*sent: tuple[str, str, str]) -> Step:
    """Return a watch that sends events (type, name, version) and then ends in order."""

    async def step(exchange: Exchange) -> None:
        await exchange.stream()
        for kind, name, version in sent:
            names = [name] if name else []
            await exchange.event(kind, cli.table(*names, version=version, columns=False))
        await exchange.chunk(b"")

    return step


def refused(code: int, reason: str, **headers: str) -> Step:
    async def step(exchange: Exchange) -> None:
        await exchange.refuse(code, reason, **headers)

    return step


async def reset(exchange: Exchange) -> None:
    exchange.reset()


def versions(server: ScriptedServer) -> list[str]:
    """Return from where each watch began."""
    return [each.query["resourceVersion"] for each in server.requests if "watch" in each.query]


async def test_changes_are_shown_and_bookmarks_keep_the_place() -> None:
    steps = [
        events(("MODIFIED", "a", "11"), ("ADDED", "b", "12"), ("BOOKMARK", "", "20")),
        events(("DELETED", "a", "21")),
    ]
    watched, server = await follow(
        [cli.table("a", version="10")], steps, lambda watched, server: len(versions(server)) == 3
    )
    assert watched.shown == ["a@11", "b@12", "a@21-"]
    assert versions(server) == ["10", "20", "21"]
    assert watched.warnings == []  # that a server ends a watch is normal


async def test_a_lost_history_is_made_up_for() -> None:
    listings = [
        {**cli.table("gone", "same", "changed", version="10")},
        {**cli.table(version="30"), "rows": [cli.row("same", version="10"), cli.row("changed", version="25"),
                                             cli.row("new", version="26")]},
    ]  # fmt: skip
    steps = [refused(410, "Expired")]
    watched, server = await follow(listings, steps, lambda watched, server: len(versions(server)) == 2)
    assert watched.shown == ["gone@10-", "changed@25", "new@26"]
    assert versions(server) == ["10", "30"]


async def test_history_lost_in_the_middle_of_a_watch() -> None:
    async def expires(exchange: Exchange) -> None:
        await exchange.stream()
        await exchange.event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"})
        await exchange.chunk(b"")

    listings = [cli.table("a", version="10"), cli.table("a", "b", version="30")]
    watched, _ = await follow(listings, [expires], lambda watched, server: len(versions(server)) == 2)
    assert watched.shown == ["a@30", "b@30"]


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(reset, id="reset"),
        pytest.param(refused(500, "InternalError"), id="500"),
        pytest.param(refused(429, "TooManyRequests"), id="429"),
    ],
)
async def test_what_may_pass_is_tried_again_and_told_once(failure: Step) -> None:
    steps = [failure, failure, failure, events(("MODIFIED", "a", "11"))]
    watched, _ = await follow(
        [cli.table("a", version="10")], steps, lambda watched, server: watched.shown == ["a@11"]
    )
    assert len(watched.warnings) == 1
    assert watched.warnings[0].endswith("; trying again")


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        pytest.param(refused(403, "Forbidden"), errors.Forbidden, id="403"),
        pytest.param(refused(404, "NotFound"), errors.NotFound, id="404"),
        pytest.param(refused(401, "Unauthorized"), errors.Unauthorized, id="401"),
        pytest.param(refused(400, "BadRequest"), errors.BadRequest, id="400"),
    ],
)
async def test_what_will_not_pass_ends_it(failure: Step, expected: type[errors.StatusError]) -> None:
    with pytest.raises(expected):
        await follow([cli.table()], [failure], lambda watched, server: False)


async def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_loop() -> None:
    waits: list[float] = []

    def note() -> float:
        waits.append(0.0)
        return 1.0

    backoff = Backoff(base=0.001, maximum=0.002, jitter=0.5, random=note)
    _, server = await follow(
        [cli.table()], [events()] * 20, lambda watched, server: len(versions(server)) > 20, backoff
    )
    assert len(waits) == 20  # a delay before every new watch
    assert len(versions(server)) == 21


async def test_objects_can_be_followed_as_they_are() -> None:
    def node(version: str) -> dict[str, Any]:
        return {"metadata": {"name": "a", "namespace": "nodemanager", "resourceVersion": version}}

    async def handler(exchange: Exchange) -> None:
        await exchange.stream()
        await exchange.event("MODIFIED", node("11"))
        await exchange.event("DELETED", node("12"))
        await exchange.hang()

    async with serve(handler) as server:
        client = Client(HttpTransport(ClientConfig(server.url)))
        watched = Watched(ObjectSource(client, MANAGED_NODES), Backoff())
        task = asyncio.create_task(watched._printer.run(Listing([], "10")))
        await until(lambda: len(watched.shown) == 2)
        task.cancel()
        await asyncio.wait({task})
        await client.close()
    assert watched.shown == ["a@11", "a@12-"]


async def test_a_row_that_does_not_decode_is_passed_over() -> None:
    async def odd(exchange: Exchange) -> None:
        await exchange.stream()
        broken = {**cli.table(version="11"), "rows": 5}
        await exchange.event("MODIFIED", broken)
        await exchange.event("DELETED", {**broken, "metadata": {"resourceVersion": "12"}})
        await exchange.event("ADDED", cli.table("b", version="13"))
        await exchange.chunk(b"")

    watched, server = await follow([cli.table()], [odd], lambda watched, server: len(versions(server)) == 2)
    assert watched.shown == ["b@13"]
    assert versions(server)[-1] == "13"
