"""What can go wrong between a client and a server, one real socket at a time.

Aspects: refusals map to their exception with verb and resource named, broken answers end in a
TransportError, retries happen when they are safe and only then, nothing waits for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import ssl
from collections.abc import Awaitable, Callable

import pytest
import trustme

from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.calls import Call, Selection
from nodemanager.client.http import connection
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import LEASES, Lease
from nodemanager.kube.objects import ObjectMeta
from support import virtual_time
from support.clients import Tokens, connected
from support.scripted_server import Exchange, Handler, serve, until

LEASE = {"metadata": {"name": "a", "namespace": "test", "resourceVersion": "5"}, "spec": {}}
NEW = Lease(metadata=ObjectMeta(name="a"))


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        pytest.param(400, "BadRequest", errors.BadRequest, id="400"),
        pytest.param(401, "Unauthorized", errors.Unauthorized, id="401"),
        pytest.param(403, "Forbidden", errors.Forbidden, id="403"),
        pytest.param(404, "NotFound", errors.NotFound, id="404"),
        pytest.param(405, "MethodNotAllowed", errors.NotAllowed, id="405"),
        pytest.param(409, "Conflict", errors.Conflict, id="409-conflict"),
        pytest.param(409, "AlreadyExists", errors.AlreadyExists, id="409-exists"),
        pytest.param(410, "Expired", errors.Gone, id="410-expired"),
        pytest.param(410, "Gone", errors.Gone, id="410-gone"),
        pytest.param(413, "RequestEntityTooLarge", errors.TooLarge, id="413"),
        pytest.param(415, "UnsupportedMediaType", errors.UnsupportedType, id="415"),
        pytest.param(422, "Invalid", errors.Invalid, id="422"),
        pytest.param(429, "TooManyRequests", errors.TooManyRequests, id="429-without-delay"),
        pytest.param(500, "InternalError", errors.InternalError, id="500"),
        pytest.param(500, "ServerTimeout", errors.ServerTimeout, id="500-server-timeout"),
        pytest.param(503, "ServiceUnavailable", errors.ServiceUnavailable, id="503"),
        pytest.param(504, "Timeout", errors.ServerTimeout, id="504"),
        pytest.param(418, "", errors.BadRequest, id="unknown-4xx"),
        pytest.param(599, "", errors.InternalError, id="unknown-5xx"),
    ],
)
async def test_refusals_become_their_exception(
    code: int, reason: str, expected: type[errors.StatusError]
) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.refuse(code, reason, "because I say so")

    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        with pytest.raises(errors.StatusError, match=r"^cannot get \S+ test/a: because") as e:
            await client.get(LEASES, "a", "test")
        assert type(e.value) is expected
        assert len(server.requests) == 1
        assert server.connections == 1


async def test_invalid_names_every_refused_field() -> None:
    async def handler(exchange: Exchange) -> None:
        causes = [{"field": "spec.files[0].mode", "reason": "FieldValueInvalid", "message": "must be octal"}]
        status = {"code": 422, "reason": "Invalid", "message": "no", "details": {"causes": causes}}
        await exchange.json(status, 422)

    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        with pytest.raises(errors.Invalid) as e:
            await client.create(LEASES, NEW, "test")
        assert [cause.field for cause in e.value.causes] == ["spec.files[0].mode"]


async def test_forbidden_without_a_reason_says_which_verb_on_which_resource_is_missing() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer(403, b"<html>no entry</html>")

    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        with pytest.raises(
            errors.Forbidden, match=r"the verb 'list' on 'leases.coordination.k8s.io' is missing"
        ):
            await client.list(LEASES, Selection("test"))


async def reset(exchange: Exchange) -> None:
    exchange.reset()


async def close_at_once(exchange: Exchange) -> None:
    await exchange.close()


async def half_header(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 200 OK\r\ncontent-le")
    await exchange.close()


async def half_body(exchange: Exchange) -> None:
    await exchange.raw(b'HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{"metadata": {')
    await exchange.close()


async def half_chunk(exchange: Exchange) -> None:
    await exchange.stream()
    await exchange.raw(b'ff\r\n{"metadata"')
    await exchange.close()


async def not_http(exchange: Exchange) -> None:
    await exchange.raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


async def endless_header(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 200 OK\r\nx: ")
    for _ in range(100):
        await exchange.raw(b"y" * 4096)
    await exchange.hang()


async def truncated_json(exchange: Exchange) -> None:
    await exchange.answer(200, json.dumps(LEASE).encode()[:-5])


async def wrong_type(exchange: Exchange) -> None:
    await exchange.json({"metadata": {"name": 7}})


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        pytest.param(reset, errors.Unreachable, id="reset"),
        pytest.param(close_at_once, errors.Unreachable, id="closed-without-answer"),
        pytest.param(half_header, errors.Unreachable, id="half-a-header"),
        pytest.param(half_body, errors.Unreachable, id="half-a-body"),
        pytest.param(half_chunk, errors.Unreachable, id="half-a-chunk"),
        pytest.param(not_http, errors.ProtocolError, id="not-http"),
        pytest.param(endless_header, errors.ProtocolError, id="endless-header"),
        pytest.param(truncated_json, errors.ProtocolError, id="truncated-json"),
        pytest.param(wrong_type, errors.ProtocolError, id="wrong-type"),
    ],
)
async def test_broken_answers_end_in_a_transport_error(
    handler: Handler, expected: type[errors.TransportError]
) -> None:
    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        with pytest.raises(expected, match=r"^cannot get \S+ test/a: "):
            await client.get(LEASES, "a", "test")
        assert len(server.requests) == 1


async def test_a_server_that_never_answers_times_out() -> None:
    async with serve(Exchange.hang) as server, connected(ClientConfig(server.url)) as client:
        with pytest.raises(errors.TimedOut, match=r"cannot wait: no answer within 0\.1 s"):
            await client.send(Call("GET", "/api", "wait", {}, timeout=0.1))


async def test_a_client_that_was_closed_opens_nothing_any_more() -> None:
    """Whoever gave up while it connected: what is open when the event loop ends is left to the collector."""

    async def handler(exchange: Exchange) -> None:
        await exchange.json({})

    ca, ended = trustme.CA(), set()
    async with serve(handler, server_context(ca, "127.0.0.1")) as server:
        for turns in range(40):  # more than a connection, a handshake and an answer take
            async with connected(ClientConfig(server.url, ca=ca.cert_pem.bytes())) as client:
                asking = asyncio.create_task(client.send(Call("GET", "/api", "ask", {})))
                for _ in range(turns):
                    await asyncio.sleep(0)
                asking.cancel()
                ended |= {type(one) for one in await asyncio.gather(asking, return_exceptions=True)}
            left = [one for one in asyncio.all_tasks() if "Dialer" in str(one.get_coro())]
            assert left == [], turns
    assert asyncio.CancelledError in ended


async def test_a_body_that_stops_half_way_times_out() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{")
        await exchange.hang()

    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        with pytest.raises(errors.TimedOut):
            await client.send(Call("GET", "/api", "wait", {}, timeout=0.1))


async def test_nobody_listens() -> None:
    async with serve(Exchange.hang) as server:
        url = server.url
    async with connected(ClientConfig(url)) as client:
        with pytest.raises(errors.Unreachable, match=f"cannot reach {url}: .*[Cc]onnect"):
            await client.get(LEASES, "a", "test")


async def test_connections_are_reused() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.json(LEASE)

    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        for _ in range(5):
            await client.get(LEASES, "a", "test")
        assert server.connections == 1


async def chunked(exchange: Exchange, *, extra: bytes = b"", head: bytes = b"") -> None:
    body = json.dumps(LEASE).encode()
    await exchange.raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n" + head + b"\r\n")
    await exchange.chunk(body[:10])
    await exchange.chunk(body[10:])
    await exchange.raw(b"0\r\ntrailer: x\r\n\r\n" + extra)


async def test_connections_are_reused_after_a_chunked_answer() -> None:
    async with serve(chunked) as server, connected(ClientConfig(server.url)) as client:
        for _ in range(3):
            assert (await client.get(LEASES, "a", "test")).metadata.name == "a"
        assert server.connections == 1


async def test_connections_are_not_reused_when_the_server_says_so() -> None:
    async def handler(exchange: Exchange) -> None:
        await chunked(exchange, head=b"Connection: Close\r\n")

    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        for _ in range(3):
            await client.get(LEASES, "a", "test")
        assert server.connections == 3


async def with_length(exchange: Exchange, *, extra: bytes = b"") -> None:
    body = json.dumps(LEASE).encode()
    await exchange.raw(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b%b" % (len(body), body, extra))


@pytest.mark.parametrize("answer", [chunked, with_length])
@pytest.mark.parametrize("late", [pytest.param(False, id="at once"), pytest.param(True, id="later")])
async def test_what_follows_an_answer_is_never_taken_for_the_next_one(
    answer: Callable[..., Awaitable[None]], late: bool
) -> None:
    smuggled = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"

    async def handler(exchange: Exchange) -> None:
        await answer(exchange, extra=smuggled if len(server.requests) == 1 and not late else b"")

    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        with contextlib.suppress(errors.ProtocolError):  # whether it arrives with the end or behind it
            await client.get(LEASES, "a", "test")
        if late:
            await server.requests[0].raw(smuggled)
            await until(lambda: not client._transport._idle[0].usable())  # type: ignore[attr-defined]
        assert (await client.get(LEASES, "a", "test")).metadata.name == "a"
        assert server.connections == 2


@pytest.mark.parametrize("end", [pytest.param(False, id="close"), pytest.param(True, id="reset")])
async def test_a_kept_connection_that_died_is_replaced_for_reads(end: bool) -> None:
    async def handler(exchange: Exchange) -> None:
        if len(server.requests) == 2:  # the first request on the kept connection gets no answer
            exchange.reset() if end else await exchange.close()
            return
        await exchange.json(LEASE)

    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        await client.get(LEASES, "a", "test")
        await client.get(LEASES, "a", "test")
        assert [request.method for request in server.requests] == ["GET", "GET", "GET"]
        assert server.connections == 2


async def test_a_write_on_a_connection_that_died_is_never_sent_twice() -> None:
    async def handler(exchange: Exchange) -> None:
        if exchange.method == "PATCH":
            exchange.reset()
            return
        await exchange.json(LEASE)

    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        await client.get(LEASES, "a", "test")
        with pytest.raises(errors.Unreachable):
            await client.patch(LEASES, "a", "test", MergePatch({}))
        assert [request.method for request in server.requests] == ["GET", "PATCH"]


async def test_a_connection_that_the_server_closed_while_idle_is_not_used() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.json(LEASE)
        if exchange.method == "GET":
            await exchange.close()

    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        await client.get(LEASES, "a", "test")
        await until(lambda: not client._transport._idle[0].usable())  # type: ignore[attr-defined]
        await client.patch(LEASES, "a", "test", MergePatch({}))
        assert server.connections == 2


async def test_401_is_answered_once_with_fresh_credentials() -> None:
    async def handler(exchange: Exchange) -> None:
        if exchange.headers["authorization"] != "Bearer new":
            await exchange.refuse(401, "Unauthorized")
            return
        await exchange.json(LEASE)

    tokens = Tokens("old", "new")
    async with serve(handler) as server, connected(ClientConfig(server.url, credentials=tokens)) as client:
        await client.create(LEASES, NEW, "test")
        assert tokens.refreshes == 1
        assert len(server.requests) == 2


async def test_401_with_fresh_credentials_is_final() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.refuse(401, "Unauthorized")

    tokens = Tokens("old", "new", "newer")
    async with serve(handler) as server, connected(ClientConfig(server.url, credentials=tokens)) as client:
        with pytest.raises(errors.Unauthorized):
            await client.get(LEASES, "a", "test")
        assert len(server.requests) == 2


@pytest.mark.parametrize("code", [429, 503])
def test_retry_after_is_waited_for(code: int) -> None:
    async def handler(exchange: Exchange) -> None:
        if len(exchange.server.requests) < 3:
            await exchange.refuse(code, "", retry_after="1")
            return
        await exchange.json(LEASE)

    async def scenario() -> None:
        async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
            before = asyncio.get_running_loop().time()
            await client.create(LEASES, NEW, "test")
            assert asyncio.get_running_loop().time() - before == 2.0
            assert len(server.requests) == 3

    virtual_time.run(scenario(), io_grace=0.2)  # no load makes the deadline of the call pass


async def test_retry_after_nothing_is_left_to_the_caller() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.refuse(429, "TooManyRequests", retry_after="0")

    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        with pytest.raises(errors.TooManyRequests):
            await client.get(LEASES, "a", "test")
        assert len(server.requests) == 1


async def test_retry_after_beyond_the_deadline_is_raised_with_the_delay() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.refuse(429, "TooManyRequests", retry_after="3600")

    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        with pytest.raises(errors.TooManyRequests) as e:
            await client.get(LEASES, "a", "test")
        assert e.value.retry_after == 300  # we do not stay away for an hour because a proxy says so
        assert len(server.requests) == 1


async def test_a_redirect_is_not_followed_with_our_credentials() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer(302, b"", location="http://127.0.0.1:1/")

    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        with pytest.raises(errors.StatusError):
            await client.get(LEASES, "a", "test")
        assert len(server.requests) == 1


def server_context(ca: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert(*names).configure_cert(context)
    return context


async def answer(exchange: Exchange) -> None:
    await exchange.json(LEASE)


async def test_wrong_certificate_authority() -> None:
    ca, other = trustme.CA(), trustme.CA()
    async with serve(answer, server_context(ca, "127.0.0.1")) as server:
        async with connected(ClientConfig(server.url, ca=other.cert_pem.bytes())) as client:
            with pytest.raises(errors.TlsError, match=r"certificate was not accepted.*certificate-authority"):
                await client.get(LEASES, "a", "test")
        assert not server.requests


async def test_tls_server_name_is_what_the_certificate_is_checked_against() -> None:
    ca = trustme.CA()
    async with serve(answer, server_context(ca, "api.example")) as server:
        config = ClientConfig(server.url, ca=ca.cert_pem.bytes())
        async with connected(config) as client:
            with pytest.raises(errors.TlsError, match="tls-server-name"):
                await client.get(LEASES, "a", "test")
        async with connected(dataclasses.replace(config, tls_server_name="api.example")) as client:
            await client.get(LEASES, "a", "test")


async def test_insecure_accepts_any_certificate() -> None:
    context = server_context(trustme.CA(), "other")
    async with (
        serve(answer, context) as server,
        connected(ClientConfig(server.url, insecure=True)) as client,
    ):
        await client.get(LEASES, "a", "test")


async def test_tls_to_a_port_that_speaks_plain_http() -> None:
    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(plain, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with listener, connected(ClientConfig(url, ca=trustme.CA().cert_pem.bytes())) as client:
        with pytest.raises(errors.TlsError, match="TLS handshake failed"):
            await client.get(LEASES, "a", "test")


async def test_plain_http_to_a_port_that_speaks_tls() -> None:
    async with serve(answer, server_context(trustme.CA(), "127.0.0.1")) as server:
        url = server.url.replace("https:", "http:")
        async with connected(ClientConfig(url)) as client:
            with pytest.raises(errors.TransportError):
                await client.get(LEASES, "a", "test")


async def test_a_client_that_was_closed_says_so() -> None:
    async with serve(answer) as server:
        client = Client(HttpTransport(ClientConfig(server.url)))
        await client.close()
        with pytest.raises(errors.Unreachable, match="closed"):
            await client.get(LEASES, "a", "test")


async def test_close_does_not_wait_for_a_peer_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CLOSE_TIMEOUT", 0.2)
    ca = trustme.CA()
    async with serve(Exchange.hang, server_context(ca, "127.0.0.1")) as server:
        client = Client(HttpTransport(ClientConfig(server.url, ca=ca.cert_pem.bytes())))
        call = asyncio.create_task(client.get(LEASES, "a", "test"))
        await until(lambda: bool(server.requests))
        async with asyncio.timeout(90):
            await client.close()
        with pytest.raises(errors.TransportError):
            await call


@pytest.mark.parametrize("server", ["", "10.0.0.1:6443", "ftp://x", "https://"])
def test_a_server_that_is_no_url_is_refused(server: str) -> None:
    with pytest.raises(errors.ConfigError, match="expected a URL such as https://host:6443"):
        HttpTransport(ClientConfig(server))


@pytest.mark.parametrize("server", ["https://[::1", "https://a:b", "https://a:99999", "http://1:2:3"])
def test_a_server_whose_port_or_address_is_none_is_refused_in_the_same_way(server: str) -> None:
    with pytest.raises(errors.ConfigError, match="cannot use server"):
        HttpTransport(ClientConfig(server))
