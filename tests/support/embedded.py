"""The embedded server on a loopback port, open to everybody: for tests of what comes after the gate."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from aiohttp import web

from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.verbs import Client
from nodemanager.kube.rbac.identity import Attributes, User
from nodemanager.server.access.authn import Peer
from nodemanager.server.http.app import ApiSettings, HttpApi
from nodemanager.server.http.gate import Gate
from nodemanager.server.hub import Hub
from nodemanager.server.kinds.builtin_kinds import BUILTIN
from nodemanager.server.kinds.eviction import Evictions
from nodemanager.server.kinds.resources import Catalogue
from nodemanager.store.base import Store
from support.clients import connected
from support.memory_store import MemoryStore

ADMIN = User("admin", ("system:masters",))


class OpenGate:
    """Lets everybody do everything, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[Attributes] = []

    def admit(self, peer: Peer, headers: Iterable[tuple[str, str]], asked: Attributes) -> User:
        return ADMIN

    def authorize(self, user: User, asked: Attributes) -> None:
        self.asked.append(asked)


@dataclass
class Embedded:
    """A running server."""

    server: str
    hub: Hub
    gate: Gate
    client: Client
    api: HttpApi

    def watching(self) -> int:
        """How many watches are open."""
        return self.api.watching

    @property
    def store(self) -> Store:
        return self.hub.store


@contextlib.asynccontextmanager
async def serving(
    store: Store | None = None, settings: ApiSettings | None = None, gate: Gate | None = None
) -> AsyncIterator[Embedded]:
    """Serve a store, by default an empty one in memory, until the end of the block."""
    hub = Hub(store or MemoryStore(), Catalogue(BUILTIN))
    gate = gate or OpenGate()
    api = HttpApi(hub, gate, settings or ApiSettings(handlers={("pods", "eviction"): Evictions()}))
    runner = web.AppRunner(api.application(), access_log=None, shutdown_timeout=2)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        server = f"http://{host}:{port}"
        async with connected(ClientConfig(server)) as client:
            yield Embedded(server, hub, gate, client, api)
    finally:
        await runner.cleanup()
