"""When maintenance may happen: the fields that MaintenanceWindow has, and other kinds may have inline.

open = (always | a schedule's opening) and not excluded and between validFrom and validUntil
"""

from __future__ import annotations

from typing import Annotated, Final

from nodemanager.api.schedule_rules import SCHEDULE
from nodemanager.kube.hints import DURATION, DURATION_MAX, NAME_MAX, POSITIVE_DURATION, PRINTABLE, Rule, meta
from nodemanager.kube.objects import Struct

FINISH_HOST: Final = "finishHost"
STOP: Final = "stop"
ABORT: Final = "abortAndUndo"
LONGEST: Final = "168h"
"""The longest opening of one schedule: a week. A longer one needs `always`."""

_DAY: Final = "(?i)^(mon(day)?|tue(sday)?|wed(nesday)?|thu(rsday)?|fri(day)?|sat(urday)?|sun(day)?)$"
_TIME: Final = "^([01][0-9]|2[0-3]):[0-5][0-9]$"
_TIME_OR_END: Final = "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"
_DATE: Final = "^([0-9]{4}-)?(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
_WHOLE_DATE: Final = "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
_ZONE: Final = Rule(
    # An unknown name is an error of the function, and so of the rule.
    "self == '' || timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0",
    "must be a time zone of the IANA database, such as Europe/Paris or UTC",
)
_LONG = Rule(f"duration(self) <= duration('{LONGEST}')", f"must be at most {LONGEST}: a week")


def _zone(description: str) -> object:
    return meta(description, _ZONE, max_length=64, pattern="^[A-Za-z0-9_+/-]*$")


class WindowSchedule(Struct):
    """When a window opens, again and again, and for how long."""

    weekdays: Annotated[
        list[Annotated[str, meta("Mon, Tue, Wed, Thu, Fri, Sat or Sun.", pattern=_DAY, max_length=9)]],
        meta(
            "Days on which it opens; the day of the opening counts, also if it closes on the next one. "
            "Empty: every day. Goes with start.",
            max_items=7,
        ),
    ] = []
    start: Annotated[
        str,
        meta(
            "When it opens on each of these days, such as 06:00. A time that a change of the clock leaves "
            "out counts as the moment of the change; of a time that comes twice, the first one counts.",
            pattern=f"^$|{_TIME}",
            max_length=5,
        ),
    ] = ""
    cron: Annotated[
        str,
        meta(
            'Instead of weekdays and start: when it opens, as in a crontab, such as "0 2 1 * *".',
            *SCHEDULE,
            max_length=256,
        ),
    ] = ""
    duration: Annotated[
        str,
        meta(
            f"How long it stays open from then on, such as 3h; at most {LONGEST}. It is time that passes, so "
            "that on a night with a change of the clock it closes at another hour.",
            POSITIVE_DURATION,
            _LONG,
            max_length=DURATION_MAX,
            required=True,
        ),
    ] = ""
    time_zone: Annotated[str, _zone("Where start or cron is meant; default: timeZone of the window.")] = ""


class CalendarReference(Struct):
    """An iCalendar in a ConfigMap of the same namespace, such as the public holidays of a country."""

    name: Annotated[str, meta("Name of the ConfigMap.", max_length=NAME_MAX, min_length=1, required=True)] = (
        ""
    )
    key: Annotated[str, meta("Its key; default: calendar.ics.", max_length=NAME_MAX)] = ""


