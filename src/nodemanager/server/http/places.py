"""Places for requests that are worked on: so many for all, and for each user a share of those that are left.

    may take one:  under the limit, and  own < SHARE * (limit - taken)

Who takes all that can be had, and holds on to it, gets three quarters; the next one who does so, three
quarters of what that leaves. So nobody keeps everybody else out, nothing is reserved for those who are not
there, and nobody has to say beforehand who there is.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections import Counter
from collections.abc import Iterator
from typing import Final

from nodemanager.kube import errors
from nodemanager.kube.rbac.identity import ANONYMOUS, MASTERS, User

SHARE: Final = 3
NETWORK: Final = 64
"""Bits of an IPv6 address that are somebody's own: the rest can be chosen at will."""


class Places:
    """The places of one kind."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: Counter[str] = Counter()
        self.taken = 0

    @contextlib.contextmanager
    def take(self, who: str, *, exempt: bool = False) -> Iterator[None]:
        """Hold a place, or raise TooManyRequests; whoever is exempt gets one in any case."""
        free = self._limit - self.taken
        if not exempt and (free <= 0 or self._held[who] >= SHARE * free):
            raise _too_many()
        self.taken += 1
        self._held[who] += 1
        try:
            yield
        finally:
            self.taken -= 1
            self._held[who] -= 1
            if not self._held[who]:
                del self._held[who]


def is_exempt(user: User) -> bool:
    """Tell whether somebody is never turned away: who could put an end to it if others take everything."""
    return MASTERS in user.groups


def claimant(user: User, address: str | None) -> str:
    """Return whose share a request counts for: its user's; of those without a name, their address's."""
    if user.name != ANONYMOUS:
        return f"user {user.name}"
    try:
        found = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return "address unknown"
    if found.version == 4:
        return f"address {found}"
    return f"network {ipaddress.ip_network((found, NETWORK), strict=False)}"


def _too_many() -> errors.TooManyRequests:
    details = errors.StatusDetails(retry_after_seconds=1)
    return errors.TooManyRequests("too many requests, please try again later", details=details)
