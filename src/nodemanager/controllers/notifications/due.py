"""What is to be delivered now, to whom, and what follows from how that went. Pure.

Each one is told in order, and one notice at a time. What cannot be delivered is tried again after a while
that grows, a limited number of times; then it is given up, and said so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from nodemanager.api.maintenance.maintenance_status import Delivery, Notice
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.api.maintenance.notifications import Notification
from nodemanager.kube import times

MAX_TRIES: Final = 10
FIRST_RETRY: Final = timedelta(seconds=10)
LONGEST_RETRY: Final = timedelta(minutes=10)


class Due(NamedTuple):
    """A notice for somebody."""

    target: Notification
    notice: Notice
    delivery: Delivery
    """How far the target has been told."""

    def at(self, now: datetime) -> datetime:
        """Return when it is to be delivered."""
        return times.parse(self.delivery.next_try) or now


def pending(maintenance: NodeMaintenance, told: Mapping[str, Delivery]) -> Iterator[Due]:
    """Yield the next notice for everybody for whom there is one."""
    for target in maintenance.spec.notify:
        delivery = told.get(target.name) or Delivery(name=target.name)
        notices = (one for one in maintenance.status.notices if target.name in one.to)
        found = next((one for one in notices if one.number > delivery.number), None)
        if found is not None:
            yield Due(target, found, delivery)


def after(due: Due, failure: str, now: datetime) -> Delivery:
    """Return how far somebody has been told after a try."""
    name, number, dropped = due.target.name, due.notice.number, due.delivery.dropped
    if not failure:
        return Delivery(name=name, number=number, dropped=dropped)
    tries = due.delivery.tries + 1
    if tries >= MAX_TRIES:
        return Delivery(name=name, number=number, failure=failure, dropped=dropped + 1)
    pause = min(FIRST_RETRY * 2 ** (tries - 1), LONGEST_RETRY)
    return Delivery(
        name=name, number=due.delivery.number, tries=tries, next_try=times.rfc3339(now + pause),
        failure=failure, dropped=dropped,
    )  # fmt: skip


def known(maintenance: NodeMaintenance, written: Mapping[str, Delivery]) -> dict[str, Delivery]:
    """Return how far everybody has been told: as the status says, or as we wrote and it does not say yet.

    Who is not to be told any more is remembered as long as there are notices for him: he may come back.
    """
    found = {one.name: one for one in maintenance.status.deliveries}
    for name, one in written.items():
        if name not in found or (found[name].number, found[name].tries) < (one.number, one.tries):
            found[name] = one
    names = {target.name for target in maintenance.spec.notify}
    names |= {name for notice in maintenance.status.notices for name in notice.to}
    return {name: one for name, one in found.items() if name in names}
