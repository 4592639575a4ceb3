"""The events of an iCalendar (RFC 5545) as spans: public holidays, change freezes and the like.

A person who may write a ConfigMap must not be able to overload the operator, so its content is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, tzinfo
from typing import TYPE_CHECKING, Any, Final

from nodemanager.fleet.windows import wall_clock
from nodemanager.fleet.windows.spans import Span

if TYPE_CHECKING:
    from icalendar import Event

MAX_EVENTS: Final = 2000
MAX_RECURRING: Final = 200
FIRST_YEAR: Final = 1990
"""Recurring events are counted one by one from their beginning."""
_PARTS: Final = {
    "DAILY": frozenset(("BYDAY",)),
    "WEEKLY": frozenset(("BYDAY",)),
    "MONTHLY": frozenset(("BYDAY", "BYMONTHDAY", "BYMONTH", "BYSETPOS")),
    "YEARLY": frozenset(("BYDAY", "BYMONTHDAY", "BYMONTH", "BYSETPOS", "BYWEEKNO", "BYYEARDAY")),
}
"""Rules that are supported: none recurs more than daily, and none searches for days that rarely come."""


class BadCalendar(ValueError):
    """A text is no calendar, or needs too much work."""


def events(text: str, limits: Span, zone: tzinfo) -> list[Span]:
    """Return the spans of the events in a calendar; days, and times without a zone, are those of `zone`.

    Error messages do not quote the calendar: their reader may not be allowed to read it.
    """
    # 10 MiB and 0.1 s that an operator without a calendar does not pay.
    import recurring_ical_events
    from icalendar import Calendar

    try:
        calendar = Calendar.from_ical(text)
        _check(calendar.events)
        for event in calendar.events:
            _bound(event, limits.end)
        found = recurring_ical_events.of(calendar).between(limits.start, limits.end)
        return sorted(_span(event, zone) for event in found)
    except BadCalendar:
        raise
    except Exception as error:
        raise BadCalendar(
            "it is no iCalendar that can be read; see whether a calendar program opens it"
        ) from error


def _check(found: Sequence[Event]) -> None:
    recurring = [event for event in found if "RRULE" in event]
    moments = len(found) + sum(len(event.rdates) for event in found)
    if moments > MAX_EVENTS or len(recurring) > MAX_RECURRING:
        raise BadCalendar(
            f"it has {moments} events, {len(recurring)} of which recur; at most {MAX_EVENTS} and"
            f" {MAX_RECURRING} are read: split it, or remove what is over"
        )
    for event in recurring:
        if event.start.year < FIRST_YEAR:
            raise BadCalendar(f"an event recurs since before {FIRST_YEAR}: have it begin later")
        for rule in event.rrules:
            _check_rule(rule)


def _check_rule(rule: Mapping[str, Sequence[Any]]) -> None:
    often = str(next(iter(rule.get("FREQ", [])), "")).upper()
    parts = {part for part in rule if part.startswith("BY")}
    strange = parts - _PARTS.get(often, frozenset())
    # Counted days of a month or year may never come, and the search for them has no end.
    endless = "COUNT" in rule and parts and often in ("MONTHLY", "YEARLY")
    if often not in _PARTS or strange or endless:
        said = " with ".join([often or "never", *sorted(strange)])
        raise BadCalendar(f"an event recurs {said}, which is not read: {', '.join(_PARTS)} are, by days")


def _bound(event: Event, end: datetime) -> None:
    """Limit a rule to the time that is looked at: else the search for a day that never comes has no end."""
    last = end if isinstance(event.start, datetime) else end.date()
    for rule in event.rrules:
        if "COUNT" not in rule:
            known = rule.get("UNTIL", [last])[0]
            rule["UNTIL"] = [last if _later(known, last) else known]


def _later(one: date | datetime, other: date | datetime) -> bool:
    return one.timetuple() > other.timetuple()


def _span(event: Event, zone: tzinfo) -> Span:
    return Span(_moment(event.start, zone, last=False), _moment(event.end, zone, last=True))


def _moment(when: date | datetime, zone: tzinfo, *, last: bool) -> datetime:
    if isinstance(when, datetime):
        if when.tzinfo is not None:
            return when.astimezone(UTC)
        return wall_clock.moment(when.date(), when.time(), zone, last=last)
    return wall_clock.moment(when, time(), zone, last=last)
