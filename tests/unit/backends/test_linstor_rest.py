"""Requests to LINSTOR: the code decides and nothing else does, no answer is not no, and who may ask."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.backends import errors
from nodemanager.backends.errors import (
    BackendError,
    Denied,
    Garbled,
    NoRoom,
    NoSuchThing,
    NotReady,
    Occupied,
    Refused,
    Undecided,
    Unreachable,
    Unusable,
)
from nodemanager.backends.storage.linstor import codes, connecting, rest, views
from nodemanager.backends.storage.linstor.rest import LinstorRest
from nodemanager.client.auth.config import ClientConfig
from support import scripted_server, storage_labs, virtual_time
from support.examples import some
from support.linstor import codes as made
from support.linstor import server, sites
from support.linstor.server import Fault, Identity, Tls
from support.scripted_server import Exchange
from support.storage_labs import LinstorLab


@contextlib.asynccontextmanager
async def answering(status: int, body: bytes) -> AsyncIterator[LinstorRest]:
    """Yield a client of somebody who always says the same."""

    async def answer(exchange: Exchange) -> None:
        await exchange.answer(status, body)

    async with scripted_server.serve(answer) as found:
        controller = LinstorRest(connecting.config(found.url))
        try:
            yield controller
        finally:
            await controller.close()


@pytest.fixture(name="lab")
async def _lab() -> AsyncIterator[LinstorLab]:
    async with storage_labs.linstor() as found:
        yield found


def test_codes_the_known_number_of_too_few_nodes() -> None:
    found = codes.parse(-4611686018407201820)
    assert (found.kind, found.operation, found.subject, found.code) == (codes.ERROR, 1, 13, 996)
    assert found.is_error
    assert not found.is_warning
    assert codes.parse(made.number(made.WARN, 1, 13, 996)).is_warning


@settings(max_examples=some(200))
@given(
    st.sampled_from([made.SUCCESS, made.INFO, made.WARN, made.ERROR]),
    st.integers(0, 3), st.integers(0, 31), st.integers(0, 0x7FFF),
)  # fmt: skip
def test_codes_are_read_as_they_are_made(kind: int, operation: int, subject: int, code: int) -> None:
    number = made.number(kind, operation, subject, code)
    for form in (number, number & 0xFFFF_FFFF_FFFF_FFFF):  # signed, and as some clients write it
        found = codes.parse(form)
        assert (found.kind, found.operation, found.subject, found.code) == (kind, operation, subject, code)


def said(lines: list[dict[str, Any]], status: int) -> str:
    """Return what becomes of an answer to a change: the name of an error, or of none."""
    read = rest._lines(msgspec.json.encode(lines))
    if read and not any(one.code.is_error for one in read):
        return "done"
    try:
        rest._raise("x", status, read, changing=True)
    except BackendError as error:
        return type(error).__name__
    return "nothing"


@settings(max_examples=some(200))
@given(
    st.lists(
        st.builds(
            lambda kind, code: made.line(kind, made.MODIFY, made.RSC, code, "x"),
            st.sampled_from([made.SUCCESS, made.WARN, made.INFO, made.ERROR]), st.integers(100, 999),
        ),
        min_size=1, max_size=4,
    ),
    st.sampled_from([200, 201, 404, 403, 500]), st.sampled_from([200, 201, 404, 403, 500]),
)  # fmt: skip
def test_errors_are_decided_by_code_and_never_by_status(
    lines: list[dict[str, Any]], one: int, other: int
) -> None:
    assert said(lines, one) == said(lines, other)
    failed = any(line["ret_code"] & made.ERROR == made.ERROR for line in lines)
    assert (said(lines, one) == "done") is not failed


@pytest.mark.parametrize(
    ("code", "kind"),
    [(299, Refused), (300, NoSuchThing), (309, NoSuchThing), (399, NoSuchThing), (400, Denied), (499, Denied),
     (500, Refused), (502, Refused), (979, NotReady), (980, NoRoom),
     (992, Occupied), (994, Refused), (995, NotReady), (996, NoRoom), (997, Occupied)],
)  # fmt: skip
def test_each_code_is_an_error_of_ours(code: int, kind: type[BackendError]) -> None:
    assert said([made.line(made.ERROR, 2, made.RSC, code, "x")], 500) == kind.__name__


async def test_exists_and_too_few_nodes_both_come_as_500_and_are_told_apart(lab: LinstorLab) -> None:
    assert (await lab.backend.clone("vol-1", "vol-3")).changed
    assert not (await lab.backend.clone("vol-1", "vol-3")).changed
    with pytest.raises(NoRoom, match=r"cannot place 3 copies of vol-1: Not enough nodes.*\[code 996\]"):
        await lab.backend.place("vol-1", 3)


async def test_an_error_names_its_reports(lab: LinstorLab) -> None:
    lab.controller.faults.append(Fault(server.ERROR))
    with pytest.raises(Refused, match="6A1B-0000-000000") as caught:
        await lab.backend.observe()
    assert caught.value.reports == ("6A1B-0000-000000",)


@pytest.mark.parametrize(("kind", "happened"), [(server.HANG_AFTER, True), (server.HANG_BEFORE, False)])
def test_no_answer_in_time_is_undecided_whether_or_not_it_was_done(kind: str, happened: bool) -> None:
    async def scenario() -> None:
        async with storage_labs.linstor() as lab:
            lab.controller.faults.append(Fault(kind, "POST"))
            began = asyncio.get_running_loop().time()
            with pytest.raises(Undecided, match="no answer within 120 s; look again"):
                await lab.backend.place("vol-1", 2)
            assert asyncio.get_running_loop().time() - began >= rest.CHANGE_SECONDS
            assert ("b" in lab.world.definitions["vol-1"].replicas) is happened
            # The repetition looks first, so it does the same in both cases.
            assert (await lab.backend.place("vol-1", 2)).changed is not happened

    virtual_time.run(scenario())


def test_a_read_without_an_answer_is_unreachable() -> None:
    async def scenario() -> None:
        async with storage_labs.linstor() as lab:
            lab.controller.faults.append(Fault(server.HANG_BEFORE, "GET", times=9))
            with pytest.raises(Unreachable, match="no answer within 10 s"):
                await lab.backend.observe()

    virtual_time.run(scenario())


async def test_a_refused_connection_is_unreachable_also_for_a_change() -> None:
    controller = LinstorRest(connecting.config("http://127.0.0.1:1"))
    try:
        with pytest.raises(Unreachable, match="cannot take it"):
            await controller.change("POST", "/v1/x", {}, "take it")
    finally:
        await controller.close()


async def test_what_a_proxy_says_of_a_change_decides_nothing(lab: LinstorLab) -> None:
    lab.controller.faults.append(Fault(server.PROXY, "POST"))
    with pytest.raises(Undecided, match="502"):
        await lab.backend.place("vol-1", 2)
    lab.controller.faults.append(Fault(server.PROXY, "GET"))
    with pytest.raises(Garbled, match="502"):
        await lab.backend.observe()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [(200, b"[]", Undecided), (200, b"null", Undecided), (200, b'[{"ret_code": "x"}]', Undecided),
     (299, b"", Undecided), (500, b"", Undecided), (404, b"", Garbled), (499, b"", Garbled),
     (400, b"{", Garbled), (401, b"", Denied), (403, b"<html>", Denied),
     (300, b"", Garbled), (302, b"", Garbled), (399, b"", Garbled)],
)  # fmt: skip
async def test_answers_that_are_none_of_linstor(status: int, body: bytes, kind: type[BackendError]) -> None:
    async with answering(status, body) as controller:
        with pytest.raises(kind):
            await controller.change("PUT", "/v1/x", {}, "do it")


@pytest.mark.parametrize(
    ("status", "redirects"), [(299, False), (300, True), (399, True), (400, False), (302, True)]
)
async def test_a_read_that_is_redirected_says_where_tls_is(status: int, redirects: bool) -> None:
    async with answering(status, b"") as controller:
        with pytest.raises(Garbled) as caught:
            await controller.read(list[Any], "/v1/nodes", "list nodes")
    assert ("3371" in str(caught.value)) is redirects


@pytest.mark.parametrize("body", [b"{}", b'[{"name": 1}]', b"[" * 5000, b"\xff", b""])
async def test_a_read_of_something_else_is_garbled(body: bytes) -> None:
    async with answering(200, body) as controller:
        with pytest.raises(Garbled, match="not what LINSTOR says"):
            await controller.read(list[views.NodeView], "/v1/nodes", "list nodes")


@pytest.mark.parametrize("amount", [2**63, 2**64, 10**400], ids=["63 bits", "64 bits", "no float"])
async def test_a_pool_of_an_impossible_size_is_garbled(amount: int) -> None:
    said = f'[{{"storage_pool_name": "p", "node_name": "a", "free_capacity": {amount}}}]'
    async with answering(200, said.encode()) as controller:
        with pytest.raises(Garbled, match="not what LINSTOR says"):
            await controller.read(list[views.PoolView], "/v1/view/storage-pools", "list storage pools")


async def test_a_read_that_says_no_says_no_whatever_its_status_says() -> None:
    line = made.line(made.ERROR, 2, made.RSC, 995, "no connection")
    async with answering(200, msgspec.json.encode([line])) as controller:
        with pytest.raises(NotReady, match="no connection"):
            await controller.read(list[views.NodeView], "/v1/nodes", "list nodes")


async def test_more_than_anybody_would_read_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "MAX_BODY", 1000)

    async with answering(200, b"[" + b" " * 2000 + b"]") as controller:
        with pytest.raises(Undecided, match="larger than 1000 bytes"):
            await controller.change("PUT", "/v1/x", {}, "do it")
        with pytest.raises(Garbled, match="larger than 1000 bytes"):
            await controller.read(list[views.NodeView], "/v1/nodes", "list nodes")


@pytest.mark.parametrize("one", [b"{}", b'""'], ids=["objects", "values"])
async def test_an_answer_that_would_grow_when_it_is_decoded_is_not_decoded(one: bytes) -> None:
    body = b'[{"name":"v","node_name":"a","volumes":[' + b",".join([one] * (rest.MAX_VALUES + 2)) + b"]}]"
    assert len(body) < rest.MAX_BODY

    async with answering(200, body) as controller:
        with pytest.raises(Garbled, match="more in it than the storage of a site"):
            await controller.read(list[views.ReplicaView], "/v1/view/resources", "list replicas")


@pytest.mark.parametrize(("objects", "values"), [(2, 2), (1, 2), (2, 1)])
async def test_what_is_just_not_too_much_is_read(
    monkeypatch: pytest.MonkeyPatch, objects: int, values: int
) -> None:
    monkeypatch.setattr(rest, "MAX_OBJECTS", objects)
    monkeypatch.setattr(rest, "MAX_VALUES", values)
    async with answering(200, b"[{}, {}, 1]") as controller:
        if (objects, values) == (2, 2):
            assert await controller.read(list[Any], "/v1/nodes", "list nodes") == [{}, {}, 1]
            return
        with pytest.raises(Garbled):
            await controller.read(list[Any], "/v1/nodes", "list nodes")


def test_a_controller_that_never_comes_to_an_end_is_not_waited_for() -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.stream()
        while True:
            await exchange.chunk(b" ")
            await asyncio.sleep(1)

    async def scenario() -> None:
        async with scripted_server.serve(answer) as found:
            controller = LinstorRest(connecting.config(found.url))
            try:
                began = asyncio.get_running_loop().time()
                with pytest.raises(Unreachable, match="no answer within 10 s"):
                    await controller.read(list[views.NodeView], "/v1/nodes", "list nodes")
                assert asyncio.get_running_loop().time() - began < 12
            finally:
                await controller.close()

    virtual_time.run(scenario())


async def test_requests_say_what_they_bring_and_use_one_connection() -> None:
    done = made.line(made.SUCCESS, 2, made.RSC, 3, "ok")
    warned = made.line(made.WARN, 2, made.RSC, 0, "mind the gap")

    async def answer(exchange: Exchange) -> None:
        await exchange.json([done, warned])

    async with scripted_server.serve(answer) as found:
        controller = LinstorRest(connecting.config(found.url))
        try:
            await controller.read(list[Any], "/v1/nodes", "list nodes")
            said = await controller.change("PUT", "/v1/x", {"a": 1}, "do it")
        finally:
            await controller.close()
    read, change = found.requests
    assert (read.headers["accept"], read.headers.get("content-type")) == ("application/json", None)
    assert (change.headers["accept"], change.headers["content-type"]) == ("application/json",) * 2
    assert change.body == b'{"a":1}'
    assert not {"authorization", "cookie", "proxy-authorization"} & {*read.headers, *change.headers}
    assert rest.warnings(said) == ("mind the gap",)
    assert found.connections == 1


def test_no_handshake_in_time_is_unreachable_as_nothing_was_sent() -> None:
    async def answer(exchange: Exchange) -> None:
        raise AssertionError("nothing can be read of it")

    async def scenario() -> None:
        tls = Tls()
        async with scripted_server.serve(answer) as found:
            url = found.url.replace("http:", "https:")
            controller = LinstorRest(connecting.config(url, "own", _secret(tls.client())))
            try:
                with pytest.raises(Unreachable):
                    await controller.change("POST", "/v1/x", {}, "do it")
            finally:
                await controller.close()

    virtual_time.run(scenario())


async def test_a_certificate_that_is_none_is_denied_before_anything_is_sent() -> None:
    broken = {"tls.crt": b"x", "tls.key": b"hush", "ca.crt": Tls().client().ca}
    controller = LinstorRest(connecting.config("https://127.0.0.1:1", "own", broken))
    try:
        with pytest.raises(Denied, match=r"cannot do it: .*Secret own") as caught:
            await controller.change("POST", "/v1/x", {}, "do it")
    finally:
        await controller.close()
    assert "hush" not in str(caught.value)


async def test_text_of_others_steers_no_terminal_and_is_short() -> None:
    line = made.line(made.ERROR, 2, made.RSC, 996, "\x1b[31m" + "x" * 5000)
    async with answering(500, msgspec.json.encode([line])) as controller:
        with pytest.raises(NoRoom) as caught:
            await controller.change("PUT", "/v1/x", {}, "do it")
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 2 * errors.WORDS


def test_a_name_cannot_leave_its_place_in_a_path() -> None:
    assert rest.segment("../nodes/a?x#y") == "..%2Fnodes%2Fa%3Fx%23y"


def _secret(identity: Identity) -> dict[str, bytes]:
    return {"tls.crt": identity.certificate, "tls.key": identity.key, "ca.crt": identity.ca}


async def test_tls_with_a_client_certificate_and_nothing_without() -> None:
    tls = Tls()
    async with server.serve(storage_labs.world(), tls) as controller:
        known = LinstorRest(connecting.config(controller.url, "linstor-client-tls", _secret(tls.client())))
        stranger = LinstorRest(connecting.config(controller.url, "other", _secret(tls.client(trustme.CA()))))
        nobody = LinstorRest(ClientConfig(controller.url, ca=tls.client().ca))
        try:
            assert await known.read(list[Any], "/v1/nodes", "list nodes")
            for one in (stranger, nobody):
                with pytest.raises((Unreachable, Denied)):
                    await one.read(list[Any], "/v1/nodes", "list nodes")
        finally:
            for one in (known, stranger, nobody):
                await one.close()
        assert len(controller.asked) == 1


async def test_tls_a_controller_of_another_authority_is_not_asked() -> None:
    tls = Tls()
    async with server.serve(sites.cluster("a"), tls) as controller:
        secret = _secret(tls.client()) | {"ca.crt": trustme.CA().cert_pem.bytes()}
        fooled = LinstorRest(connecting.config(controller.url, "linstor-client-tls", secret))
        try:
            with pytest.raises(Unreachable):
                await fooled.read(list[Any], "/v1/nodes", "list nodes")
        finally:
            await fooled.close()
        assert controller.asked == []


async def test_a_redirect_is_not_followed_and_says_which_port() -> None:
    async with server.redirecting("https://127.0.0.1:3371") as url:
        controller = LinstorRest(connecting.config(url))
        try:
            with pytest.raises(Garbled, match="3371"):
                await controller.read(list[Any], "/v1/nodes", "list nodes")
        finally:
            await controller.close()


@pytest.mark.parametrize("lacking", ["tls.crt", "tls.key", "ca.crt"])
def test_a_secret_that_lacks_a_key_is_named(lacking: str) -> None:
    whole = {"tls.crt": b"x", "tls.key": b"y", "ca.crt": b"z"}
    with pytest.raises(Unusable, match=f"Secret own.*{lacking}"):
        connecting.config("https://x", "own", whole | {lacking: b""})


def test_a_key_is_in_no_text() -> None:
    found = connecting.config("https://x", "own", {"tls.crt": b"x", "tls.key": b"hush", "ca.crt": b"z"})
    assert "hush" not in repr(found)
