"""How many requests are worked on at a time: a limit for all users, and a share of what is free for each.

    a user may start one more if:  taken < limit  and  own < SHARE * (limit - taken)

A user who takes as many as possible and keeps them gets three quarters of the limit; the next one who does
the same gets three quarters of the rest. So no user can lock all others out, no share is reserved for users
who are absent, and no list of users is needed.
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
"""The bits of an IPv6 address that name a network: its owner chooses the other bits freely."""


class ConcurrencyLimit:
    """The limit of one sort of requests: reads, writes or watches."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: Counter[str] = Counter()
        self.taken = 0

    @contextlib.contextmanager
    def take(self, who: str, *, exempt: bool = False) -> Iterator[None]:
        """Count a request while it is worked on, or raise TooManyRequests; exempt users are never refused."""
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
    """Tell whether a user is never refused: an administrator must get in when others take everything."""
    return MASTERS in user.groups


def claimant(user: User, address: str | None) -> str:
    """Return whose share a request uses: the user's, or the address's if the user is anonymous."""
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
