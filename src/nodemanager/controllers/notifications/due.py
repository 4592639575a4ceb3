"""Which notice is due now for which receiver, and what follows from the result of a delivery. Pure.

A receiver gets its notices in order and one at a time. A notice that fails is tried again after a time
that grows, a limited number of times; then it is given up, and the status says so.
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
    """A notice for a receiver."""

    target: Notification
    notice: Notice
    delivery: Delivery
    """The progress of the receiver."""

    def at(self, now: datetime) -> datetime:
        """Return when the notice has to be delivered."""
        return times.parse(self.delivery.next_try) or now


def pending(maintenance: NodeMaintenance, told: Mapping[str, Delivery]) -> Iterator[Due]:
    """Yield the next notice for every receiver that has one."""
    for target in maintenance.spec.notify:
        delivery = told.get(target.name) or Delivery(name=target.name)
        notices = (one for one in maintenance.status.notices if target.name in one.to)
        found = next((one for one in notices if one.number > delivery.number), None)
        if found is not None:
            yield Due(target, found, delivery)


def after(due: Due, failure: str, now: datetime) -> Delivery:
    """Return the progress of a receiver after a try."""
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
    """Return the progress of each receiver: from the status, or from our write that it does not show yet.

    A removed receiver is remembered while there are notices for it, because it may come back.
    """
    found = {one.name: one for one in maintenance.status.deliveries}
    for name, one in written.items():
        if name not in found or (found[name].number, found[name].tries) < (one.number, one.tries):
            found[name] = one
    names = {target.name for target in maintenance.spec.notify}
    names |= {name for notice in maintenance.status.notices for name in notice.to}
    return {name: one for name, one in found.items() if name in names}
