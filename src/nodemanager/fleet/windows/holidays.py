"""The events of an iCalendar (RFC 5545) as spans: public holidays, change freezes and the like.

A person who may write a ConfigMap must not be able to overload the operator, so its content is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import MAXYEAR, UTC, date, datetime, time, tzinfo
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
_DAYS: Final = frozenset(("BYDAY", "BYMONTHDAY", "BYWEEKNO", "BYYEARDAY"))
"""Parts that choose days; without one, the day on which an event begins is meant."""
_CYCLE: Final = {"MONTHLY": 28 * 12, "YEARLY": 28}
"""Steps after which months or years begin on the same days again, where no century interferes."""


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
            _without_days_that_never_come(event)
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


def _without_days_that_never_come(event: Event) -> None:
    """Take away rules such as 31 February; what they leave is the event itself, once.

    dateutil would look for such a day in every year up to 9999, for each of these events.
    """
    kept = [rule for rule in event.rrules if _comes(rule, event.start)]
    if len(kept) < len(event.rrules):
        del event["RRULE"]
        for rule in kept:
            event.add("RRULE", rule)


def _comes(rule: Mapping[str, Sequence[Any]], start: date) -> bool:
    """Tell whether a rule has a day at all: then it has one within one cycle, and only that is searched."""
    often = str(rule["FREQ"][0]).upper()
    if often not in _CYCLE or not any(part.startswith("BY") for part in rule):
        return True
    from dateutil.rrule import rrulestr
    from icalendar import vRecur

    looked = vRecur({part: value for part, value in rule.items() if part != "UNTIL"})
    if not _DAYS & looked.keys():
        looked["BYMONTHDAY"] = [start.day]
        if often == "YEARLY" and "BYMONTH" not in looked:
            looked["BYMONTH"] = [start.month]
    text = looked.to_ical().decode()  # type: ignore[no-untyped-call]
    late = _late(start, often, max(1, int(rule.get("INTERVAL", [1])[0])))
    return next(iter(rrulestr(text, dtstart=late)), None) is not None


def _late(start: date, often: str, interval: int) -> datetime:
    """Return the first day of the step of a rule that leaves it one cycle until the last year of all."""
    step = interval if often == "MONTHLY" else 12 * interval
    first, end = start.year * 12 + start.month - 1, (MAXYEAR + 1) * 12
    month = first + max(0, (end - first) // step - _CYCLE[often]) * step
    return datetime(month // 12, month % 12 + 1, 1)  # noqa: DTZ001  # only days are looked for


def _span(event: Event, zone: tzinfo) -> Span:
    return Span(_moment(event.start, zone, last=False), _moment(event.end, zone, last=True))


def _moment(when: date | datetime, zone: tzinfo, *, last: bool) -> datetime:
    if isinstance(when, datetime):
        if when.tzinfo is not None:
            return when.astimezone(UTC)
        return wall_clock.moment(when.date(), when.time(), zone, last=last)
    return wall_clock.moment(when, time(), zone, last=last)
