"""How much of the disk backups may use: in total, and for the files of one user.

A user who may put files where they are replaced or purged decides what is kept, and how much. So
backups of users are removed first, each at the expense of the same user: they never push out those of root.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

BLOCK: Final = 4096
"""The size of the small file beside a backup that says whose it is."""
SPARE: Final = 0.1
"""How much more is freed than needed, so that not every new backup has to look at all others."""


class Holding(NamedTuple):
    """The facts about one backup that matter for its room."""

    owner: int
    since: str
    size: int
    name: tuple[str, str]
    """Its id: digest and path."""


def room(found: os.stat_result) -> int:
    """Return the size that counts for a backup: holes count, too, because a reader has to read them."""
    return max(found.st_size, found.st_blocks * 512) + BLOCK


@dataclass(frozen=True, slots=True)
class Caps:
    """Bytes; 0 = no limit."""

    total: int = 0
    user: int = 0
    """For the files of one user other than root."""

    def refuses(self, owner: int, size: int) -> bool:
        """Tell whether a backup is too large even if it were the only one."""
        return bool((self.total and size > self.total) or (owner and self.user and size > self.user))


@dataclass(slots=True)
class Room:
    """The used room, by owner; counted once and then kept up to date."""

    caps: Caps
    _taken: dict[int, int] | None = None

    def make(self, owner: int, size: int, look: Callable[[], Iterable[Holding]]) -> list[Holding]:
        """Return what has to go so that a backup of so many bytes of a user's file fits."""
        if self._taken is None:
            self.count(look())
        taken = self._taken or {}
        caps, mine = self.caps, taken.get(owner, 0) + size
        over_own = owner and caps.user and mine > caps.user
        over_all = caps.total and sum(taken.values()) + size > caps.total
        if not over_own and not over_all:
            return []
        holdings = list(look())
        self.count(holdings)  # what was kept several times was counted as often
        return choose(holdings, owner, size, caps)

    def count(self, holdings: Iterable[Holding]) -> None:
        """Take stock."""
        taken: dict[int, int] = {}
        for one in holdings:
            taken[one.owner] = taken.get(one.owner, 0) + one.size
        self._taken = taken

    def add(self, owner: int, size: int) -> None:
        """Take note of a backup that was made, or, with a negative size, that went."""
        if self._taken is not None:
            self._taken[owner] = max(self._taken.get(owner, 0) + size, 0)


def choose(holdings: Iterable[Holding], owner: int, size: int, caps: Caps) -> list[Holding]:
    """Return which backups go, the oldest first: this user's own, then other users', root's at last."""
    oldest = sorted(holdings, key=lambda one: one.since)
    going: list[Holding] = []
    if owner and caps.user:
        own = [one for one in oldest if one.owner == owner]
        going = _free(own, size, caps.user)
    if caps.total:
        left = [one for one in oldest if one not in going]
        going += _free(sorted(left, key=lambda one: one.owner == 0), size, caps.total)
    return going


def _free(holdings: Sequence[Holding], size: int, cap: int) -> list[Holding]:
    """Return as many of these, from the first on, as have to go for room and some to spare."""
    taken, going = sum(one.size for one in holdings) + size, []
    if taken <= cap:
        return []
    for one in holdings:
        if taken <= max(cap * (1 - SPARE), size):
            break
        going.append(one)
        taken -= one.size
    return going
