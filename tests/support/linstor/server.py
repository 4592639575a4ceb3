"""The controller on a real socket, with what may go wrong between it and its clients.

async with serve(world) as controller:
    LinstorRest(ClientConfig(controller.url))
"""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import trustme

from support import scripted_server
from support.linstor import codes, routes
from support.linstor.codes import MODIFY, RSC, Refusal
from support.linstor.routes import Call
from support.linstor.world import LinstorWorld
from support.scripted_server import Exchange

ERROR = "error"
"""An error that nobody can do anything about, with its report."""
HANG_BEFORE, HANG_AFTER = "hang-before", "hang-after"
"""No answer ever; nothing was done, or all of it."""
CUT_AFTER = "cut-after"
"""All was done, and the connection breaks."""
PROXY = "proxy"
"""Somebody in between answers in its own words."""


@dataclass
class Fault:
    """What happens to the next request of that method and path."""

    kind: str
    method: str = ""
    path: str = ""
    times: int = 1


@dataclass
class Controller:
    """A controller that listens."""

    world: LinstorWorld
    url: str = ""
    faults: list[Fault] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    stale: LinstorWorld | None = None
    """What reads show in the place of the truth."""
    satellites: Callable[[str, LinstorWorld], Awaitable[None]] | None = None
    """Asked before a read for what is so on hosts, where these are real ones."""
    token: str = ""
    """Without it nobody is let in; empty: everybody is."""

    async def answer(self, exchange: Exchange) -> None:
        path = unquote(urlsplit(exchange.target).path)
        self.asked.append(f"{exchange.method} {path}")
        fault = self._fault(exchange.method, path)
        if (stranger := self._stranger(exchange)) is not None:
            await exchange.json([stranger], codes.http_status([stranger], 200))
        elif fault == ERROR:
            said = codes.line(
                codes.ERROR, MODIFY, RSC, codes.OTHER, "An unknown error", ("6A1B-0000-000000",)
            )
            await exchange.json([said], 500)
        elif fault == PROXY:
            await exchange.answer(502, b"<html>Bad Gateway</html>", content_type="text/html")
        elif fault == HANG_BEFORE:
            await exchange.hang()
        elif path.startswith("/v1/events/"):
            await self._stream(exchange, path)
        else:
            if self.satellites is not None and exchange.method == "GET":
                await self.satellites(path, self.world)
            status, body = self._do(exchange, path)
            if fault == HANG_AFTER:
                await exchange.hang()
            elif fault == CUT_AFTER:
                exchange.reset()
            else:
                await exchange.json(body, status)

    def _stranger(self, exchange: Exchange) -> codes.Line | None:
        """Return what is said to who is not known."""
        shown = exchange.headers.get("authorization", "")
        if shown == f"Bearer {self.token}" or not self.token:
            return None
        if not shown:
            text = "Login required but no 'Authorization' header given."
            return codes.line(codes.ERROR, 0, 0, codes.MISSING_CREDENTIALS, text)
        return codes.line(codes.ERROR, 0, 0, codes.SIGN_IN, "Login failed")

    def _fault(self, method: str, path: str) -> str:
        for one in self.faults:
            if one.times > 0 and one.method in ("", method) and one.path in path:
                one.times -= 1
                return one.kind
        return ""

    def _do(self, exchange: Exchange, path: str) -> tuple[int, Any]:
        found = routes.find(exchange.method, path)
        if found is None:
            return 404, {"message": "HTTP 404 Not Found"}
        route, parts = found
        try:
            body = json.loads(exchange.body or b"{}")
        except ValueError:
            said = codes.line(codes.ERROR, MODIFY, RSC, codes.OTHER, "Unable to parse the JSON body")
            return 400, [said]
        reads = exchange.method == "GET"
        world = self.stale if reads and self.stale is not None else self.world
        try:
            answer = route.answer(Call(world, parts, body, exchange.query))
        except Refusal as refused:
            return codes.http_status([refused.line], 0), [refused.line]
        if reads:
            return 200, answer
        self.world.writes += 1
        return codes.http_status(answer, route.success), answer

    async def _stream(self, exchange: Exchange, path: str) -> None:
        """Tell of all there is to tell now, and go on listening."""
        await exchange.raw(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        events: list[tuple[str, dict[str, Any]]]
        if path.endswith("/nodes"):
            events = [("node-state", {"node": one.name, "connection_status": one.connection})
                      for one in self.world.nodes.values()]  # fmt: skip
        else:
            events = [("may-promote-change", {"resource_name": what.name, "node_name": one.node,
                                              "may_promote": one.disk == "UpToDate"})
                      for what in self.world.definitions.values() for one in what.holders()]  # fmt: skip
        for name, data in events:
            await exchange.chunk(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
        await exchange.hang()


class Identity(NamedTuple):
    """What a Secret of a client certificate has, all PEM."""

    ca: bytes
    certificate: bytes
    key: bytes


class Tls:
    """Certificates of a controller that lets in only whom its authority knows."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert("127.0.0.1").configure_cert(self.context)
        self.authority.configure_trust(self.context)
        self.context.verify_mode = ssl.CERT_REQUIRED

    def client(self, of: trustme.CA | None = None) -> Identity:
        leaf = (of or self.authority).issue_cert("client.test", common_name="client")
        chain = leaf.cert_chain_pems[0].bytes()
        return Identity(self.authority.cert_pem.bytes(), chain, leaf.private_key_pem.bytes())


@contextlib.asynccontextmanager
async def serve(world: LinstorWorld, tls: Tls | None = None) -> AsyncIterator[Controller]:
    """Listen on loopback for the length of a test."""
    controller = Controller(world)
    async with scripted_server.serve(controller.answer, tls.context if tls else None) as server:
        controller.url = server.url
        yield controller


@contextlib.asynccontextmanager
async def redirecting(to: str) -> AsyncIterator[str]:
    """Listen where everybody is sent to another address, as port 3370 does beside TLS."""

    async def answer(exchange: Exchange) -> None:
        await exchange.answer(302, b"", location=f"{to}{exchange.target}")

    async with scripted_server.serve(answer) as server:
        yield server.url
