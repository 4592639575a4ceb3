"""A proxy in front of a real API that lets tokens live for seconds: the API issues none for less than 600.

A host has tokens of the proxy, which stand for tokens of the API. Everything else is the API's: whether a
token is issued, to whom, and what it is good for. Every request is looked at for a token that has expired.

    async with shortened(config, life=60, age=42) as proxy:
        proxy.hand_over(path)              # the kubeconfig of a host, from now on by way of the proxy
        proxy.cut(); ...; proxy.mend()     # the API is away, and back
        assert proxy.expired == []
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import trustme
import yaml
from aiohttp import web

from nodemanager.client.auth.config import ClientConfig
from support.connector import Connector
from support.cutting import abort
from support.server_process import trust

KEY = "only the proxy looks at the signature, by looking the token up"
HOP = ("connection", "keep-alive", "transfer-encoding", "content-length", "host", "content-encoding")


class TokenProxy:
    """Stands between a host and an API."""

    def __init__(self, config: ClientConfig, life: float, age: float) -> None:
        self.config = config
        self.life = life
        self.age = age
        """How old tokens are when a host gets them: they are due soon, and a busy machine still has time."""
        self.ca = trustme.CA()
        self.url = ""
        self.real: dict[str, str] = {}
        """Tokens of the API, by those of ours that stand for them."""
        self.issued: list[str] = []
        """Ours, in their order."""
        self.requests = 0
        self.turned_away = 0
        """Requests that came while the API was away."""
        self.expired: list[str] = []
        """Requests that came with a token that had expired."""
        self.up = True
        self._transports: set[asyncio.Transport] = set()

    def mint(self, real: str, life: float | None = None, age: float | None = None) -> str:
        """Return a token for one of the API."""
        claims = jwt.decode(real, options={"verify_signature": False})
        now = time.time() - (self.age if age is None else age)
        ours = {
            "iat": now,
            "exp": now + (self.life if life is None else life),
            "sub": claims["sub"],
            "jti": uuid.uuid4().hex,
        }
        token = jwt.encode(ours, KEY, "HS256")
        self.real[token] = real
        self.issued.append(token)
        return token

    def hand_over(self, path: Path, **options: float) -> None:
        """Change the kubeconfig of a host: the proxy is its API, and it has a token of the proxy's."""
        document = yaml.safe_load(path.read_text())
        pem = base64.b64encode(self.ca.cert_pem.bytes()).decode()
        document["clusters"][0]["cluster"] = {"server": self.url, "certificate-authority-data": pem}
        user = document["users"][0]["user"]
        user["token"] = self.mint(user["token"], **options)
        path.write_text(yaml.safe_dump(document))

    def cut(self) -> None:
        """Reset every connection, and refuse new ones."""
        self.up = False
        for transport in self._transports:
            abort(transport)
        self._transports.clear()

    def mend(self) -> None:
        """Let requests through again."""
        self.up = True

    async def handle(self, request: web.Request, session: aiohttp.ClientSession) -> web.StreamResponse:
        """Judge a request, and pass it on."""
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        claims = jwt.decode(token, options={"verify_signature": False})
        if time.time() >= claims["exp"]:
            self.expired.append(f"{request.method} {request.path_qs}")
        if not self.up:
            self.turned_away += 1
            abort(transport)
            raise web.HTTPServiceUnavailable
        self._transports.add(transport)
        self.requests += 1
        if token not in self.real or time.time() >= claims["exp"]:
            raise web.HTTPUnauthorized
        return await self._forward(request, session, self.real[token])

    async def _forward(
        self, request: web.Request, session: aiohttp.ClientSession, real: str
    ) -> web.StreamResponse:
        headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP}
        headers |= {"Authorization": f"Bearer {real}", "Accept-Encoding": "identity"}
        body = await request.read()
        async with session.request(
            request.method, self.config.server + request.path_qs, headers=headers, data=body or None
        ) as answer:
            if request.path.endswith("/token") and answer.status == 201:
                found: Any = await answer.json()
                found["status"]["token"] = self.mint(found["status"]["token"])
                return web.Response(body=json.dumps(found), status=201, content_type="application/json")
            kept = {key: value for key, value in answer.headers.items() if key.lower() not in HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            with contextlib.suppress(ConnectionResetError):  # the host has gone, or was cut off
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
            return response


@contextlib.asynccontextmanager
async def shortened(config: ClientConfig, life: float, age: float) -> AsyncIterator[TokenProxy]:
    """Listen on loopback, in front of an API."""
    proxy = TokenProxy(config, life, age)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    proxy.ca.issue_cert("127.0.0.1").configure_cert(context)
    connector, forever = Connector(ssl=trust(config)), aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=forever) as session:

        async def handle(request: web.Request) -> web.StreamResponse:
            return await proxy.handle(request, session)

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        proxy.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield proxy
        finally:
            proxy.cut()
            await runner.cleanup()
