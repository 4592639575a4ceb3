"""Upgrades of a host: when it is to have them, and what it says of the next one."""

from __future__ import annotations

from typing import Annotated

from nodemanager.api.schedule_rules import SCHEDULE
from nodemanager.kube.hints import DURATION, DURATION_MAX, NAME_MAX, OBJECT_NAME, meta
from nodemanager.kube.objects import Struct


class Upgrade(Struct):
    """When the host upgrades all its packages and reboots."""

    group: Annotated[
        str,
        meta(
            "Hosts of one group upgrade one at a time; it names a Lease. Omitted = on its own.",
            OBJECT_NAME,
            max_length=NAME_MAX,
        ),
    ] = ""
    schedule: Annotated[
        str,
        meta('Cron schedule in the host\'s time zone, such as "30 3 * * 0".', *SCHEDULE, max_length=256),
    ] = ""
    delay: Annotated[
        str,
        meta(
            'Shortest time between two upgrades of this host, such as "160h".',
            DURATION,
            max_length=DURATION_MAX,
        ),
    ] = ""


class DueUpgrade(Struct):
    """A slot of spec.upgrade that has come, for which the host asks the operator."""

    slot: Annotated[str, meta("The slot.", format="date-time", required=True, max_length=64)] = ""
    until: Annotated[
        str, meta("When its window ends: from then on it is missed.", format="date-time", required=True,
                  max_length=64),
    ] = ""  # fmt: skip
    drain_timeout: Annotated[
        str,
        meta("How long draining its Node may take, as its agent was started.", DURATION,
             max_length=DURATION_MAX),
    ] = ""  # fmt: skip


class UpcomingUpgrades(Struct):
    """When the host may upgrade next, and whether it does now."""

    next_slots: Annotated[
        list[Annotated[str, meta("A moment.", format="date-time")]],
        meta("The next slots of spec.upgrade, if each of them is used.", max_items=16),
    ] = []
    started_at: Annotated[
        str | None, meta("Since when it is upgraded; absent: it is not.", format="date-time")
    ] = None
    asks: Annotated[bool, meta("Whether it leaves to the operator to begin.")] = False
    due: Annotated[
        DueUpgrade | None, meta("What it asks the operator for; absent = nothing.", atomic=True)
    ] = None
