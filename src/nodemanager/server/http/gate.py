"""The gate of the API as the HTTP core sees it; `access.gate.AccessGate` is the one that decides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from aiohttp import web

from nodemanager.kube.rbac.identity import Attributes, User
from nodemanager.server.access.authn import Peer


class Gate(Protocol):
    """Lets requests in, or raises Unauthorized or Forbidden."""

    def admit(self, peer: Peer, headers: Iterable[tuple[str, str]], asked: Attributes) -> User:
        """Return the user as whom a request is carried out; its verb matters only for impersonation."""
        ...

    def authorize(self, user: User, asked: Attributes) -> None:
        """Return if that user may do that; otherwise raise."""
        ...


def peer_of(request: web.Request) -> Peer:
    """Return what TLS verified about the other end; nothing on a plain connection."""
    tls = request.get_extra_info("ssl_object")
    if tls is None:
        return Peer()
    return Peer(tls.getpeercert() or None, tls.getpeercert(binary_form=True) or b"")
