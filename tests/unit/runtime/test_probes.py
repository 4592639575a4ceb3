"""Addresses, routes and the served documents, with ordinary clients."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import parser

from nodemanager.kube import errors
from nodemanager.runtime import metrics
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.probes import ListenAddress, ProbeServer, Routes, parse_address
from support.scripted_server import until


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", ListenAddress("127.0.0.1", 8080)),
        ("127.0.0.1:0", ListenAddress("127.0.0.1", 0)),
        ("0.0.0.0:65535", ListenAddress("0.0.0.0", 65535)),
        ("[::1]:8081", ListenAddress("::1", 8081)),
        ("[::]:8081", ListenAddress("::", 8081)),
        ("localhost:9", ListenAddress("localhost", 9)),
        (" :8080 ", ListenAddress("127.0.0.1", 8080)),
        ("0", None),
    ],
)
def test_addresses(text: str, address: ListenAddress | None) -> None:
    assert parse_address(text) == address


def test_the_caller_may_open_it_to_all() -> None:
    assert parse_address(":8080", default_host="") == ListenAddress("", 8080)
    assert parse_address("10.0.0.1:8080", default_host="") == ListenAddress("10.0.0.1", 8080)


@pytest.mark.parametrize(
    "text", ["", "8080", ":", ":x", ":-1", ":65536", "::1:8080", "[::1:80", "::1]:80", "host:", ":8 0", ":٣"]
)
def test_bad_addresses_are_named(text: str) -> None:
    with pytest.raises(errors.ConfigError, match="cannot listen on ") as caught:
        parse_address(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    "address", [ListenAddress("10.0.0.1", 80), ListenAddress("::1", 80), ListenAddress("", 80)]
)
def test_an_address_reads_back(address: ListenAddress) -> None:
    assert parse_address(str(address), default_host="") == address


ANYWHERE = ListenAddress("127.0.0.1", 0)


def broken() -> str | None:
    raise KeyError("oops")


GOOD = Routes(health={"loop": lambda: None, "disk": lambda: None}, readiness={}, metrics=metrics.Registry())
BAD = Routes(health={"loop": lambda: None, "disk": lambda: "full\n  again"}, readiness={"broken": broken})


@pytest.mark.parametrize(
    ("routes", "method", "target", "status", "body"),
    [
        pytest.param(GOOD, "GET", "/healthz", 200, "ok", id="healthy"),
        pytest.param(GOOD, "GET", "/healthz/", 200, "ok", id="trailing-slash"),
        pytest.param(GOOD, "GET", "/livez", 200, "ok", id="livez"),
        pytest.param(GOOD, "HEAD", "/healthz", 200, "ok", id="head"),
        pytest.param(GOOD, "GET", "http://node:8081/healthz", 200, "ok", id="absolute-target"),
        pytest.param(
            GOOD,
            "GET",
            "/healthz?verbose",
            200,
            "[+]disk ok\n[+]loop ok\nhealthz check passed\n",
            id="verbose",
        ),
        pytest.param(
            GOOD,
            "GET",
            "/livez?verbose=1",
            200,
            "[+]disk ok\n[+]loop ok\nlivez check passed\n",
            id="livez-verbose",
        ),
        pytest.param(
            GOOD, "GET", "/readyz?verbose", 200, "[+]ping ok\nreadyz check passed\n", id="no-checks-verbose"
        ),
        pytest.param(GOOD, "GET", "/healthz/disk", 200, "ok", id="one-check"),
        pytest.param(
            BAD,
            "GET",
            "/healthz",
            500,
            "[-]disk failed: full again\n[+]loop ok\nhealthz check failed\n",
            id="failed",
        ),
        pytest.param(BAD, "GET", "/healthz/loop", 200, "ok", id="the-other-check"),
        pytest.param(BAD, "GET", "/healthz/disk", 500, "disk failed: full again\n", id="the-failed-check"),
        pytest.param(BAD, "GET", "/healthz?exclude=disk", 200, "ok", id="excluded"),
        pytest.param(
            BAD,
            "GET",
            "/healthz?exclude=disk&exclude=x&verbose",
            200,
            "[+]disk excluded: ok\n[+]loop ok\nhealthz check passed\n",
            id="excluded-verbose",
        ),
        pytest.param(
            BAD,
            "GET",
            "/readyz/broken",
            500,
            "broken failed: the check itself failed, see the log\n",
            id="raises",
        ),
        pytest.param(GOOD, "GET", "/metrics", 200, "", id="metrics"),
        pytest.param(GOOD, "GET", "/healthz/none", 404, "404 page not found\n", id="unknown-check"),
        pytest.param(GOOD, "GET", "/", 404, "404 page not found\n", id="root"),
        pytest.param(GOOD, "GET", "*", 404, "404 page not found\n", id="star"),
        pytest.param(GOOD, "GET", "healthz", 404, "404 page not found\n", id="no-slash"),
        pytest.param(GOOD, "GET", "/healthzz", 404, "404 page not found\n", id="prefix"),
        pytest.param(GOOD, "GET", "/debug/pprof/", 404, "404 page not found\n", id="unknown"),
        pytest.param(GOOD, "POST", "/debug", 404, "404 page not found\n", id="post-unknown"),
        pytest.param(BAD, "GET", "/metrics", 404, "404 page not found\n", id="metrics-off"),
        pytest.param(GOOD, "POST", "/healthz", 405, "method not allowed\n", id="post"),
        pytest.param(GOOD, "DELETE", "/metrics", 405, "method not allowed\n", id="delete"),
        pytest.param(GOOD, "GET", "http://[/healthz", 400, "bad request target\n", id="bad-target"),
    ],
)
def test_routes(routes: Routes, method: str, target: str, status: int, body: str) -> None:
    reply = routes(method, target)
    assert (reply.status, reply.body.decode()) == (status, body)
    assert reply.allow == ("GET, HEAD" if status == 405 else "")


def test_a_long_reason_is_cut_and_an_empty_one_is_still_a_failure() -> None:
    said = Routes(health={"x": lambda: "y" * 10_000 + "; do z"})("GET", "/healthz/x").body
    assert said.endswith(b"y; do z\n")
    assert len(said) == len("x failed: \n") + 500
    assert Routes(health={"x": lambda: ""})("GET", "/healthz").status == 500


@contextlib.asynccontextmanager
async def serving(routes: Routes, address: ListenAddress = ANYWHERE) -> AsyncIterator[ListenAddress]:
    """Run a server and give its real address."""
    server = ProbeServer("probes", address, routes)
    task = asyncio.create_task(server.run())
    await server.ready()
    try:
        yield server.bound[0]
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}


def fetch(url: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {k.lower(): v for k, v in error.headers.items()}, error.read()


@pytest.mark.parametrize("turns", range(8))  # more than it takes to listen
async def test_a_server_that_is_ended_while_it_begins_leaves_nothing_open(turns: int) -> None:
    """What is open at the end of the event loop fails a test: see tests/support/leftovers.py."""
    running = asyncio.create_task(ProbeServer("test", ListenAddress("127.0.0.1", 0), Routes()).run())
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_an_ordinary_client_reads_probes_and_metrics() -> None:
    registry = metrics.Registry()
    registry.gauge("up", "Whether.", ("what",)).labels("ä\udc80").set(1)
    state: dict[str, str | None] = {"reason": None}
    routes = Routes(health={"x": lambda: state["reason"]}, readiness={}, metrics=registry)
    async with serving(routes) as address:
        url = f"http://{address}"
        status, headers, body = await asyncio.to_thread(fetch, f"{url}/healthz")
        assert (status, body) == (200, b"ok")
        assert headers["content-type"] == "text/plain; charset=utf-8"
        assert headers["content-length"] == "2"
        state["reason"] = "broken"
        assert (await asyncio.to_thread(fetch, f"{url}/healthz"))[0] == 500
        status, headers, body = await asyncio.to_thread(fetch, f"{url}/metrics")
        assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        samples = [s for f in parser.text_string_to_metric_families(body.decode()) for s in f.samples]
        assert [(s.name, s.labels, s.value) for s in samples] == [("up", {"what": "ä?"}, 1.0)]
        status, headers, _ = await asyncio.to_thread(fetch, f"{url}/metrics", "POST")
        assert (status, headers["allow"]) == (405, "GET, HEAD")
        status, headers, body = await asyncio.to_thread(fetch, f"{url}/readyz", "HEAD")
        assert (status, headers["content-length"], body) == (200, "2", b"")


async def test_connections_are_kept_alive() -> None:
    def several(address: ListenAddress) -> list[Any]:
        client = http.client.HTTPConnection(*address, timeout=60)
        with contextlib.closing(client):
            found = []
            for method, path in (
                ("GET", "/healthz"),
                ("HEAD", "/healthz"),
                ("GET", "/nothing"),
                ("GET", "/readyz"),
            ):
                client.request(method, path)
                answer = client.getresponse()
                found += [(answer.status, answer.read(), client.sock and client.sock.getsockname()[1])]
            return found

    async with serving(GOOD) as address:
        found = await asyncio.to_thread(several, address)
    assert [entry[:2] for entry in found] == [
        (200, b"ok"), (200, b""), (404, b"404 page not found\n"), (200, b"ok"),
    ]  # fmt: skip
    assert len({entry[2] for entry in found}) == 1


async def test_ipv6() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    async with serving(GOOD, ListenAddress("::1", 0)) as address:
        assert (await asyncio.to_thread(fetch, f"http://{address}/healthz"))[0] == 200


@pytest.mark.parametrize("how", ["listening", "bound"])
async def test_a_taken_port_is_named_and_served_once_it_is_free(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Any user of the machine can take it, before us or between our binding and our listening."""
    caplog.set_level("INFO")
    changes = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if how == "listening":
            taken.listen()
        address = ListenAddress(*taken.getsockname())
        server = ProbeServer("metrics", address, GOOD, retry=Backoff(0.01, 0.02))
        server.on_change = lambda: changes.append(server.fault)
        task = asyncio.create_task(server.run())
        await server.ready()
        assert not task.done()
        assert server.bound == []
        await until(lambda: caplog.text.count("cannot listen") > 0)
    await until(lambda: bool(server.bound))
    assert (await asyncio.to_thread(fetch, f"http://{address}/healthz"))[0] == 200
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert changes[-1] == ""
    assert caplog.text.count("cannot listen on 127.0.0.1") == 1, "said once, however often it is tried"
    assert "for metrics: it is in use, by another nodemanager on this host or by somebody else" in caplog.text
    assert f"listening on {address} for metrics" in caplog.text


async def test_an_address_that_the_host_does_not_have_yet_is_waited_for() -> None:
    server = ProbeServer("metrics", ListenAddress("192.0.2.1", 0), GOOD)
    task = asyncio.create_task(server.run())
    await server.ready()
    assert "cannot listen on 192.0.2.1:0 for metrics: " in server.fault
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_port_is_free_again_after_the_end() -> None:
    async with serving(GOOD) as address:
        await asyncio.to_thread(fetch, f"http://{address}/healthz")
    async with serving(GOOD, address) as again:
        assert again == address
