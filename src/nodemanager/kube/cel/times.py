"""Timestamps and durations: reading, writing, arithmetic, and the parts of a date in a time zone."""

from __future__ import annotations

import re
import zoneinfo
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any

from nodemanager.kube.cel.errors import CelError
from nodemanager.kube.cel.values import INT_MAX, INT_MIN, CelDuration, Timestamp
from nodemanager.kube.go import durations

SECOND = 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MIN_NANOS = -62135596800 * SECOND
_MAX_NANOS = 253402300799 * SECOND + 999_999_999
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:([Zz])|([+-])([0-9]{2}):([0-9]{2}))"
)
_OFFSET = re.compile(r"([+-]?)([0-9]{1,2}):([0-9]{2})")
_MAX_TEXT = 128


def duration(nanos: int) -> CelDuration:
    """Return a duration, or fail when 64 bits do not hold it."""
    if INT_MIN <= nanos <= INT_MAX:
        return CelDuration(nanos)
    raise CelError("integer overflow")


def timestamp(nanos: int, offset: int = 0) -> Timestamp:
    """Return a timestamp, or fail outside the years 1 to 9999."""
    if _MIN_NANOS <= nanos <= _MAX_NANOS:
        return Timestamp(nanos, offset)
    raise CelError("timestamp overflow")


def parse_duration(text: str) -> CelDuration:
    """Read a duration as Go does: "1h30m", "-1.5s", "0"."""
    try:
        return CelDuration(durations.nanoseconds(text))
    except ValueError:
        raise CelError(f'time: invalid duration "{text[:_MAX_TEXT]}"') from None


def parse_timestamp(text: str) -> Timestamp:
    """Read a timestamp of RFC 3339."""
    found = _RFC3339.fullmatch(text) if len(text) <= _MAX_TEXT else None
    try:
        if found is None:
            raise ValueError("no match")
        year, month, day, hour, minute, second = (int(found[part]) for part in range(1, 7))
        when = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise CelError(
            f'parsing time "{text[:_MAX_TEXT]}" as "2006-01-02T15:04:05Z07:00": cannot parse'
        ) from None
    nanos = _nanos(when) + int((found[7] or "0")[:9].ljust(9, "0"))
    offset = 0
    if found[9]:
        hours, minutes = int(found[10]), int(found[11])
        if hours > 24 or minutes > 60:
            raise CelError(f'parsing time "{text}": time zone offset out of range')
        offset = (hours * 60 + minutes) * (-60 if found[9] == "-" else 60)
    return timestamp(nanos - offset * SECOND, offset)


def parse_date(text: str) -> Timestamp:
    """Read a date such as 2026-01-31 as the beginning of that day in UTC."""
    try:
        if len(text) != 10:
            raise ValueError(text)
        day = date.fromisoformat(text)
    except ValueError:
        raise CelError(f"Invalid date formatted string {text[:_MAX_TEXT]}") from None
    return Timestamp(_nanos(datetime(day.year, day.month, day.day, tzinfo=UTC)))


def _nanos(when: datetime) -> int:
    span = when - _EPOCH
    return (span.days * 86400 + span.seconds) * SECOND + span.microseconds * 1000


def format_timestamp(value: Timestamp) -> str:
    """Write a timestamp as RFC 3339 in the offset it came with, with as many digits as it needs."""
    seconds, nanos = divmod(value.nanos + value.offset * SECOND, SECOND)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    text = text.rjust(19, "0")  # strftime leaves out leading zeros of early years
    hours, minutes = divmod(abs(value.offset) // 60, 60)
    zone_text = f"{'-' if value.offset < 0 else '+'}{hours:02d}:{minutes:02d}" if value.offset else "Z"
    return text + (f".{nanos:09d}".rstrip("0") if nanos else "") + zone_text


def format_duration(value: CelDuration) -> str:
    """Write a duration as seconds, such as "5400s" or "0.25s"."""
    seconds, nanos = divmod(abs(value.nanos), SECOND)
    text = f"{seconds}" + (f".{nanos:09d}".rstrip("0") if nanos else "")
    return ("-" if value.nanos < 0 else "") + text + "s"


def zone(name: str) -> tzinfo:
    """Return the time zone of a name ("Europe/Berlin") or an offset ("-08:00")."""
    if offset := _OFFSET.fullmatch(name):
        span = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        if span < timedelta(days=1):
            return timezone(-span if offset[1] == "-" else span)
    if name in ("", "UTC"):
        return UTC
    try:
        return zoneinfo.ZoneInfo(name[:_MAX_TEXT])
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise CelError(f"unknown time zone {name[:_MAX_TEXT]}") from None


def local(value: Timestamp, name: str = "UTC") -> datetime:
    """Return a timestamp as a date in a time zone."""
    try:
        return (_EPOCH + timedelta(seconds=value.nanos // SECOND)).astimezone(zone(name))
    except OverflowError:
        raise CelError("timestamp overflow") from None


_PARTS: dict[str, Any] = {
    "getFullYear": lambda when: when.year,
    "getMonth": lambda when: when.month - 1,
    "getDate": lambda when: when.day,
    "getDayOfMonth": lambda when: when.day - 1,
    "getDayOfWeek": lambda when: when.isoweekday() % 7,
    "getDayOfYear": lambda when: when.timetuple().tm_yday - 1,
    "getHours": lambda when: when.hour,
    "getMinutes": lambda when: when.minute,
    "getSeconds": lambda when: when.second,
}
DATE_PARTS = tuple(_PARTS)
"""The functions that read one part of a date."""


def date_part(part: str, value: Timestamp, name: str = "UTC") -> int:
    """Return one part of a date in a time zone."""
    found: int = _PARTS[part](local(value, name))
    return found