class WindowExclusion(Struct):
    """Time in which a window is shut, whatever its schedules say: where all of what is given here is true."""

    name: Annotated[
        str, meta("What it is for, such as peak period; shown to people.", max_length=128, pattern=PRINTABLE)
    ] = ""
    weekdays: Annotated[
        list[Annotated[str, meta("Mon, Tue, Wed, Thu, Fri, Sat or Sun.", pattern=_DAY, max_length=9)]],
        meta("Only on these days, from midnight to midnight.", max_items=7),
    ] = []
    dates: Annotated[
        list[
            Annotated[str, meta("Such as 2026-12-24; or 12-24, in every year.", pattern=_DATE, max_length=10)]
        ],
        meta("Only on these days.", max_items=366),
    ] = []
    first_date: Annotated[
        str, meta("Only from this day on, such as 2026-12-20.", pattern=f"^$|{_WHOLE_DATE}", max_length=10)
    ] = ""
    last_date: Annotated[
        str, meta("Only until this day, which is included.", pattern=f"^$|{_WHOLE_DATE}", max_length=10)
    ] = ""
    start: Annotated[
        str, meta("Only from this time of the day on, such as 11:00.", pattern=f"^$|{_TIME}", max_length=5)
    ] = ""
    end: Annotated[
        str,
        meta(
            "Only until this time of the day, such as 14:00; up to 24:00. One that is not after start is of "
            "the next day.",
            pattern=f"^$|{_TIME_OR_END}",
            max_length=5,
        ),
    ] = ""
    calendar: Annotated[
        CalendarReference | None,
        meta("Instead of the other fields: the time of all events of a calendar.", atomic=True),
    ] = None
    time_zone: Annotated[str, _zone("Where days and times are meant; default: timeZone of the window.")] = ""


_ONE_WAY = Rule(
    "(has(self.cron) && self.cron != '') != (has(self.start) && self.start != '')",
    "must have either start (with weekdays) or cron",
)
_DAYS_OF_START = Rule(
    "!has(self.cron) || self.cron == '' || !has(self.weekdays) || size(self.weekdays) == 0",
    "must not have weekdays beside cron: write the days into cron",
    ".weekdays",
)
_CALENDAR_ALONE = Rule(
    "!has(self.calendar) || !(has(self.weekdays) || has(self.dates) || has(self.firstDate)"
    " || has(self.lastDate) || has(self.start) || has(self.end))",
    "must not have other fields beside calendar: write a second exclusion",
    ".calendar",
)
_SOMETHING = Rule(
    "has(self.calendar) || has(self.weekdays) || has(self.dates) || has(self.firstDate) || has(self.lastDate)"
    " || has(self.start) || has(self.end)",
    "says no time: add weekdays, dates, firstDate, lastDate, start, end or calendar",
)
_DATES_IN_ORDER = Rule(
    "!has(self.firstDate) || !has(self.lastDate) || self.firstDate == '' || self.lastDate == ''"
    " || self.firstDate <= self.lastDate",
    "must not be after lastDate",
    ".firstDate",
)
WINDOW_RULES: Final = (
    Rule(
        "(has(self.always) && self.always) != (has(self.schedules) && size(self.schedules) > 0)",
        "must have either schedules or always: true; without a window nothing is done, so that always has"
        " to be written down",
    ),
    Rule(
        "!has(self.validFrom) || !has(self.validUntil) || self.validFrom < self.validUntil",
        "must be before validUntil",
        ".validFrom",
    ),
)


class WindowSpec(Struct):
    """When maintenance may happen."""

    always: Annotated[bool, meta("Open at all times but the excluded ones.")] = False
    schedules: Annotated[
        list[Annotated[WindowSchedule, meta("One schedule.", _ONE_WAY, _DAYS_OF_START)]],
        meta("When it opens; where several are open, it closes with the last.", max_items=16),
    ] = []
    exclude: Annotated[
        list[
            Annotated[WindowExclusion, meta("One exclusion.", _CALENDAR_ALONE, _SOMETHING, _DATES_IN_ORDER)]
        ],
        meta("When it is shut all the same.", max_items=32),
    ] = []
    time_zone: Annotated[str, _zone("For schedules and exclusions that name none; default: UTC.")] = ""
    valid_from: Annotated[str | None, meta("Shut before this moment.", format="date-time", max_length=64)] = (
        None
    )
    valid_until: Annotated[
        str | None, meta("Shut from this moment on.", format="date-time", max_length=64)
    ] = None
    minimum_time_left: Annotated[
        str,
        meta(
            "Nothing is started with less time left than this, such as 20m.",
            DURATION,
            max_length=DURATION_MAX,
        ),
    ] = ""
    on_close: Annotated[
        str,
        meta(
            "What becomes of hosts that are being worked on when it closes: finishHost (default) lets them "
            "be finished; stop ends after the step that runs; abortAndUndo undoes what was done.",
            enum=(FINISH_HOST, STOP, ABORT),
        ),
    ] = ""
