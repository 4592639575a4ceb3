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
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.fleet import health
from nodemanager.fleet.health import FleetSnapshot
from nodemanager.kube import times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta

NOW = datetime(2026, 3, 1, 4, 0, tzinfo=UTC)
META = ObjectMeta(name="x")


def said(**conditions: str) -> list[Condition]:
    """Conditions by type: `Ready="False Applying"`."""
    return [
        Condition(type=kind, status=text.split()[0], reason=text.split()[-1], message=f"{kind} it is")
        for kind, text in conditions.items()
    ]


def host(**conditions: str) -> ManagedNode:
    return ManagedNode(metadata=META, status=ManagedNodeStatus(conditions=said(**conditions)))


@pytest.mark.parametrize(
    ("conditions", "state", "word"),
    [
        ({"Ready": "True Applied", "Alive": "True x"}, "well", "Applied"),
        ({"Ready": "True Applied"}, "well", "Applied"),
        ({"Ready": "True Applied", "Alive": "False LeaseExpired"}, "unknown", "Silent"),
        ({"Ready": "False ApplyFailed", "Alive": "True x"}, "unwell", "ApplyFailed"),
        ({"Ready": "False Applying", "Alive": "True x"}, "underway", "Applying"),
        ({"Ready": "False Waiting", "Alive": "True x"}, "underway", "Waiting"),
        ({"Ready": "Unknown AgentSilent"}, "unknown", "AgentSilent"),
        ({"Ready": "True Applied", "Held": "True x"}, "underway", "Held"),
        ({}, "unknown", "Unreported"),
    ],
)
def test_hosts(conditions: dict[str, str], state: str, word: str) -> None:
    found = health.host(host(**conditions))
    assert (found.kind, found.state, found.word) == ("ManagedNode", state, word)


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
        ({"hosts": [host(Ready="True Applied")]}, "well"),
        ({"hosts": [host(Ready="True Applied"), host()]}, "unknown"),
        ({"hosts": [host(Ready="False x"), host()]}, "unwell"),
        ({"hosts": [host(Ready="True Applied")], "unread": [("ConfigSet", "no")]}, "unknown"),
        ({"clusters": [site("Upgrading")], "hosts": [host(Ready="True Applied")]}, "underway"),
    ],
)
def test_the_worst_is_the_word_for_all(seen: dict[str, Any], state: str) -> None:
    assert health.judge(FleetSnapshot(**seen), NOW).state == state
