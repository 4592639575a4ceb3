"""What is shown of what a host tells, and of whom nothing is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.edge_state import (
    BondChange,
    BondSlave,
    BondState,
    DrbdResource,
    DrbdState,
    DrbdVolume,
    EdgeState,
    LinkState,
)
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.edge.edgeprofile import EdgeProfileSpec
from nodemanager.api.edge.node_reports import FRESH, STALE, UNPROVEN, NodeReport
from nodemanager.api.edge.profile_parts import SiteNetwork
from nodemanager.fleet.edge.hosts import reports
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)
BEFORE = NodeReport(state=FRESH, changed_at="2026-03-01T03:00:00Z", digest="of before")
DISK = DrbdVolume(disk="UpToDate")
SPEC = EdgeProfileSpec(network=SiteNetwork(bond="bond0"))


def host(edge: EdgeState | None, *said: tuple[str, str, str]) -> ManagedNode:
    told = [Condition(type=kind, status=status, reason=reason) for kind, status, reason in said]
    return ManagedNode(ObjectMeta(name="a"), status=ManagedNodeStatus(conditions=told, edge=edge))


def report(
    one: ManagedNode, spec: EdgeProfileSpec, before: NodeReport | None, now: datetime, life: str = FRESH
) -> NodeReport | None:
    return reports.report(one, life, spec, before, now)


ALIVE, DEAD = ("Alive", "True", "Seen"), ("Alive", "False", "LeaseExpired")


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ((ALIVE, ("Ready", "True", "Applied")), FRESH),
        ((ALIVE, ("Ready", "Unknown", "AgentSilent")), UNPROVEN),
        ((ALIVE,), FRESH),  # no agent was silent that never said Ready
        ((("Ready", "True", "Applied"),), UNPROVEN),
        ((("Alive", "Unknown", "Seen"), ("Ready", "True", "Applied")), UNPROVEN),
        ((DEAD, ("Ready", "True", "Applied")), STALE),
        ((), UNPROVEN),
    ],
)
def test_how_fresh_it_is_what_a_host_said(said: tuple[tuple[str, str, str], ...], wanted: str) -> None:
    edge = EdgeState()
    assert reports.freshness(host(edge, *said)) == wanted
    assert reports.current(host(edge, *said)) == (edge if wanted == FRESH else None)


@pytest.mark.parametrize("said", [(DEAD,), ()])
def test_of_what_is_not_fresh_the_time_of_before_is_left_and_nothing_else(said: Any) -> None:
    one = host(EdgeState(links=[LinkState(name="eth0")]), *said)
    found = report(one, SPEC, BEFORE, NOW)
    assert found == msgspec.structs.replace(BEFORE, state=STALE if said else UNPROVEN)
    assert report(one, SPEC, None, NOW) == NodeReport(state=STALE if said else UNPROVEN)
    assert report(host(None, *said), SPEC, BEFORE, NOW) is None


@pytest.mark.parametrize(
    ("said", "life", "wanted"),
    [(ALIVE, UNPROVEN, UNPROVEN), (ALIVE, STALE, STALE), (DEAD, FRESH, STALE), (DEAD, UNPROVEN, STALE)],
)
def test_whose_agent_may_be_dead_is_not_believed(said: Any, life: str, wanted: str) -> None:
    one = host(EdgeState(links=[LinkState(name="eth0")]), said)
    assert report(one, SPEC, BEFORE, NOW, life) == msgspec.structs.replace(BEFORE, state=wanted)


def test_a_report_is_as_old_as_what_it_says() -> None:
    edge = EdgeState(links=[LinkState(name="eth0")])
    first = report(host(edge, ALIVE), SPEC, BEFORE, NOW)
    assert first is not None
    assert first.changed_at == "2026-03-01T04:00:00Z", "it tells something else than before"
    later = NOW.replace(hour=5)
    assert report(host(edge, ALIVE), SPEC, first, later) == first
    untimed = msgspec.structs.replace(first, changed_at=None)
    again = report(host(edge, ALIVE), SPEC, untimed, later)
    assert again == msgspec.structs.replace(first, changed_at="2026-03-01T05:00:00Z")


BONDS = [BondState(name="bond1", mode="x"), BondState(name="bond0", mode="y")]
CHANGES = [BondChange(bond="bond1", phase="Staged"), BondChange(bond="bond0", phase="Armed")]


@pytest.mark.parametrize(
    ("bonds", "wanted", "mode", "phase"),
    [
        (BONDS, "bond0", "y", "Armed"),
        (BONDS, "", "x", "Staged"),  # the profile names none: the first one
        (BONDS, None, "x", "Staged"),
        (BONDS, "bond2", None, "Staged"),  # it went, while somebody changed one
        ([], "bond0", None, "Staged"),
    ],
)
def test_the_bond_of_the_profile_is_told_of_and_its_change(
    bonds: list[BondState], wanted: str | None, mode: str | None, phase: str
) -> None:
    spec = EdgeProfileSpec(network=SiteNetwork(bond=wanted) if wanted is not None else None)
    found = report(host(EdgeState(bonds=bonds, bond_changes=CHANGES), ALIVE), spec, None, NOW)
    assert found is not None
    assert (found.bond.mode if found.bond is not None else None) == mode
    assert found.change is not None
    assert found.change.phase == phase


def test_a_bond_without_a_change_is_told_of_without_one() -> None:
    edge = EdgeState(bonds=BONDS, bond_changes=CHANGES[:1])
    found = report(host(edge, ALIVE), SPEC, None, NOW)
    assert found is not None
    assert found.change is None


def test_a_card_is_up_if_its_bond_says_so() -> None:
    bond = BondState(name="bond0", slaves=[BondSlave(name="x", mii="up"), BondSlave(name="y", mii="down")])
    assert [reports.is_up(bond, name) for name in ("x", "y", "z")] == [True, False, False]


def test_of_drbd_that_could_not_be_read_there_are_no_numbers() -> None:
    for error, wanted in (("", True), ("no drbdsetup", False)):
        found = report(host(EdgeState(drbd=DrbdState(error=error)), ALIVE), SPEC, None, NOW)
        assert found is not None
        assert (found.drbd is not None) is wanted
    many = DrbdState(resources=[DrbdResource(name="r0", suspended="no", volumes=[DISK])], omitted=3)
    found = report(host(EdgeState(drbd=many), ALIVE), SPEC, None, NOW)
    assert found is not None
    assert found.drbd is not None
    assert (found.drbd.resources, found.drbd.well) == (4, 4), "those that are left out are well"
    found = report(host(EdgeState(drbd=DrbdState()), ALIVE), SPEC, None, NOW)
    assert found is not None
    assert found.drbd is not None
    assert (found.drbd.resources, found.drbd.done, found.drbd.out_of_sync) == (0, None, 0)
