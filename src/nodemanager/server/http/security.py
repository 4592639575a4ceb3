"""The seam between the HTTP core and authentication and authorisation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from aiohttp import web

from nodemanager.kube.rbac.identity import Attributes, User
from nodemanager.server.access.authn import Peer


class Gate(Protocol):
    """Lets requests in, or raises Unauthorized or Forbidden."""

    async def admit(self, request: web.Request, asked: Attributes) -> User:
        """Return as whom a request is carried out; what it asks for matters to impersonation only."""
        ...

    async def authorize(self, user: User, asked: Attributes) -> None:
        """Return if that user may do that; otherwise raise."""
        ...


class Door(Protocol):
    """The same without HTTP: `gate.AccessGate` is one."""

    def admit(self, peer: Peer, headers: Iterable[tuple[str, str]], asked: Attributes) -> User:
        """Return as whom a request is carried out."""
        ...

    def authorize(self, user: User, asked: Attributes) -> None:
        """Return if that user may do that; otherwise raise."""
        ...


class HttpGate:
    """A gate that reads connection and headers, and leaves the decision to a door."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def admit(self, request: web.Request, asked: Attributes) -> User:
        """Return as whom a request is carried out."""
        return self._door.admit(peer_of(request), list(request.headers.items()), asked)

    async def authorize(self, user: User, asked: Attributes) -> None:
        """Return if that user may do that; otherwise raise."""
        self._door.authorize(user, asked)


def peer_of(request: web.Request) -> Peer:
    """Return what TLS verified about the other end; nothing on a plain connection."""
    tls = request.get_extra_info("ssl_object")
    if tls is None:
        return Peer()
    return Peer(tls.getpeercert() or None, tls.getpeercert(binary_form=True) or b"")
