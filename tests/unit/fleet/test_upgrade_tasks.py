"""What an upgrade is, whoever begins it; and which Lease an operator holds for a host meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.managednode import ANNOTATION_REBOOT, ManagedNode
from nodemanager.api.maintenance.nodetask import UPGRADES, VISIT
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.kube.objects import ObjectMeta

NOW = datetime(2026, 11, 16, 3, tzinfo=UTC)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


@pytest.mark.parametrize(("reboots", "when"), [(True, "always"), (False, "ifNeeded")])
def test_an_upgrade_installs_reboots_and_proves(reboots: bool, when: str) -> None:
    found = [msgspec.to_builtins(step) for step in upgrade_tasks.steps(reboots=reboots)]
    assert [{name: value for name, value in step.items() if value} for step in found] == [
        {"name": "upgrade", "packages": {"upgrade": "system"}},
        {"name": "reboot", "reboot": {"when": when}, "timeout": "10m"},
        {"name": "prove", "probe": {"configSetsHold": True}, "timeout": "15m"},
    ]


def test_only_a_host_that_says_always_reboots_after_every_upgrade() -> None:
    assert upgrade_tasks.reboots_always({ANNOTATION_REBOOT: "always"})
    for notes in ({}, {ANNOTATION_REBOOT: ""}, {ANNOTATION_REBOOT: "needed"}, {"other": "always"}):
        assert not upgrade_tasks.reboots_always(notes)


def test_a_slot_is_the_same_in_every_zone() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=5)))
    assert upgrade_tasks.run_of(there) == upgrade_tasks.run_of(NOW) == "upgrade-20261116t030000z"
    assert upgrade_tasks.slot_of_run("upgrade-20261116t030000z") == NOW


def test_a_mark_says_until_when_and_whether_its_node_is_drained() -> None:
    for drains in (True, False):
        notes = {UPGRADES: upgrade_tasks.mark(NOW, drains=drains)}
        assert upgrade_tasks.marked_until(notes) == NOW
        assert upgrade_tasks.was_drained(notes) is drains
        assert upgrade_tasks.is_marked(notes, NOW - SECOND)
        assert not upgrade_tasks.is_marked(notes, NOW)
    assert upgrade_tasks.marked_until({}) is None
    assert not upgrade_tasks.was_drained({})


def node(visit: str | None) -> ManagedNode:
    return ManagedNode(ObjectMeta(name="h0", annotations={} if visit is None else {VISIT: visit}))


def claim(state: State = State.WORKING, maintenance: str = "managednode/h0", **fields: Any) -> Claim:
    return Claim(maintenance, "u", "u", "r", 0, state, NOW, NOW, NOW + HOUR, group="web", **fields)


UPGRADE = claim()


@pytest.mark.parametrize(
    ("visit", "found"),
    [
        (claims.encode(UPGRADE), UPGRADE),
        (claims.encode(claim(maintenance="monday")), None),
        (claims.encode(claim(maintenance="configset/web")), None),
        ("no claim", None),
        (None, None),
    ],
)
def test_only_a_visit_for_its_own_upgrade_is_one(visit: str | None, found: Claim | None) -> None:
    assert upgrade_tasks.visit_of(node(visit)) == found


@pytest.mark.parametrize(
    ("visit", "after", "group"),
    [
        (claims.encode(UPGRADE), timedelta(), "web"),
        (claims.encode(UPGRADE), HOUR + upgrade_tasks.LEASE_AFTERWARDS - SECOND, "web"),
        (claims.encode(UPGRADE), HOUR + upgrade_tasks.LEASE_AFTERWARDS, ""),
        (claims.encode(claim(State.DONE)), timedelta(), ""),
        (claims.encode(claim(State.UNDOING)), timedelta(), "web"),
        (claims.encode(claim(maintenance="monday")), timedelta(), ""),  # no group of an upgrade
        ("no claim", timedelta(), ""),
        (None, timedelta(), ""),
    ],
)
def test_a_lease_is_held_until_the_visit_has_ended_or_nobody_goes_on(
    visit: str | None, after: timedelta, group: str
) -> None:
    assert upgrade_tasks.lent(node(visit), NOW + after) == group
    assert upgrade_tasks.LEASE_AFTERWARDS == 2 * claims.GRACE > timedelta()
