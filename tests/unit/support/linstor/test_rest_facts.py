"""The simulator of LINSTOR: codes, statuses, transport and faults, as upstream's sources have them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http.transport import HttpTransport, Request
from nodemanager.kube import errors
from support.linstor import codes, routes, server, sites, syncing
from support.linstor.server import Controller, Fault
from support.linstor.sites import ask
from support.scripted_server import until


@pytest.fixture(name="controller")
async def _controller() -> AsyncIterator[Controller]:
    world = sites.cluster("a", "b")
    sites.volume(world, "pvc-1", "a")
    async with server.serve(world) as found:
        yield found


def code(body: Any, at: int = 0) -> int:
    return int(body[at]["ret_code"]) & 0x7FFF


def test_too_few_nodes_has_the_number_of_upstream() -> None:
    made = codes.number(codes.ERROR, codes.CREATE, codes.RSC, codes.NOT_ENOUGH_NODES)
    assert made == -4611686018407201820


def test_warnings_are_negative_too_and_success_is_not() -> None:
    assert codes.number(codes.WARN, codes.CREATE, codes.RSC, 0) < 0
    assert codes.number(codes.SUCCESS, codes.CREATE, codes.RSC, 1) == 0x1340001


@pytest.mark.parametrize(
    ("number", "status"),
    [(300, 404), (399, 404), (400, 403), (499, 403), (500, 500), (514, 500), (980, 500), (996, 500)],
)
def test_the_status_is_that_of_the_first_error(number: int, status: int) -> None:
    error = codes.line(codes.ERROR, codes.MODIFY, codes.RSC, number, "x")
    warning = codes.line(codes.WARN, codes.MODIFY, codes.RSC, 996, "x")
    later = codes.line(codes.ERROR, codes.MODIFY, codes.RSC, 301 if status != 404 else 500, "x")
    assert codes.http_status([warning, error, later], 201) == status
    assert codes.http_status([warning], 201) == 201


async def test_not_found_is_404_and_exists_is_500(controller: Controller) -> None:
    status, body = await ask(controller, "POST", "/v1/resource-definitions/nope/autoplace", {})
    assert (status, code(body)) == (404, codes.NO_RSC_DFN)
    path = "/v1/resource-definitions/pvc-1/resources/a"
    status, body = await ask(controller, "POST", path, {"resource": {"props": {"StorPoolName": "thin"}}})
    assert (status, code(body)) == (500, codes.EXISTS_RSC)
    assert body[0]["ret_code"] < 0


async def test_too_few_nodes_is_500(controller: Controller) -> None:
    path = "/v1/resource-definitions/pvc-1/autoplace"
    status, body = await ask(controller, "POST", path, {"select_filter": {"place_count": 3}})
    assert (status, code(body)) == (500, codes.NOT_ENOUGH_NODES)


async def test_creates_answer_201_and_the_rest_200(controller: Controller) -> None:
    path = "/v1/nodes/a/net-interfaces"
    assert (await ask(controller, "POST", path, {"name": "storage", "address": "10.0.0.1"}))[0] == 201
    status, body = await ask(controller, "POST", path, {"name": "storage", "address": "10.0.0.1"})
    assert (status, code(body)) == (500, codes.EXISTS_NET_IF)
    assert (await ask(controller, "PUT", "/v1/nodes/a", {"override_props": {"PrefNic": "storage"}}))[0] == 200
    assert (await ask(controller, "PUT", "/v1/nodes/a", {"override_props": {"PrefNic": "x"}}))[0] == 500
    assert (await ask(controller, "POST", "/v1/nodes/a", b"{"))[0] == 404  # no such path
    assert (await ask(controller, "PUT", "/v1/nodes/a", b"{"))[0] == 400


async def test_a_path_between_nodes_needs_its_interface(controller: Controller) -> None:
    wanted = {"override_props": {"Paths/p1/a": "storage", "Paths/p1/b": "storage"}}
    assert (await ask(controller, "PUT", "/v1/node-connections/a/b", wanted))[0] == 500
    for node in "ab":
        await ask(controller, "POST", f"/v1/nodes/{node}/net-interfaces", {"name": "storage", "address": "x"})
    assert (await ask(controller, "PUT", "/v1/node-connections/a/b", wanted))[0] == 200
    assert controller.world.connections[frozenset("ab")]["Paths/p1/a"] == "storage"


async def test_values_that_clients_keep(controller: Controller) -> None:
    await ask(controller, "PUT", "/v1/key-value-store/ours", {"override_props": {"lock": "1"}})
    _, body = await ask(controller, "GET", "/v1/key-value-store/ours")
    assert body[0]["props"] == {"lock": "1"}


async def test_it_tells_its_version(controller: Controller) -> None:
    status, body = await ask(controller, "GET", "/v1/controller/version")
    assert (status, body["version"]) == (200, "1.28.0")


@pytest.mark.parametrize("path", ["/v1/events/nodes", "/v1/events/drbd/promotion"])
async def test_events_are_streamed(controller: Controller, path: str) -> None:
    transport = HttpTransport(ClientConfig(controller.url))
    try:
        response = await transport.send(Request("GET", path))
        first = await response.read_chunk()
        assert first.startswith(b"event: ")
        await response.close()
    finally:
        await transport.close()


async def test_faults_an_error_has_its_report(controller: Controller) -> None:
    controller.faults.append(Fault(server.ERROR, "PUT"))
    status, body = await ask(controller, "PUT", "/v1/nodes/a", {"override_props": {"x": "y"}})
    assert (status, len(body[0]["error_report_ids"])) == (500, 1)
    assert "x" not in controller.world.nodes["a"].props
    assert (await ask(controller, "PUT", "/v1/nodes/a", {"override_props": {"x": "y"}}))[0] == 200


@pytest.mark.parametrize(
    ("kind", "happened"), [(server.HANG_AFTER, True), (server.HANG_BEFORE, False), (server.CUT_AFTER, True)]
)
async def test_faults_no_answer_with_and_without_the_change(
    controller: Controller, kind: str, happened: bool
) -> None:
    controller.faults.append(Fault(kind, "PUT"))
    asking = asyncio.create_task(ask(controller, "PUT", "/v1/nodes/a", {"override_props": {"x": "y"}}))
    await until(lambda: bool(controller.asked))
    if kind == server.CUT_AFTER:
        with pytest.raises(errors.Unreachable):
            await asking
    else:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    assert ("x" in controller.world.nodes["a"].props) is happened


async def test_faults_reads_may_be_stale(controller: Controller) -> None:
    controller.stale = controller.world.copy()
    controller.world.silence("b")
    _, body = await ask(controller, "GET", "/v1/nodes")
    assert [one["connection_status"] for one in body] == ["ONLINE", "ONLINE"]
    controller.stale = None
    _, body = await ask(controller, "GET", "/v1/nodes")
    assert [one["connection_status"] for one in body] == ["ONLINE", "OFFLINE"]


async def test_a_restart_forgets_what_drbd_said_for_some_seconds(controller: Controller) -> None:
    controller.world.restart(5)
    _, body = await ask(controller, "GET", "/v1/view/resources")
    assert "state" not in body[0]
    syncing.advance(controller.world, 6)
    _, body = await ask(controller, "GET", "/v1/view/resources")
    assert body[0]["volumes"][0]["state"]["disk_state"] == "UpToDate"


async def test_the_plain_port_sends_to_the_other_one(controller: Controller) -> None:
    async with server.redirecting("https://127.0.0.1:3371") as url:
        transport = HttpTransport(ClientConfig(url))
        try:
            response = await transport.send(Request("GET", "/v1/nodes"))
            assert (response.status, response.headers["location"]) == (302, "https://127.0.0.1:3371/v1/nodes")
            await response.close()
        finally:
            await transport.close()


def test_every_path_has_one_answer() -> None:
    seen = [(one.method, one.pattern.pattern) for one in routes.ROUTES]
    assert len(seen) == len(set(seen))
