"""The times of a wall clock as moments, also in the two nights in which the clock changes.

spring   02:30 does not exist: it counts as the moment of the change, which is 03:00
autumn   02:30 comes twice: the first one begins something, the second one ends it
"""

from __future__ import annotations

import functools
import zoneinfo
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import Enum

_STEP = timedelta(seconds=1)


class UnknownZone(ValueError):
    """There is no time zone of that name."""


class ClockReading(Enum):
    """How often a wall clock shows a time on one day."""

    ONCE = "once"
    NEVER = "never"
    TWICE = "twice"


@functools.lru_cache(maxsize=64)
def zone(name: str) -> tzinfo:
    """Return a time zone by its name in the IANA database."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise UnknownZone(
            f'there is no time zone "{name}": write one of the IANA database, such as Europe/Paris or UTC'
        ) from None


def moment(day: date, at: time, where: tzinfo, *, last: bool = False) -> datetime:
    """Return when the clock shows a time on a day; if it shows it twice, the first or the last moment."""
    local = datetime.combine(day, at, where)
    match shown(local):
        case ClockReading.ONCE:
            return local.astimezone(UTC)
        case ClockReading.TWICE:
            return local.replace(fold=int(last)).astimezone(UTC)
        case ClockReading.NEVER:
            return _change(local)


def shown(local: datetime) -> ClockReading:
    """Tell how often the clock shows this time on this day."""
    early, late = (local.replace(fold=fold).utcoffset() for fold in (0, 1))
    if early == late:
        return ClockReading.ONCE
    there_and_back = local.replace(fold=0).astimezone(UTC).astimezone(local.tzinfo)
    same = there_and_back.replace(tzinfo=None, fold=0) == local.replace(tzinfo=None, fold=0)
    return ClockReading.TWICE if same else ClockReading.NEVER


def _change(local: datetime) -> datetime:
    """Return the moment of the clock change that leaves out a time, to the second."""
    before, after = (local.replace(fold=fold).astimezone(UTC) for fold in (1, 0))
    offset = before.astimezone(local.tzinfo).utcoffset()
    while after - before > _STEP:
        middle = before + (after - before) // 2
        middle = middle.replace(microsecond=0)
        if middle in (before, after):
            break
        if middle.astimezone(local.tzinfo).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after
