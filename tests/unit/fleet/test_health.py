"""How everything is: each object by itself, and the worst of all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.api.common.configset import ConfigSet, ConfigSetStatus
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.common.rollout import PHASES as ROLLOUT_PHASES
from nodemanager.api.common.rollout import RolloutStatus
from nodemanager.api.edge.edgecluster import PHASES, EdgeCluster, EdgeClusterStatus
from nodemanager.api.maintenance.maintenance_status import PHASES as MAINTENANCE_PHASES
from nodemanager.api.maintenance.maintenance_status import HostCounts, NodeMaintenanceStatus
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.fleet import health
from nodemanager.fleet.health import FleetSnapshot, ObjectHealth
from nodemanager.kube import times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.core import Lease, LeaseSpec
from nodemanager.kube.objects import ObjectMeta

NOW = datetime(2026, 3, 1, 4, 0, tzinfo=UTC)
META = ObjectMeta(name="x")


def lease(ago: float | None) -> Lease:
    """The Lease of the operator, renewed so many seconds ago."""
    at = None if ago is None else times.rfc3339(NOW - timedelta(seconds=ago))
    return Lease(metadata=ObjectMeta(name="leader"), spec=LeaseSpec(renew_time=at))


def said(**conditions: str) -> list[Condition]:
    """Conditions by type: `Ready="False Applying"`."""
    return [
        Condition(type=kind, status=text.split()[0], reason=text.split()[-1], message=f"{kind} it is")
        for kind, text in conditions.items()
    ]


def host(**conditions: str) -> ManagedNode:
    return ManagedNode(metadata=META, status=ManagedNodeStatus(conditions=said(**conditions)))


WELL = host(Ready="True Applied", Alive="True LeaseRenewed")


@pytest.mark.parametrize(
    ("conditions", "state", "word"),
    [
        ({"Ready": "True Applied", "Alive": "True x"}, "well", "Applied"),
        ({"Ready": "True Applied"}, "unknown", "Unjudged"),
        ({"Ready": "True Applied", "Alive": "Unknown NoLease"}, "unknown", "Unjudged"),
        ({"Ready": "False Applying"}, "unknown", "Unjudged"),
        ({"Ready": "False ApplyFailed"}, "unwell", "ApplyFailed"),
        ({"Ready": "True Applied", "Alive": "False LeaseExpired"}, "unknown", "Silent"),
        ({"Ready": "False ApplyFailed", "Alive": "True x"}, "unwell", "ApplyFailed"),
        ({"Ready": "False Applying", "Alive": "True x"}, "underway", "Applying"),
        ({"Ready": "False Waiting", "Alive": "True x"}, "underway", "Waiting"),
        ({"Ready": "Unknown AgentSilent"}, "unknown", "AgentSilent"),
        ({"Ready": "True Applied", "Held": "True x", "Alive": "True x"}, "underway", "Held"),
        ({"Ready": "True Applied", "Held": "True x"}, "unknown", "Unjudged"),
        ({}, "unknown", "Unreported"),
    ],
)
def test_hosts(conditions: dict[str, str], state: str, word: str) -> None:
    found = health.host(host(**conditions), judged=True)
    assert (found.kind, found.state, found.word) == ("ManagedNode", state, word)


@pytest.mark.parametrize(
    ("conditions", "state", "word"),
    [
        ({"Ready": "True Applied", "Alive": "True x"}, "unknown", "Unjudged"),
        ({"Ready": "False Applying", "Alive": "True x"}, "unknown", "Unjudged"),
        ({"Ready": "False ApplyFailed", "Alive": "True x"}, "unwell", "ApplyFailed"),
        ({"Ready": "True Applied", "Alive": "False x"}, "unknown", "Silent"),
        ({}, "unknown", "Unreported"),
    ],
)
def test_hosts_that_nobody_judges(conditions: dict[str, str], state: str, word: str) -> None:
    """`Alive` stays as it was when the operator died, for ever."""
    found = health.host(host(**conditions), judged=False)
    assert (found.state, found.word) == (state, word)


def site(phase: str, ago: float | None = 10) -> EdgeCluster:
    at = None if ago is None else times.rfc3339(NOW - timedelta(seconds=ago))
    return EdgeCluster(metadata=META, status=EdgeClusterStatus(phase=phase, reason="Why", observed_at=at))


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("SingleNode", "well"), ("MultiNode", "well"), ("Upgrading", "underway"), ("Recovering", "underway"),
        ("Bootstrap", "underway"), ("Degraded", "unwell"), ("Unknown", "unknown"),
    ],
)  # fmt: skip
def test_sites(phase: str, state: str) -> None:
    assert phase in PHASES
    assert (health.site(site(phase), NOW).state, health.site(site(phase), NOW).word) == (state, phase)
    for ago in (None, 121, -121):  # nobody looked; or a clock is wrong, and nobody can tell
        assert health.site(site(phase, ago), NOW).state == "unknown"


def test_a_word_of_a_newer_version_is_not_taken_for_well() -> None:
    assert health.site(site("Dreaming"), NOW).state == "unknown"
    rolled = ConfigSet(metadata=META, status=ConfigSetStatus(rollout=RolloutStatus(phase="Dreaming")))
    assert health.rollout(rolled).state == "unknown"
    status = type(NodeMaintenance(metadata=META).status)(phase="Dreaming")
    assert health.maintenance(NodeMaintenance(metadata=META, status=status)).state == "unknown"


@pytest.mark.parametrize("phase", ROLLOUT_PHASES)
def test_rollouts(phase: str) -> None:
    one = ConfigSet(metadata=META, status=ConfigSetStatus(rollout=RolloutStatus(phase=phase)))
    bad = {"Paused": "unwell", "Undoing": "unwell", "Undone": "unwell", "Stable": "well"}
    assert health.rollout(one).state == bad.get(phase, "underway")
    assert [found.kind for found in health.judge(FleetSnapshot(sets=[one]), NOW).objects] == [
        "ConfigSet",
        "Rollout",
    ]


@pytest.mark.parametrize(
    ("kind", "state"), [("Invalid", "unwell"), ("Conflicted", "unwell"), ("Ready", "well")]
)
def test_sets(kind: str, state: str) -> None:
    one = ConfigSet(metadata=META, status=ConfigSetStatus(conditions=said(**{kind: "True x"})))
    assert health.config_set(one).state == state


@pytest.mark.parametrize("phase", MAINTENANCE_PHASES)
def test_maintenances(phase: str) -> None:
    def judged(*conditions: Condition) -> str:
        one = NodeMaintenance(metadata=META)
        status = type(one.status)(phase=phase, conditions=list(conditions))
        return health.maintenance(NodeMaintenance(metadata=META, status=status)).state

    states = {"Failed": "unwell", "Stopped": "unwell", "Succeeded": "well", "WaitingForSlot": "well"}
    assert judged() == states.get(phase, "underway")
    assert judged(*said(Valid="False Missing")) == "unwell"


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        ({}, "well"),
        ({"hosts": [WELL]}, "well"),
        ({"hosts": [WELL, host()]}, "unknown"),
        ({"hosts": [host(Ready="False x"), host()]}, "unwell"),
        ({"hosts": [WELL], "unread": [("ConfigSet", "no")]}, "unknown"),
        ({"clusters": [site("Upgrading")], "hosts": [WELL]}, "underway"),
    ],
)
def test_the_worst_is_the_word_for_all(seen: dict[str, Any], state: str) -> None:
    assert health.judge(FleetSnapshot(**seen, leader=lease(0)), NOW).state == state


@pytest.mark.parametrize("ago", [120, -120])
def test_an_operator_that_renews_its_lease_is_no_entry(ago: int) -> None:
    assert health.operator(lease(ago), NOW) == []


@pytest.mark.parametrize("ago", [121, -121])
def test_one_that_does_not_is_silent_since_then(ago: int) -> None:
    since = times.rfc3339(NOW - timedelta(seconds=ago))
    (found,) = health.operator(lease(ago), NOW)
    assert (found.kind, found.name, found.state, found.word) == ("Operator", "leader", "unknown", "Silent")
    assert found.message == f"no operator since {since}: nobody tells which hosts are silent"
    assert found.since == since


def test_one_that_never_was_there_is_silent_since_ever() -> None:
    (found,) = health.operator(lease(None), NOW)
    assert found.since == ""
    assert found.message.startswith("no operator since ever: ")


def test_the_lease_matters_where_there_are_hosts() -> None:
    assert health.judge(FleetSnapshot(), NOW).state == "well"
    assert health.judge(FleetSnapshot(leader=lease(None)), NOW).state == "well"
    assert health.judge(FleetSnapshot(hosts=[WELL], leader=lease(None)), NOW).state == "unknown"
    assert health.judge(FleetSnapshot(hosts=[WELL], leader=lease(0)), NOW).state == "well"


def test_a_host_that_went_years_ago_is_not_well_where_there_never_was_an_operator() -> None:
    then = "2020-01-01T00:00:00Z"
    ready = Condition(type="Ready", status="True", reason="Applied", last_transition_time=then)
    dead = ManagedNode(metadata=META, status=ManagedNodeStatus(conditions=[ready]))
    found = health.judge(FleetSnapshot(hosts=[dead]), NOW)
    assert found.state == "unknown"
    assert found.objects == [
        ObjectHealth(
            "Operator", "nodemanager-operator", "unknown", "Absent",
            "nobody judges who is alive: no operator leads; hosts are shown as they said of themselves",
        ),
        ObjectHealth(
            "ManagedNode", "x", "unknown", "Unjudged",
            "nobody knows whether it is alive; it said Applied of itself", then,
        ),
    ]  # fmt: skip


def test_an_operator_that_we_may_not_look_for_is_not_said_to_be_absent() -> None:
    found = health.judge(FleetSnapshot(hosts=[WELL], unread=[("Operator", "no right")]), NOW)
    assert [(one.kind, one.word) for one in found.objects] == [
        ("Operator", "Unread"), ("ManagedNode", "Unjudged")
    ]  # fmt: skip


def test_everything_is_judged_and_found_by_its_kind() -> None:
    rolled = ConfigSet(metadata=META, status=ConfigSetStatus(rollout=RolloutStatus(phase="Stable")))
    seen = FleetSnapshot(
        [site("SingleNode")], [host()], [rolled, ConfigSet(metadata=META)],
        [NodeMaintenance(metadata=META)], [("Secret", "no right")], lease(0),
    )  # fmt: skip
    found = health.judge(seen, NOW)
    kinds = ["Secret", "EdgeCluster", "ManagedNode", "ConfigSet", "ConfigSet", "Rollout", "NodeMaintenance"]
    assert [one.kind for one in found.objects] == kinds
    assert found.of("Secret") == [ObjectHealth("Secret", "*", "unknown", "Unread", "no right")]
    assert len(found.of("ConfigSet")) == 2


def test_where_the_api_is_away_nothing_is_known() -> None:
    found = health.unanswered("refused")
    assert found.state == "unknown"
    assert found.objects == [ObjectHealth("API", "*", "unknown", "Unanswered", "refused")]


def test_what_is_said_of_a_site() -> None:
    def of(**fields: Any) -> ObjectHealth:
        given = {"phase": "Degraded", "reason": "Why", "observed_at": times.rfc3339(NOW), **fields}
        return health.site(EdgeCluster(metadata=META, status=EdgeClusterStatus(**given)), NOW)

    assert of() == ObjectHealth("EdgeCluster", "x", "unwell", "Degraded", "Why")
    assert of(message="a node", since="then") == ObjectHealth(
        "EdgeCluster", "x", "unwell", "Degraded", "a node (Why)", "then"
    )
    assert of(observed_at=None).message == "nobody looked yet: does an operator run with --edge?"
    assert (of(observed_at=None).word, of(observed_at=None).since) == ("Unlooked", "")
    old = times.rfc3339(NOW - timedelta(hours=1))
    assert of(observed_at=old) == ObjectHealth(
        "EdgeCluster", "x", "unknown", "Stale", f"nobody looked since {old}; it was Degraded then", old
    )


def test_what_is_said_of_a_host() -> None:
    def of(**conditions: str) -> str:
        return health.host(host(**conditions), judged=True).message

    assert of(Ready="False Broken", Alive="True x") == "Ready it is"
    assert of(Ready="True x", Alive="False x") == "Alive it is"
    assert of(Ready="True x", Alive="True x", Held="True x") == "Held it is"
    assert of(Ready="True x") == "nobody knows whether it is alive; it said x of itself: Ready it is"
    assert of(Ready="True x", Alive="Unknown NoLease") == "Alive it is; it said x of itself: Ready it is"
    assert of() == "its agent has not reported yet"
    since = "2026-03-01T00:00:00Z"
    dated = Condition(type="Ready", status="True", reason="Applied", last_transition_time=since)
    one = ManagedNode(metadata=META, status=ManagedNodeStatus(conditions=[dated]))
    assert health.host(one, judged=True).since == since


def test_what_is_said_of_a_set_and_of_its_rollout() -> None:
    bad = ConfigSet(metadata=META, status=ConfigSetStatus(conditions=said(Conflicted="True Tie")))
    assert health.config_set(bad) == ObjectHealth("ConfigSet", "x", "unwell", "Tie", "Conflicted it is")
    good = ConfigSet(metadata=META, status=ConfigSetStatus(conditions=said(Conflicted="False Tie")))
    assert health.config_set(good) == ObjectHealth("ConfigSet", "x", "well")
    status = RolloutStatus(phase="Paused", message="two failed", since="then")
    rolled = ConfigSet(metadata=META, status=ConfigSetStatus(rollout=status))
    assert health.rollout(rolled) == ObjectHealth("Rollout", "x", "unwell", "Paused", "two failed", "then")
    assert health.rollout(ConfigSet(metadata=META)).state == "unknown"
    none = ConfigSet(metadata=META, status=ConfigSetStatus(rollout=RolloutStatus(phase="Stable")))
    assert health.rollout(none).since == ""


def test_what_is_said_of_a_maintenance() -> None:
    def of(*conditions: Condition, hosts: str = "") -> ObjectHealth:
        counts = HostCounts(text=hosts) if hosts else None
        status = NodeMaintenanceStatus(phase="Running", conditions=list(conditions), hosts=counts)
        return health.maintenance(NodeMaintenance(metadata=META, status=status))

    assert of() == ObjectHealth("NodeMaintenance", "x", "underway", "Running")
    assert of(hosts="2/3").message == "2/3 hosts"
    since = "2026-03-01T00:00:00Z"
    goes_on = Condition(
        type="Progressing", status="True", reason="x", message="one at work", last_transition_time=since
    )
    assert (of(goes_on).message, of(goes_on).since) == ("one at work", since)
    assert of(goes_on, hosts="2/3").message == "2/3 hosts; one at work"
    wrong = Condition(type="Valid", status="False", reason="Missing", message="no such host")
    assert of(wrong) == ObjectHealth("NodeMaintenance", "x", "unwell", "Missing", "no such host")
    assert of(*said(Valid="True x")).state == "underway"
