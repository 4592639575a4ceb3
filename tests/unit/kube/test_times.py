"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from nodemanager.kube import times

MOMENT = datetime(2026, 3, 1, 2, 3, 4, 567890, UTC)


def test_a_time_ends_with_the_second_and_a_micro_time_with_the_microsecond() -> None:
    assert times.rfc3339(MOMENT) == "2026-03-01T02:03:04Z"
    assert times.rfc3339_micro(MOMENT) == "2026-03-01T02:03:04.567890Z"
    assert times.rfc3339_unix(MOMENT.timestamp()) == "2026-03-01T02:03:04Z"


def test_a_time_of_another_zone_is_written_in_utc() -> None:
    there = MOMENT.astimezone(timezone(timedelta(hours=2)))
    assert times.rfc3339(there) == "2026-03-01T02:03:04Z"
    assert times.rfc3339_micro(there) == "2026-03-01T02:03:04.567890Z"
