"""The facts about every request for counters and logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from aiohttp import web

from nodemanager.kube.rbac.identity import User
from nodemanager.server.http.answers import Stream
from nodemanager.server.http.routing import RequestInfo
from nodemanager.server.hub import Hub
from nodemanager.server.kinds.resources import ServedKind

Page = Callable[[web.Request], web.Response | None]
"""Answers a request for one of its own paths, and returns None for all others."""


@dataclass(slots=True)
class Observation:
    """One request: what is known of it so far. Nothing that a client sent is checked or escaped."""

    method: str
    path: str
    """The path as it was sent, without the query, which may contain secrets."""
    remote: str = ""
    user_agent: str = ""
    content_type: str = ""
    user: str = ""
    """Empty until the user is known."""
    info: RequestInfo | None = None
    kind: ServedKind | None = None
    """The kind it is about; None for paths and for kinds that are not served."""
    code: int = 500
    size: int = 0
    """Bytes of the answer's body."""
    seconds: float = 0.0
    who: User | None = None
    uri: str = ""
    """The path as it was sent, with the query: only for the audit log."""
    sent: bytes = b""
    answer: bytes = b""
    """The answer's body, unless it was large."""

    def answered(self, response: web.StreamResponse) -> None:
        """Note how it ended."""
        self.code = response.status
        if isinstance(response, Stream):
            self.size = response.sent
        elif isinstance(response, web.Response) and isinstance(response.body, bytes):
            self.size = len(response.body)
            self.answer = response.body


class RequestObserver(Protocol):
    """A listener for requests; it must be quick and must not raise."""

    def begun(self, seen: Observation) -> None:
        """An admitted request for something that is served begins."""
        ...

    def ended(self, seen: Observation) -> None:
        """A request has ended, whether it had begun (`kind` says so) or was refused before."""
        ...


class Instruments(NamedTuple):
    """What the caller adds to a server: observers of requests, and their pages."""

    observers: Sequence[RequestObserver] = ()
    pages: Sequence[Page] = ()


Instrument = Callable[[Hub], Instruments]


def observed(request: web.Request) -> Observation:
    """Return what is known of a request before it is parsed."""
    return Observation(
        request.method,
        request.rel_url.raw_path,
        _source(request),
        request.headers.get("User-Agent", ""),
        request.headers.get("Content-Type", ""),
        uri=request.path_qs,
    )


def _source(request: web.Request) -> str:
    """Return the other end of the connection; headers are not asked, as a client can write anything there."""
    peer = request.get_extra_info("peername")
    if not isinstance(peer, tuple):
        return ""
    host, port = peer[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
