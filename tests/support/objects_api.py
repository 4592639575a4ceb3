"""A Kubernetes API of few words on a real socket: it serves, for reading, what a test puts into it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from support import scripted_server
from support.scripted_server import Exchange


@dataclass
class ObjectsApi:
    """Objects by the path of their list, such as /apis/piraeus.io/v1/linstorsatellites."""

    lists: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    away: bool = False
    refuses: bool = False
    refused: str = ""
    """The end of the one path that is refused; empty: none is."""
    takes_patches: bool = False
    """Whether a patch is taken; nothing comes of it."""

    async def answer(self, exchange: Exchange) -> None:
        path = urlsplit(exchange.target).path
        self.asked.append(f"{exchange.method} {path}")
        above, _, name = path.rpartition("/")
        named = [one for one in self.lists.get(above, []) if one["metadata"]["name"] == name]
        if self.away:
            exchange.reset()
        elif self.refuses or (self.refused and path.endswith(self.refused)):
            await exchange.refuse(403, "Forbidden", "no")
        elif exchange.method == "PATCH" and self.takes_patches:
            await exchange.json({"metadata": {"name": name, "resourceVersion": "2"}})
        elif exchange.method != "GET":
            await exchange.refuse(405, "MethodNotAllowed")
        elif path in self.lists:
            await exchange.json(
                {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": self.lists[path]}
            )
        elif named:
            await exchange.json(named[0])
        else:
            await exchange.refuse(404, "NotFound", f"{path} not found")


@contextlib.asynccontextmanager
async def serve(api: ObjectsApi) -> AsyncIterator[Client]:
    """Serve what is in there, and yield a client of it."""
    async with scripted_server.serve(api.answer) as server:
        client = Client(HttpTransport(ClientConfig(server.url)))
        try:
            yield client
        finally:
            await client.close()
