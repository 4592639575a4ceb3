"""Times with microseconds: one form in the store, whatever form they came in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.server.kinds import micro_times
from nodemanager.server.kinds.builtin_kinds import BUILTIN

LEASES = next(kind for kind in BUILTIN if kind.plural == "leases")
CONFIG_MAPS = next(kind for kind in BUILTIN if kind.plural == "configmaps")
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=ZONES)  # noqa: DTZ001 - zones follow


@given(MOMENTS)
def test_the_instant_is_kept_and_written_in_utc(moment: datetime) -> None:
    lease = {"spec": {"renewTime": moment.isoformat(timespec="microseconds")}}
    micro_times.normalize(LEASES, lease)
    text = lease["spec"]["renewTime"]
    assert datetime.fromisoformat(text) == moment
    assert text == moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@pytest.mark.parametrize("rest", ["Z", ".1Z", ".1234567Z", ".123456", "+00:00", ".123456 Z"])
def test_other_precisions_are_refused(rest: str) -> None:
    why = micro_times.normalize(LEASES, {"spec": {"acquireTime": f"2026-01-01T00:00:00{rest}"}})
    assert why.endswith(f'cannot parse "{rest}" as ".000000"')


@pytest.mark.parametrize("spec", [None, [], {}, {"renewTime": 5}, {"renewTime": "x"}])
def test_what_is_no_time_is_left_to_the_schema(spec: object) -> None:
    lease = {"spec": spec}
    micro_times.normalize(LEASES, lease)
    assert lease == {"spec": spec}


def test_other_kinds_are_left_alone() -> None:
    obj = {"spec": {"renewTime": "2026-01-01T00:00:00Z"}}
    micro_times.normalize(CONFIG_MAPS, obj)
    assert obj == {"spec": {"renewTime": "2026-01-01T00:00:00Z"}}
