"""Two servers that are asked the same: each with its own uids, revisions and times, both read as one.

What only one server can know is replaced by a symbol in the order of its first appearance (`@rv3` is the
third revision that was seen). Equal answers therefore have equal symbols, and a symbol in the next request
stands for whatever that server said. That a write changed nothing shows: its revision is an old one.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple

import aiohttp

from support.connector import Connector

AGENT = "fuzz/1.0"
JSON = "application/json"
_SYMBOL = re.compile(r"@(?:uid|rv|name|time|created|deleted|list|continue)\d*")
_UNKNOWN_UID = "00000000-0000-4000-8000-000000000000"
_TIME = "2026-01-01T00:00:00Z"
_WATCH_PATIENCE = 20.0
_WATCH_IDLE = 0.12


@dataclass(frozen=True, slots=True)
class Ask:
    """One request; symbols in it are filled in for each server."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = JSON
    accept: str = JSON

    def __str__(self) -> str:
        query = "&".join(f"{key}={value}" for key, value in self.query.items())
        body = "" if self.body is None else json.dumps(self.body)
        return f"{self.method} {self.path}?{query} [{self.content_type}] {body}"


class Answer(NamedTuple):
    """What a server said, in symbols."""

    code: int
    body: Any
    warnings: tuple[str, ...] = ()


class Symbols:
    """The names of what one server made up."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._values: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def name(self, sort: str, value: str) -> str:
        """Return the symbol of a value; the same one for the same value."""
        if (sort, value) not in self._names:
            self._counts[sort] = self._counts.get(sort, 0) + 1
            symbol = f"@{sort}{self._counts[sort]}"
            self._names[sort, value] = symbol
            self._values[symbol] = value
        return self._names[sort, value]

    def remember(self, symbol: str, value: str) -> str:
        """Let a symbol stand for a value from now on."""
        self._values[symbol] = value
        return symbol

    def filled_in(self, value: Any) -> Any:
        """Return a value with every symbol replaced by what this server said."""
        if isinstance(value, str):
            return _SYMBOL.sub(lambda match: self._values.get(match[0], _guess(match[0])), value)
        if isinstance(value, list):
            return [self.filled_in(item) for item in value]
        if isinstance(value, dict):
            return {self.filled_in(key): self.filled_in(item) for key, item in value.items()}
        return value

    def in_text(self, text: str) -> str:
        """Return a text with uids and generated names replaced by their symbols."""
        for (sort, value), symbol in self._names.items():
            if sort in ("uid", "name") and value in text:
                text = text.replace(value, symbol)
        return text


def _guess(symbol: str) -> str:
    """Return a value for a symbol that the server never used."""
    if symbol.startswith("@uid"):
        return _UNKNOWN_UID
    if symbol == "@continue":
        return ""
    return "1" if symbol.startswith(("@rv", "@list")) else _TIME if symbol[1] in "cdt" else "unknown"


class Server:
    """One of the two."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._address = address
        self.symbols = Symbols()

    def request(self, ask: Ask) -> Any:
        """Return the running request, with the symbols filled in."""
        filled = self.symbols.filled_in
        headers = {"Accept": ask.accept, "User-Agent": AGENT}
        data = None
        if ask.body is not None:
            headers["Content-Type"] = ask.content_type
            data = ask.body if isinstance(ask.body, bytes) else json.dumps(filled(ask.body)).encode()
        path = self._address + filled(ask.path)
        return self._session.request(
            ask.method, path, params=filled(dict(ask.query)), data=data, headers=headers
        )

    async def ask(self, ask: Ask) -> tuple[int, Any, list[str]]:
        """Send a request and return code, decoded body and warnings, as they came."""
        async with self.request(ask) as response:
            content = await response.read()
            if response.status == HTTPStatus.TOO_MANY_REQUESTS:  # of a kind that is just being defined
                await asyncio.sleep(0.1)
                return await self.ask(ask)
            is_json = response.content_type == JSON
            body = json.loads(content) if is_json and content else content.decode()
            return response.status, body, response.headers.getall("Warning", [])

    async def events(self, ask: Ask, found: list[Any], both: asyncio.Condition) -> None:
        """Collect the events of a watch, one by one."""
        async with self.request(ask) as response:
            async for line in response.content:
                async with both:
                    found.append(json.loads(line))
                    both.notify_all()


@dataclass(slots=True)
class Duel:
    """Both servers."""

    ours: Server
    theirs: Server

    def forget(self) -> None:
        """Begin with new symbols."""
        self.ours.symbols, self.theirs.symbols = Symbols(), Symbols()

    async def ask(self, ask: Ask) -> tuple[tuple[int, Any, list[str]], tuple[int, Any, list[str]]]:
        """Return the answers of ours and theirs, as they came."""
        ours, theirs = await asyncio.gather(self.ours.ask(ask), self.theirs.ask(ask))
        return ours, theirs

    async def watch(self, ask: Ask) -> tuple[list[Any], list[Any]]:
        """Return all events that both replay; it ends when both are equally long and silent."""
        found: tuple[list[Any], list[Any]] = ([], [])
        both = asyncio.Condition()
        watches = [
            asyncio.create_task(server.events(ask, events, both))
            for server, events in zip((self.ours, self.theirs), found, strict=True)
        ]
        try:
            async with asyncio.timeout(_WATCH_PATIENCE):
                await _silence(found, both)
        except TimeoutError:
            pass  # one has said more than the other: that is what the comparison is for
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
        return found


async def _silence(found: tuple[list[Any], list[Any]], both: asyncio.Condition) -> None:
    while True:
        try:
            async with asyncio.timeout(_WATCH_IDLE), both:
                await both.wait()
        except TimeoutError:
            if len(found[0]) == len(found[1]):
                return


@asynccontextmanager
async def duelling(ours: str, theirs: str, tls: ssl.SSLContext) -> AsyncIterator[Duel]:
    """Two servers on connections that stay open."""
    timeout = aiohttp.ClientTimeout(total=60)
    async with (
        aiohttp.ClientSession(timeout=timeout) as plain,
        aiohttp.ClientSession(timeout=timeout, connector=Connector(ssl=tls)) as secure,
    ):
        yield Duel(Server(plain, ours), Server(secure, theirs))
