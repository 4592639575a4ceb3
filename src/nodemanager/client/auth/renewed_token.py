"""A token that is replaced while it is in use, and is never sent once it has expired."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from nodemanager.client.auth.config import Anonymous, Headers
from nodemanager.client.auth.credentials import bearer_headers
from nodemanager.kube import errors
from nodemanager.kube.errors import UNREADABLE

SHARE = 0.8
"""The part of a token's life after which it is renewed."""
MARGIN = 0.05
"""The last part of its life, in which it is not sent any more."""
MAX_MARGIN = 10.0


@dataclass(frozen=True, slots=True)
class Lifetime:
    """From when to when a token is good, in Unix time."""

    issued: float
    expires: float
    subject: str = ""
    """The account that it claims to be of."""

    @property
    def due(self) -> float:
        """When to renew it."""
        return self.issued + SHARE * (self.expires - self.issued)

    @property
    def last(self) -> float:
        """When it is sent for the last time: a request takes a moment to arrive."""
        return self.expires - min(MAX_MARGIN, MARGIN * (self.expires - self.issued))


class _Claims(msgspec.Struct):
    sub: str = ""
    exp: float = 0.0
    iat: float | None = None
    nbf: float | None = None


def lifetime(token: str) -> Lifetime | None:
    """Return the lifetime that a JSON Web Token states; None for anything else. Nothing is verified."""
    claims = _claims(token)
    issued = claims.iat if claims.iat is not None else claims.nbf
    if issued is None or claims.exp <= issued:
        return None
    return Lifetime(issued, claims.exp, claims.sub)


def subject(token: str) -> str:
    """Return whose token a JSON Web Token says to be; empty for anything else. Nothing is verified."""
    return _claims(token).sub


def _claims(token: str) -> _Claims:
    parts = token.split(".")
    if len(parts) != 3:
        return _Claims()
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(payload, type=_Claims)
    except (binascii.Error, ValueError, *UNREADABLE):
        return _Claims()


class RenewedToken(Anonymous):
    """The token of a host, as of now."""

    def __init__(self, token: str, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._headers: Headers = {}
        self.token = ""
        self.life: Lifetime | None = None
        self.subject = ""
        """The account that it claims to be of."""
        self.withheld = ""
        """Why it is not sent at all; empty = it is sent."""
        self.replace(token)

    def replace(self, token: str) -> None:
        """Use another token from now on."""
        self._headers = bearer_headers(token, "the kubeconfig of this host")
        self.token, self.life, self.subject = token, lifetime(token), subject(token)

    async def headers(self) -> Headers:
        """Return the token, unless it has expired: the API would refuse it, and count us as an attacker."""
        if self.withheld:
            raise errors.ConfigError(f"cannot authenticate: {self.withheld}")
        if self.life is not None and self._clock() >= self.life.last:
            raise errors.ConfigError(
                "cannot authenticate: the token of this host has expired, as it could not be renewed in time;"
                " run nodemanager bootstrap again"
            )
        return self._headers
