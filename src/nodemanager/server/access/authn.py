"""Authentication: from what TLS and the Authorization header say to a user.

A certificate that TLS has verified comes first; then a bearer token; then, where that is allowed,
everybody is `system:anonymous`. A wrong token is refused even where requests without a token are let in.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nodemanager.kube.rbac import identity
from nodemanager.kube.rbac.identity import User
from nodemanager.server.access.access_errors import unauthorized
from nodemanager.server.access.tokens import TokenError, Tokens

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Peer:
    """What a connection knows about its other end; both are empty without a client certificate."""

    certificate: Mapping[str, Any] | None = None
    """What `SSLSocket.getpeercert()` returns: only ever filled after verification."""
    der: bytes = field(default=b"", repr=False)
    """The same in its binary form, for the credential's id."""


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Names the sender of a request, or raises Unauthorized."""

    tokens: Tokens
    anonymous: bool = True
    """Whether those without any credential are let in, as `system:anonymous`."""

    def authenticate(self, peer: Peer, authorization: str) -> User:
        """Return the user who sent a request."""
        user = certificate_user(peer)
        if user is None:
            token = bearer_token(authorization)
            user = self._token_user(token) if token else None
        if user is not None:
            return _with_groups(user)
        if not self.anonymous:
            raise unauthorized()
        return User(identity.ANONYMOUS, (identity.UNAUTHENTICATED,))

    def _token_user(self, token: str) -> User:
        try:
            return self.tokens.verify(token).user
        except TokenError as err:
            _log.info("refused a bearer token: %s", err)
            raise unauthorized() from err


def bearer_token(authorization: str) -> str:
    """Return the token of an Authorization header; nothing for any other scheme."""
    scheme, _, rest = authorization.strip().partition(" ")
    return rest.split(" ", 1)[0] if scheme.lower() == "bearer" else ""


def certificate_user(peer: Peer) -> User | None:
    """Return the user a verified client certificate names; None without one, or without a name in it."""
    name, groups = "", []
    for relative in (peer.certificate or {}).get("subject", ()):
        for key, value in relative:
            if key == "commonName":
                name = value
            elif key == "organizationName":
                groups.append(value)
    if not name:
        return None
    extra: dict[str, tuple[str, ...]] = {}
    if peer.der:
        extra[identity.CREDENTIAL_ID] = (f"X509SHA256={hashlib.sha256(peer.der).hexdigest()}",)
    return User(name, tuple(groups), "", extra)


def _with_groups(user: User) -> User:
    """Add `system:authenticated` to every known user, as Kubernetes does."""
    if user.name == identity.ANONYMOUS or identity.UNAUTHENTICATED in user.groups:
        return user
    return user.with_group(identity.AUTHENTICATED)
