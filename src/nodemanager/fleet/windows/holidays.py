"""The events of an iCalendar (RFC 5545), as spans: public holidays, change freezes, whatever people keep.

Whoever may write a ConfigMap must not be able to keep the operator busy: what it may contain is bounded.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, tzinfo
from typing import TYPE_CHECKING, Final

from nodemanager.fleet.windows import wall_clock
from nodemanager.fleet.windows.spans import Span

if TYPE_CHECKING:
    from icalendar import Calendar, Event

MAX_EVENTS: Final = 2000
MAX_RECURRING: Final = 200
_OFTEN: Final = frozenset(("SECONDLY", "MINUTELY", "HOURLY"))


class BadCalendar(ValueError):
    """A text is no calendar, or one that asks for too much."""


def events(text: str, limits: Span, zone: tzinfo) -> list[Span]:
    """Return when something is in a calendar; days, and times without a zone, are those of `zone`."""
    # Ten MiB and a tenth of a second that nobody pays who has no calendar.
    import recurring_ical_events
    from icalendar import Calendar

    try:
        calendar = Calendar.from_ical(text)
        _check(calendar)
        found = recurring_ical_events.of(calendar).between(limits.start, limits.end)
        return sorted(_span(event, zone) for event in found)
    except BadCalendar:
        raise
    except Exception as error:
        raise BadCalendar(f"it is no iCalendar that can be read: {error}") from error


def _check(calendar: Calendar) -> None:
    found = calendar.events
    recurring = [event for event in found if "RRULE" in event]
    if len(found) > MAX_EVENTS or len(recurring) > MAX_RECURRING:
        raise BadCalendar(
            f"it has {len(found)} events, {len(recurring)} of which recur; at most {MAX_EVENTS} and"
            f" {MAX_RECURRING} are read: split it, or remove what is over"
        )
    for event in recurring:
        often = {str(freq).upper() for rule in event.rrules for freq in rule.get("FREQ", [])} & _OFTEN
        if often:
            raise BadCalendar(
                f'event "{event.get("SUMMARY", "")}" recurs {often.pop()}: DAILY is the most that is read'
            )


def _span(event: Event, zone: tzinfo) -> Span:
    return Span(_moment(event.start, zone, last=False), _moment(event.end, zone, last=True))


def _moment(when: date | datetime, zone: tzinfo, *, last: bool) -> datetime:
    if isinstance(when, datetime):
        if when.tzinfo is not None:
            return when.astimezone(UTC)
        return wall_clock.moment(when.date(), when.time(), zone, last=last)
    return wall_clock.moment(when, time(), zone, last=last)
