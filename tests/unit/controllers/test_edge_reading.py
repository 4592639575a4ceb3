"""What the bridge makes of Events, how often it looks, and the names of its rights."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from nodemanager.controllers import assembly
from nodemanager.controllers.edge_clusters import reading, reconciling
from nodemanager.kube import core, times
from nodemanager.kube.objects import ObjectMeta
from support import edge_profiles

START = datetime(2026, 3, 1, 4, 0, tzinfo=UTC)


def event(reason: str, minutes: int, message: str = "") -> core.Event:
    at = times.rfc3339(START + timedelta(minutes=minutes))
    meta = ObjectMeta(name=f"{reason}.{minutes}", creation_timestamp=times.rfc3339(START))
    about = core.ObjectReference(kind="Namespace", name="x")
    return core.Event(metadata=meta, involved_object=about, reason=reason, message=message, last_timestamp=at)


def test_the_newest_warnings_are_shown_whatever_came_first() -> None:
    """A reason that was there from the beginning, and came again just now, is news."""
    found = [
        event("Old", 0, "first"),
        *(event(f"Other{one}", one) for one in range(1, 8)),
        event("Old", 9, "again"),
    ]
    for order in (found, found[::-1]):
        shown = reading.latest(order)
        assert [one.reason for one in shown] == ["Other4", "Other5", "Other6", "Other7", "Old"]
        assert (shown[-1].message, shown[-1].at) == ("again", "2026-03-01T04:09:00Z")


def test_a_time_that_is_none_is_that_of_the_object() -> None:
    odd = msgspec.structs.replace(event("Odd", 0), last_timestamp="yesterday")
    assert [one.at for one in reading.latest([odd])] == ["2026-03-01T04:00:00Z"]
    bare = core.Event(metadata=ObjectMeta(name="x"), involved_object=core.ObjectReference(), reason="Bare")
    assert [one.at for one in reading.latest([bare])] == [None]


@pytest.mark.parametrize(("asked", "seconds"), [("100ms", 1), ("10s", 10), ("45s", 45), ("1h", 60)])
def test_nobody_waits_so_long_that_the_status_gets_old(asked: str, seconds: float) -> None:
    patch = {"rates": {"lookEvery": asked}, "thresholds": {"heartbeatAge": "3h"}}
    profile = edge_profiles.typed(edge_profiles.shipped("vx-rail", patch=patch))
    assert reconciling.pause(profile) == seconds


def test_operators_of_two_namespaces_do_not_take_each_other_the_rights() -> None:
    profile = edge_profiles.typed(edge_profiles.shipped("vx-rail"))
    made = [assembly.site_manifests(profile, one) for one in ("nodemanager", "lab")]
    (role, binding), (same, other) = made
    assert role == same
    assert binding["metadata"]["name"] == "nodemanager-operator-edge-vx-rail"
    assert other["metadata"]["name"] == "nodemanager-operator-edge-vx-rail.lab"
    assert binding["roleRef"] == other["roleRef"]


def test_rights_for_the_longest_names_have_names_that_an_api_takes() -> None:
    names = [f"{'x' * 252}{last}" for last in "ab"]
    profiles = [edge_profiles.typed(edge_profiles.shipped("vx-rail", name)) for name in names]
    made = [assembly.site_manifests(profile, "n" * 63) for profile in profiles]
    roles = {one["metadata"]["name"] for objects in made for one in objects}
    assert len(roles) == 4
    assert max(map(len, roles)) <= 253
