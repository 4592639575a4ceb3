"""The server's edges: who is let in, how much is read, and what is said when something is wrong."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Iterable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from nodemanager.cli.settings import logs
from nodemanager.kube import errors
from nodemanager.kube.rbac.identity import Attributes, User
from nodemanager.server.access.authn import Peer
from nodemanager.server.http.app import MAX_BODY, ApiSettings
from nodemanager.server.http.request_log import RequestLog
from nodemanager.server.hub import ApiAnswer, ApiCall, Hub
from support.embedded import Embedded, OpenGate, serving
from support.memory_store import MemoryStore


@pytest.fixture
async def server() -> AsyncIterator[Embedded]:
    async with serving() as running:
        yield running


@pytest.fixture
async def http(server: Embedded) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.server) as session:
        yield session


async def status_of(response: aiohttp.ClientResponse) -> dict[str, Any]:
    body: dict[str, Any] = await response.json()
    assert body["kind"] == "Status"
    assert body["code"] == response.status
    return body


async def test_health_and_version(http: aiohttp.ClientSession) -> None:
    for path in ("/healthz", "/livez/ping", "/readyz"):
        async with http.get(path) as response:
            assert (response.status, await response.text()) == (200, "ok")
    async with http.get("/version") as response:
        assert (await response.json())["minor"] == "36"


class Locked:
    """A door that knows nobody but one."""

    def __init__(self) -> None:
        self.seen: list[tuple[Peer, list[str]]] = []

    def admit(self, peer: Peer, headers: Iterable[tuple[str, str]], asked: Attributes) -> User:
        groups = [value for name, value in headers if name == "Impersonate-Group"]
        self.seen.append((peer, groups))
        if not groups:
            raise errors.Unauthorized("Unauthorized")
        return User("somebody", tuple(groups))

    def authorize(self, user: User, asked: Attributes) -> None:
        if asked.verb != "list":
            raise errors.Forbidden(f"{user.name} may not {asked.verb}")


async def test_the_gate_has_the_first_word() -> None:
    gate = Locked()
    async with serving(gate=gate) as server, aiohttp.ClientSession(server.server) as http:
        async with http.get("/api/v1/things") as response:
            assert (await status_of(response))["reason"] == "Unauthorized"
        known = [("Impersonate-Group", "a"), ("Impersonate-Group", "b")]
        async with http.get("/api/v1/pods", headers=known) as response:
            assert response.status == 200
        async with http.get("/api/v1/namespaces/default", headers=known) as response:
            assert (await status_of(response))["message"] == "somebody may not get"
        async with http.get("/healthz") as response:
            assert response.status == 200
    assert gate.seen == [(Peer(), []), (Peer(), ["a", "b"]), (Peer(), ["a", "b"])]


async def test_what_the_gate_is_asked() -> None:
    gate = OpenGate()
    async with serving(gate=gate) as server, aiohttp.ClientSession(server.server) as http:
        async with http.get("/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx") as response:
            assert response.status == 200
        async with http.get("/apis") as response:
            assert response.status == 200
    assert gate.asked == [
        Attributes("list", "", "v1", "pods", "", "a", "x"),
        Attributes("get", path="/apis"),
    ]


async def test_pages_of_others() -> None:
    def page(request: web.Request) -> web.Response | None:
        return web.Response(text="mine") if request.path == "/mine" else None

    settings = ApiSettings(pages=(page,))
    async with serving(settings=settings) as server, aiohttp.ClientSession(server.server) as http:
        async with http.get("/mine") as response:
            assert await response.text() == "mine"
        async with http.get("/yours") as response:
            assert (response.status, await response.text()) == (404, "404 page not found\n")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"x" * (MAX_BODY + 1), 413),
        (b'{"metadata":{"name":"a"},"data":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}", 400),
        (b"\xff\xfe", 400),
        (b'{"metadata": 1}', 400),
        (b'{"metadata":{"name":"a"},"data":{"a":1}}', 400),
    ],
    ids=["large", "deep", "binary", "no metadata", "wrong type"],
)
async def test_hostile_bodies(server: Embedded, http: aiohttp.ClientSession, body: bytes, code: int) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    async with http.post(
        path, data=io.BytesIO(body), headers={"content-type": "application/json"}
    ) as response:
        assert (await status_of(response))["code"] == code
    async with http.get(path) as response:
        assert (await response.json())["items"] == []


class SomebodysGate(OpenGate):
    """Takes everybody for somebody who is no administrator."""

    def admit(self, peer: Peer, headers: Iterable[tuple[str, str]], asked: Attributes) -> User:
        return User("somebody")


async def test_administrators_are_never_told_to_come_back() -> None:
    async with (
        serving(settings=ApiSettings(max_in_flight=0)) as server,
        aiohttp.ClientSession(server.server) as http,
        http.get("/api/v1/pods") as response,
    ):
        assert response.status == 200


async def test_too_many_requests_are_told_to_come_back() -> None:
    async with (
        serving(settings=ApiSettings(max_in_flight=0), gate=SomebodysGate()) as server,
        aiohttp.ClientSession(server.server) as http,
    ):
        async with http.get("/api/v1/pods") as response:
            assert (await status_of(response))["reason"] == "TooManyRequests"
            assert response.headers["Retry-After"] == "1"
        async with http.get("/api/v1/pods?watch=1&timeoutSeconds=1") as response:
            assert response.status == 200


async def test_the_log_tells_no_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nodemanager")
    settings = ApiSettings(observers=[RequestLog()])
    headers = {"Authorization": "Bearer hidden-token", "User-Agent": "x\x9b\u2028y"}
    body = {"metadata": {"name": "s"}, "stringData": {"a": "hidden-value"}}
    path = "/api/v1/namespaces/default/secrets?fieldManager=hidden-query"
    async with (
        serving(settings=settings) as server,
        aiohttp.ClientSession(server.server) as http,
        http.post(path, json=body, headers=headers) as response,
    ):
        assert response.status == 201
        size = len(await response.read())
    [record] = [one for one in caplog.records if one.name.endswith("request_log")]
    assert "hidden" not in caplog.text
    fields = record.__dict__["fields"]
    assert fields["path"] == "/api/v1/namespaces/default/secrets"
    assert (fields["method"], fields["verb"], fields["code"], fields["bytes"]) == (
        "POST",
        "create",
        201,
        size,
    )
    assert (fields["user"], fields["remote"].startswith("127.0.0.1:")) == ("admin", True)
    for formatter in (logs.TextFormatter(), logs.JsonFormatter()):
        line = formatter.format(record)
        assert "\x9b" not in line
        assert "\u2028" not in line
    assert json.loads(logs.JsonFormatter().format(record))["agent"] == fields["agent"]


async def test_a_store_that_fails_is_answered_with_503(server: Embedded, http: aiohttp.ClientSession) -> None:
    await server.store.close()
    async with http.post("/api/v1/namespaces", json={"metadata": {"name": "a"}}) as response:
        assert response.status == 503
        assert (await status_of(response))["reason"] == "ServiceUnavailable"


async def test_what_was_stored_is_served_after_a_restart() -> None:
    store = MemoryStore()
    schema = {"openAPIV3Schema": {"type": "object"}}
    crd = {
        "metadata": {"name": "things.ex.io"},
        "spec": {
            "group": "ex.io",
            "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    async with (
        serving(store) as server,
        aiohttp.ClientSession(server.server) as http,
        http.post(path, json=crd) as response,
    ):
        assert response.status == 201
    async with (
        serving(store) as server,
        aiohttp.ClientSession(server.server) as http,
        http.get("/apis/ex.io/v1/things") as response,
    ):
        assert (await response.json())["kind"] == "ThingList"


async def test_stopping_ends_watches() -> None:
    async with asyncio.timeout(90), aiohttp.ClientSession() as http:
        async with serving() as server:
            response = await http.get(f"{server.server}/api/v1/pods?watch=1")
        assert await response.read() == b""


@pytest.mark.parametrize("error", [AttributeError, KeyError, TypeError, RecursionError])
async def test_a_bug_of_ours_is_a_status_without_details(
    error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_hub: Hub, _call: ApiCall) -> ApiAnswer:
        raise error("secret")

    settings = ApiSettings(handlers={("configmaps", ""): broken})
    async with (
        serving(settings=settings) as one,
        aiohttp.ClientSession(one.server) as http,
        http.get("/api/v1/configmaps") as response,
    ):
        body = await response.json()
    assert (response.status, body["reason"]) == (500, "InternalError")
    assert "secret" not in body["message"]
    assert "cannot answer GET /api/v1/configmaps" in caplog.text
