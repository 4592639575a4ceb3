"""What a running server tells about itself: request log, metrics, health; and how it ends."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import parser

from support.scripted_server import until
from support.server_process import NAMESPACE, Server, admin_session, issue, raw, running, session, trust

MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PATHS = ("/api/v1/thing{0}", "/apis/g{0}.example/v1/x", "/path{0}", "/api/v1/pods/x/sub{0}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running(tmp_path / "data", "--request-log", "--log-format", "json") as one:
        yield one


def logged(server: Server) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    return [line for line in lines if line["source"] == "server.request_log"]


async def test_every_request_is_logged_once_and_tells_no_secret(server: Server) -> None:
    async with admin_session(server) as http:
        token = await issue(server, http, "reader")
    async with session(server, token=token) as http:
        async with http.get(MAPS, params={"fieldSelector": "hidden-query"}) as response:
            assert response.status == 403
        async with http.post(MAPS, json={"data": {"a": "hidden-body"}}) as response:
            assert response.status == 403
    async with session(server, token="hidden.bearer.token") as http, http.get("/version") as response:
        assert response.status == 401
    hostile = b'Connection: close\r\nUser-Agent: x" user="root" \x9b31m\r\n\r\n'
    line = await raw(server, b"GET /api/v1/x%0aINFO%20forged%1b[31m HTTP/1.1\r\nHost: x\r\n" + hostile)
    assert line.startswith(b"HTTP/1.1 403 "), line
    await until(lambda: len(logged(server)) >= 8)
    refused, posted, nobody, forged = logged(server)[-4:]
    account = f"system:serviceaccount:{NAMESPACE}:reader"
    assert [refused[name] for name in ("user", "code", "verb", "path")] == [account, 403, "list", MAPS]
    assert refused["bytes"] > 0
    assert refused["remote"].startswith("127.0.0.1:")
    assert (posted["method"], nobody["user"], nobody["code"]) == ("POST", "", 401)
    assert forged["path"] == "/api/v1/x%0aINFO%20forged%1b[31m"
    assert forged["agent"].startswith('x" user="root" ')
    text = server.log.read_text(errors="strict")
    assert "hidden" not in text
    assert token.rpartition(".")[2] not in text
    assert "\x1b" not in text
    assert "\x9b" not in text


async def test_the_text_form_is_one_line_each(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--request-log") as server:
        async with admin_session(server) as http:
            hostile = {"User-Agent": 'x" remote=1.2.3.4 "\u2028'}
            async with http.get(f"{MAPS}?token=hidden", headers=hostile) as response:
                assert response.status == 200
        await until(lambda: "request_log" in server.log.read_text())
        [line] = [line for line in server.log.read_text().splitlines() if "request_log" in line]
        assert f' INFO  server.request_log: GET "{MAPS}" 200 ' in line
        assert 'user="admin" agent="x\\" remote=1.2.3.4 \\"' in line
        assert "hidden" not in line
        assert "\u2028" not in line


async def test_without_being_asked_it_logs_no_requests(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server:
        async with admin_session(server) as http, http.get(MAPS) as response:
            assert response.status == 200
        assert server.stop() == 0
        assert MAPS not in server.log.read_text()


async def scrape(http: aiohttp.ClientSession) -> dict[str, list[Any]]:
    async with http.get("/metrics") as response:
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = await response.text()
    found: dict[str, list[Any]] = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def value(samples: list[Any], **labels: str) -> float:
    """Return the sum of the samples that have these labels."""
    return float(sum(one.value for one in samples if labels.items() <= one.labels.items()))


async def test_metrics_have_the_names_that_dashboards_know(server: Server) -> None:
    async with admin_session(server) as http:
        async with http.post(MAPS, json={"metadata": {"name": "one"}}) as response:
            assert response.status == 201
        async with http.get(f"{MAPS}/missing") as response:
            assert response.status == 404
        async with http.get(MAPS, params={"watch": "1"}) as watching:
            assert watching.status == 200
            found = await scrape(http)
            assert value(found["apiserver_longrunning_requests"], verb="WATCH", resource="configmaps") == 1
        labels = {"verb": "POST", "resource": "configmaps", "scope": "namespace", "version": "v1"}
        assert value(found["apiserver_request_total"], code="201", **labels) == 1
        assert value(found["apiserver_request_total"], code="404", verb="GET", scope="resource") == 1
        assert value(found["apiserver_request_duration_seconds_count"], **labels) == 1
        assert value(found["apiserver_storage_objects"], resource="configmaps") == 1
        assert value(found["apiserver_storage_objects"], resource="configsets.common.nodemanager") == 0
        kinds = {
            one.labels["request_kind"]: one.value for one in found["apiserver_current_inflight_requests"]
        }
        assert kinds == {"readOnly": 0, "mutating": 0}
        for name in ("process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"):
            assert found[name][0].value > 0


async def test_a_client_cannot_invent_series(server: Server) -> None:
    async with admin_session(server) as http:
        before = sum(map(len, (await scrape(http)).values()))
        for number in range(100):
            path = PATHS[number % 4].format(number)
            method = ("GET", "POST", "PROPFIND", "DELETE", "OPTIONS")[number % 5]
            async with http.request(method, path) as response:
                assert response.status in (404, 405)
        after = sum(map(len, (await scrape(http)).values()))
    assert after - before < 30 * 27  # one histogram has 26 samples


async def test_metrics_are_for_those_who_may_read_them(server: Server) -> None:
    async with admin_session(server) as http:
        token = await issue(server, http, "prometheus")
    async with session(server) as nobody, nobody.get("/metrics") as response:
        assert response.status == 403
    async with session(server, token=token) as prometheus:
        async with prometheus.get("/metrics") as response:
            assert response.status == 403
            assert 'cannot get path "/metrics"' in (await response.json())["message"]
        subject = {"kind": "ServiceAccount", "name": "prometheus", "namespace": NAMESPACE}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:monitoring"}
        binding = {"metadata": {"name": "prometheus"}, "roleRef": role, "subjects": [subject]}
        async with (
            admin_session(server) as http,
            http.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", json=binding) as response,
        ):
            assert response.status == 201
        assert await scrape(prometheus)
        async with prometheus.post("/metrics") as response:
            assert response.status == 403


async def test_health_by_check(server: Server) -> None:
    async with admin_session(server) as http:
        for path in ("/livez/ping", "/readyz/store"):
            async with http.get(path) as response:
                assert (response.status, await response.text()) == (200, "ok")
    async with session(server) as http:
        for path in ("/livez", "/readyz", "/healthz"):
            async with http.get(path) as response:
                assert (response.status, await response.text()) == (200, "ok")
        async with http.get("/readyz?verbose&exclude=store") as response:
            assert (await response.text()).splitlines() == [
                "[+]ping ok", "[+]started ok", "[+]store excluded: ok", "readyz check passed",
            ]  # fmt: skip
        for path in ("/readyz/store", "/readyz/nonsense"):  # single checks give reasons, and so need rights
            async with http.get(path) as response:
                assert response.status == 403


async def test_a_full_disk_turns_readiness_off_and_on_again(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server:
        assert server.process is not None
        pid = server.process.pid
        async with admin_session(server) as http:
            # Where a file may grow no more, SQLite sees what a full disk shows it.
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
            await answers(http, 503)
            async with http.get("/readyz") as response:
                assert "[-]store failed: reason withheld" in await response.text()
            async with http.get("/readyz/store") as response:
                assert "store failed: cannot write" in await response.text()
            async with http.post(MAPS, json={"metadata": {"name": "now"}}) as response:
                assert response.status == 503
                assert "cannot write" in (await response.json())["message"]
            async with http.get("/livez") as response:
                assert response.status == 200  # a restart would not help
            async with http.get(MAPS) as response:
                assert response.status == 200  # reading goes on
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            await answers(http, 200)
            async with http.post(MAPS, json={"metadata": {"name": "later"}}) as response:
                assert response.status == 201


async def answers(http: aiohttp.ClientSession, wanted: int) -> None:
    """Wait until readiness is told with a status; longer than the server believes an old outcome."""
    async with asyncio.timeout(50):
        status = 0
        while status != wanted:
            async with http.get("/readyz") as response:
                status = response.status
            await asyncio.sleep(0.1)


async def test_a_stop_lets_requests_end_and_ends_watches(server: Server) -> None:
    port, config = server.port, server.config()
    identity = await config.credentials.tls_identity()
    async with admin_session(server) as http, http.get(MAPS, params={"watch": "1"}) as watch:
        assert watch.status == 200
        reader, writer = await slow_post(port, trust(config, identity))
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        assert await watch.content.read() == b""  # an end, not a cut
        writer.write(b'me":"slow"}}')
        await writer.drain()
        assert (await reader.readline()).startswith(b"HTTP/1.1 201 ")
        writer.close()
    assert await asyncio.to_thread(server.process.wait, 50) == 0
    assert "Traceback" not in server.log.read_text()
    server.start(port)  # at once
    async with admin_session(server) as http, http.get(f"{MAPS}/slow") as response:
        assert response.status == 200


async def slow_post(port: int, context: ssl.SSLContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Begin a request, and return when the server is waiting for the rest of its body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    head = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: 28\r\n\r\n".encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 100 ")
    assert await reader.readline() == b"\r\n"
    writer.write(b'{"metadata":{"na')
    await writer.drain()
    return reader, writer


async def test_strangers_learn_nothing_of_the_software(server: Server) -> None:
    """But for the version of the API at /version, which Kubernetes tells everybody, too."""
    paths = ("/version", "/readyz?verbose", "/api", "/api/v1/nodes", "/nonsense", "/healthz/nonsense")
    requests = [f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" for path in paths]
    requests += ["nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", f"GET /{'x' * 20_000} HTTP/1.1\r\n\r\n"]
    requests += ["GET /api HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"]
    for request in requests:
        answer = (await raw(server, request.encode())).decode().lower()
        assert answer.startswith("http/1."), request[:40]
        assert "python" not in answer, answer
        assert "aiohttp" not in answer, answer
