"""What hosts say of their tasks is taken with care: a clock may be wrong, and a host taken over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.common.node_upgrades import UpcomingUpgrades
from nodemanager.api.maintenance.nodemaintenance import Approval, NodeMaintenance, NodeMaintenanceSpec
from nodemanager.api.maintenance.nodetask import NodeTask, NodeTaskSpec, NodeTaskStatus
from nodemanager.controllers.node_maintenances import observing, undertaking
from nodemanager.fleet.maintenance.claims import Claim, State, Unreadable
from nodemanager.fleet.maintenance.facts import HostFacts
from nodemanager.kube.objects import ObjectMeta

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
MADE = "2026-11-16T05:00:00Z"
HOUR = timedelta(hours=1)


def task(finished: str | None, phase: str = "Succeeded") -> NodeTask:
    return NodeTask(
        metadata=ObjectMeta(name="t", creation_timestamp=MADE),
        spec=NodeTaskSpec(node_name="web1"),
        status=NodeTaskStatus(phase=phase, finished_at=finished),
    )


@pytest.mark.parametrize(
    ("finished", "ended", "samples"),
    [
        ("2026-11-16T05:30:00Z", NOW - HOUR / 2, [HOUR / 2]),
        ("9999-12-31T23:59:59Z", NOW, []),
        ("2020-01-01T00:00:00Z", NOW - HOUR, [timedelta()]),
        ("0000-01-01T00:00:00Z", NOW - HOUR, []),
        ("2026-11-16T05:30:00+99:99", NOW - HOUR, []),
        ("", NOW - HOUR, []),
    ],
)
def test_when_a_task_ended_is_between_its_beginning_and_now(
    finished: str, ended: datetime, samples: list[timedelta]
) -> None:
    assert observing.ended_at(task(finished), NOW) == ended
    assert observing.task_facts(task(finished), NOW).ended == ended
    assert [took for _, took in observing.durations([task(finished)], NOW)] == samples


def test_how_long_it_took_to_take_something_back_is_not_how_long_a_visit_takes() -> None:
    done = task("2026-11-16T05:30:00Z")
    undo = msgspec.structs.replace(done, metadata=ObjectMeta(name="t-undo", creation_timestamp=MADE))
    assert list(observing.durations([done, undo], NOW)) == [("web1", HOUR / 2)]


@pytest.mark.parametrize(
    "status",
    [
        ManagedNodeStatus(upgrade=UpcomingUpgrades(started_at=MADE)),
        ManagedNodeStatus(kubernetes_node_cordoned=MADE),
    ],
)
def test_a_host_that_upgrades_itself_is_away_with_or_without_a_node(status: ManagedNodeStatus) -> None:
    host = ManagedNode(metadata=ObjectMeta(name="web1", uid="h-1"), status=status)
    found = observing.host_facts(host, None, NOW, {})
    assert found.health.upgrading
    idle = msgspec.structs.replace(host, status=ManagedNodeStatus(upgrade=UpcomingUpgrades([MADE])))
    assert not observing.host_facts(idle, None, NOW, {}).health.upgrading


def test_one_that_has_not_ended_has_no_end() -> None:
    assert observing.ended_at(task("2026-11-16T05:30:00Z", "Running"), NOW) is None


def test_a_claim_whose_maintenance_is_gone_is_one_that_somebody_has_to_look_at() -> None:
    claim = Claim(
        maintenance="monday", uid="m-1", host_uid="h-1", run="r1", attempt=0, state=State.WORKING,
        since=NOW, begun=NOW, expires=NOW + HOUR,
    )  # fmt: skip
    host = HostFacts("web1", "h-1", NOW - HOUR, claim=claim)
    assert observing.with_owner(host, {"m-1"}, NOW + 2 * HOUR) is host
    assert observing.with_owner(host, set(), NOW) is host, "its time is not over"
    found = observing.with_owner(host, set(), NOW + 2 * HOUR)
    assert isinstance(found.claim, Unreadable)
    assert found.works


def test_without_a_requester_nobody_can_be_somebody_else() -> None:
    def problem(**asked: object) -> str:
        approval = msgspec.convert({"required": True, **asked}, Approval)
        found = undertaking.nobody_asks(NodeMaintenance(spec=NodeMaintenanceSpec(approval=approval)))
        return found.reason if found is not None else ""

    assert problem() == ""
    assert problem(differentUser=True, requester="jane") == ""
    assert problem(differentUser=True) == "RequesterUnknown"
