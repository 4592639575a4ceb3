"""Schedules as manifests hold them: cron's five fields, and what the Go project allows besides.

6 fields have a year at the end; 7 have seconds at the beginning, too; or it is a name such as @daily. Pure,
so that every clock change can be tried.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

NAMES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MAX_TEXT: Final = 256
"""Longest schedule that is looked at, as in the schema."""
_SECOND: Final = timedelta(seconds=1)
_YEARS: Final = range(1970, 2100)
_FOREIGN: Final = re.compile(r"[^ -~\t\n\f\r]|/[0-9]{10}")
_YEAR: Final = re.compile(r"(?:\*|([0-9]{4})(?:-([0-9]{4}))?)(?:/([0-9]+))?")
_DAY: Final = re.compile(
    r"\b(SUN|MON|TUE|WED|THU|FRI|SAT)(?:DAY|SDAY|NESDAY|RSDAY|URDAY)?(?=L\b|#|\b)", re.IGNORECASE
)
_MONTH: Final = re.compile(
    r"\b(JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)"
    r"(?:UARY|RUARY|CH|IL|E|Y|UST|TEMBER|OBER|EMBER)?\b",
    re.IGNORECASE,
)
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


class ScheduleError(ValueError):
    """A schedule cannot be read, or names no moment at all."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule that was understood; `parse` makes one."""

    text: str
    fields: str
    """Five fields, or six with seconds first, as cronsim takes them."""
    years: frozenset[int] | None = None

    def first(self, start: datetime, zone: tzinfo) -> datetime | None:
        """Return the first slot at or after a moment, in UTC; None if there is none any more.

        A slot in the hour that a clock change leaves out is at the end of that hour; in an hour that
        comes twice, the first one counts.
        """
        begin = start if start.microsecond == 0 else start.replace(microsecond=0) + _SECOND
        while (slot := self._next(begin, zone)) is not None:
            year = slot.astimezone(zone).year
            if self.years is None or year in self.years:
                return slot
            later = [one for one in self.years if one > year]
            if not later:
                return None
            begin = datetime(min(later), 1, 1, tzinfo=zone).astimezone(UTC)
        return None

    def _next(self, begin: datetime, zone: tzinfo) -> datetime | None:
        from cronsim import CronSim  # half a MiB that hosts without a schedule do without

        # It names what comes after a moment. And in an hour that comes twice, what has been already.
        slots = (slot.astimezone(UTC) for slot in CronSim(self.fields, (begin - _SECOND).astimezone(zone)))
        return next((slot for slot in slots if slot >= begin), None)


def parse(text: str) -> Schedule:
    """Read a schedule; raise ScheduleError that says what to write instead."""
    if len(text) > MAX_TEXT:
        raise ScheduleError(f"cannot read schedule {text[:20]!r}...: longer than {MAX_TEXT} characters")
    if _FOREIGN.search(text):
        raise ScheduleError(f"cannot read schedule {text!r}: it has characters that no schedule has")
    fields = NAMES.get(text.strip().lower(), text).replace("?", "*").split()
    seconds = years = ""
    if len(fields) == 7:
        seconds, *fields, years = fields
    elif len(fields) == 6:
        *fields, years = fields
    if len(fields) != 5:
        known = ", ".join(NAMES)
        raise ScheduleError(
            f"cannot read schedule {text!r}: it has {len(text.split())} fields; write 5 (minute hour day"
            f' month weekday), 6 (and a year) or 7 (seconds first), such as "30 3 * * 0", or one of {known}'
        )
    fields[3] = _MONTH.sub(lambda found: found[1], fields[3])
    fields[4] = _DAY.sub(lambda found: str(_DAYS.index(found[1].upper())), fields[4])
    if "W" in fields[2].upper().replace("LW", ""):
        raise ScheduleError(
            f'cannot read schedule {text!r}: a working day near a date ("{fields[2]}") is not known here;'
            ' write "LW" for the last one of a month, or a weekday such as "1#1" for the first Monday'
        )
    if seconds not in ("", "0"):
        fields.insert(0, seconds)
    from cronsim import CronSim, CronSimError

    try:
        CronSim(" ".join(fields), datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise ScheduleError(
            f"cannot read schedule {text!r}: {str(error).lower()} field;"
            " fields are minute hour day month weekday"
        ) from error
    return Schedule(text, " ".join(fields), None if years in ("", "*") else _parse_years(years, text))


def _parse_years(field: str, text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        term = _YEAR.fullmatch(part)
        low, high, step = (int(one) if one else None for one in term.groups()) if term else (0, 0, 0)
        first = _YEARS[0] if low is None else low
        last = high or (_YEARS[-1] if step or low is None else first)
        first, last = min(first, last), max(first, last)
        if step == 0 or first not in _YEARS or last not in _YEARS:
            raise ScheduleError(
                f"cannot read schedule {text!r}: {part!r} is no year from {_YEARS[0]} to {_YEARS[-1]}"
            )
        found.update(range(first, last + 1, step or 1))
    return frozenset(found)
