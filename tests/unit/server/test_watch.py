"""Watches from the inside: bookmarks, beginnings and ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from nodemanager.server.verbs import watch
from nodemanager.store.base import Compacted, StoreEvent
from support.embedded import Embedded, serving
from support.scripted_server import until

MAPS = "/api/v1/namespaces/default/configmaps"
STREAM = {"watch": "1", "timeoutSeconds": "1"}


@pytest.fixture
async def server() -> AsyncIterator[Embedded]:
    async with serving() as running:
        yield running


@pytest.fixture
async def http(server: Embedded) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.server) as session:
        yield session


async def create(http: aiohttp.ClientSession, name: str) -> str:
    async with http.post(MAPS, json={"metadata": {"name": name}}) as response:
        assert response.status == 201
        return str((await response.json())["metadata"]["resourceVersion"])


async def events(http: aiohttp.ClientSession, **query: str) -> list[dict[str, Any]]:
    async with asyncio.timeout(90), http.get(MAPS, params={**STREAM, **query}) as response:
        assert response.status == 200
        return [json.loads(line) for line in (await response.text()).splitlines()]


def short(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["type"], one["object"]["metadata"].get("name", "")) for one in found]


async def test_without_a_revision_the_present_comes_first(http: aiohttp.ClientSession) -> None:
    await create(http, "a")
    assert short(await events(http)) == [("ADDED", "a")]


async def test_from_a_revision_only_what_came_later(http: aiohttp.ClientSession) -> None:
    first = await create(http, "a")
    await create(http, "b")
    assert short(await events(http, resourceVersion=first)) == [("ADDED", "b")]


async def test_initial_events_end_with_a_marked_bookmark(http: aiohttp.ClientSession) -> None:
    revision = await create(http, "a")
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    found = await events(http, **query)
    assert short(found)[:2] == [("ADDED", "a"), ("BOOKMARK", "")]
    meta = found[1]["object"]["metadata"]
    assert meta == {"resourceVersion": revision, "annotations": watch.INITIAL_END}


async def test_the_end_is_bookmarked(server: Embedded, http: aiohttp.ClientSession) -> None:
    first = await create(http, "a")
    async with http.post("/api/v1/namespaces", json={"metadata": {"name": "elsewhere"}}) as response:
        assert response.status == 201
    found = await events(http, resourceVersion=first, allowWatchBookmarks="true")
    assert short(found) == [("BOOKMARK", "")]
    assert int(found[0]["object"]["metadata"]["resourceVersion"]) > int(first)


async def test_a_watch_of_which_nothing_changes_is_bookmarked_all_the_same(
    http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else clients take it for dead after 90 s, as an operator did whose API nobody wrote to."""
    monkeypatch.setattr(watch, "BOOKMARK_EVERY", 0.1)
    monkeypatch.setattr(watch, "LOOK_EVERY", 0.1)
    first = await create(http, "a")
    found = await events(http, resourceVersion=first, allowWatchBookmarks="true")
    assert set(short(found)) == {("BOOKMARK", "")}
    assert {one["object"]["metadata"]["resourceVersion"] for one in found} == {first}
    assert await events(http, resourceVersion=first) == [], "who did not ask for bookmarks gets none"


async def test_a_forgotten_revision_is_an_error_event(server: Embedded, http: aiohttp.ClientSession) -> None:
    await create(http, "a")
    last = await create(http, "b")
    await server.store.compact(int(last))
    (found,) = await events(http, resourceVersion="1")
    assert (found["type"], found["object"]["code"], found["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert found["object"]["message"].startswith("too old resource version: 1 (")


class TooSlow:
    """A subscription whose reader fell too far behind."""

    delivered = 0

    async def next(self) -> list[StoreEvent]:
        raise Compacted("too far behind")

    def close(self) -> None:
        pass


async def test_falling_behind_ends_the_stream_with_an_error(
    server: Embedded, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(http, "a")
    monkeypatch.setattr(server.store, "watch", lambda _prefix, _after: TooSlow())
    first, second = await events(http)
    assert (first["type"], second["type"], second["object"]["code"]) == ("ADDED", "ERROR", 410)


async def test_a_client_that_takes_nothing_is_cut_off(
    server: Embedded, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "WRITE_TIMEOUT", 1.0)  # we look ten times in that
    host, port = server.server.removeprefix("http://").split(":")
    for number in range(6):
        body = {"metadata": {"name": f"big-{number}"}, "data": {"x": "y" * 900_000}}
        async with http.post(MAPS, json=body) as response:
            assert response.status == 201
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    writer.write(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    await writer.drain()
    async with asyncio.timeout(90):
        await until(lambda: server.watching() == 1)
        await until(lambda: server.watching() == 0)
        got = b""
        with contextlib.suppress(ConnectionError):
            while part := await reader.read(2**20):
                got += part
    assert len(got) < 6 * 900_000
    writer.close()


async def test_a_forgotten_page_is_gone(server: Embedded, http: aiohttp.ClientSession) -> None:
    for name in ("a", "b"):
        await create(http, name)
    async with http.get(MAPS, params={"limit": "1"}) as response:
        token = (await response.json())["metadata"]["continue"]
    last = await create(http, "c")
    await server.store.compact(int(last))
    async with http.get(MAPS, params={"limit": "1", "continue": token}) as response:
        assert (response.status, (await response.json())["reason"]) == (410, "Expired")


async def test_tables_repeat_their_columns_only_once(http: aiohttp.ClientSession) -> None:
    for name in ("a", "b"):
        await create(http, name)
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with http.get(MAPS, params=STREAM, headers=accept) as response:
        first, second = [json.loads(line)["object"] for line in (await response.text()).splitlines()]
    assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["columnDefinitions"] is None


async def test_both_groups_of_events_are_one(http: aiohttp.ClientSession) -> None:
    core = "/api/v1/namespaces/default/events"
    body = {
        "metadata": {"name": "e"}, "reason": "R", "message": "m", "type": "Normal",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    }  # fmt: skip
    async with http.post(core, json=body) as response:
        assert response.status == 201
    async with http.get("/apis/events.k8s.io/v1/namespaces/default/events/e") as response:
        seen = await response.json()
    assert (seen["apiVersion"], seen["note"], seen["regarding"]["name"]) == ("events.k8s.io/v1", "m", "p")
    assert "message" not in seen
    async with http.get(core, params={"fieldSelector": "involvedObject.name=p"}) as response:
        assert len((await response.json())["items"]) == 1
