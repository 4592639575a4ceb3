"""What one process has itself seen of the hosts of a rollout, by its own clock.

It is lost with the process, and it decides only how much time a host is given. Hosts report when
something happened, too, but by clocks of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from nodemanager.api.common.rollout import RolloutStatus


class Witness(NamedTuple):
    """What was seen, of one rollout."""

    rollout: tuple[str, str | None] = ("", None)
    """The digest and the beginning of the rollout."""
    whole: bool = False
    """Whether the process saw the rollout from its beginning."""
    proven: frozenset[str] = frozenset()
    """Hosts that were healthy or put off at the last look."""
    relapsed: Mapping[str, datetime] = {}
    """Hosts that were healthy or put off before, and since when they are not."""
    calm: frozenset[str] = frozenset()
    """Hosts that had no trouble at some look."""


NOTHING: Final = Witness()


def of(known: Witness, status: RolloutStatus) -> Witness:
    """Return what is known about a rollout: nothing, if it is another one."""
    rollout = (status.next.digest if status.next else "", status.started_at)
    if known.rollout == rollout:
        return known
    return Witness(rollout, whole=status.stage == 0 and status.threshold == 0)


def after(
    known: Witness, proven: Iterable[str], unproven: Iterable[str], calm: Iterable[str], now: datetime
) -> Witness:
    """Return what is known after one more look."""
    before = known.relapsed
    relapsed = {one: before.get(one, now) for one in unproven if one in before or one in known.proven}
    return known._replace(proven=frozenset(proven), relapsed=relapsed, calm=known.calm.union(calm))
