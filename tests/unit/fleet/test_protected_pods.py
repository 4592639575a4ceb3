"""Which pods ask for time, and for how long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.nodemaintenance import NodeMaintenanceSpec
from nodemanager.fleet.maintenance import protected_pods
from nodemanager.fleet.maintenance.decide import PATIENCE, decide
from nodemanager.fleet.maintenance.facts import HostFacts, MaintenanceFacts, NodeFacts, Run
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.protected_pods import NOT_BEFORE, Protection
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.series import HostGroup

NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)
KARPENTER = "karpenter.sh/do-not-disrupt"
AUTOSCALER = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def pod(kind: str = "Job", **annotations: str) -> dict[str, Any]:
    owners = [{"kind": kind, "controller": True}] if kind else []
    return {
        "metadata": {"name": "p", "namespace": "n", "annotations": annotations, "ownerReferences": owners}
    }


@pytest.mark.parametrize(
    ("annotations", "said", "until"),
    [
        ({NOT_BEFORE: "2027-01-31T13:00:00Z"}, f"{NOT_BEFORE} 2027-01-31T13:00:00Z", timedelta(hours=1)),
        ({NOT_BEFORE: "2027-01-31T13:00:00+02:00"}, None, None),  # that was at eleven
        ({NOT_BEFORE: "2027-01-31\n13:00:00Z"}, f"{NOT_BEFORE} 2027-01-31 13:00:00Z", timedelta(hours=1)),
        ({NOT_BEFORE: "2027-01-31T12:00:00Z"}, None, None),
        ({NOT_BEFORE: "9999-12-31T23:59:59-14:00"}, f"{NOT_BEFORE} 9999-12-31T23:59:59-14:00", None),
        ({NOT_BEFORE: "tomor\nrow"}, f"{NOT_BEFORE} 'tomor\\nrow' is not a time such as", None),
        ({NOT_BEFORE: "2027-01-31T13:00:00"}, "is not a time such as", None),  # in which zone?
        ({KARPENTER: "true"}, f"{KARPENTER}: true", None),
        ({KARPENTER: "false"}, None, None),
        ({AUTOSCALER: "false"}, f"{AUTOSCALER}: false", None),
        ({AUTOSCALER: "true"}, None, None),
        ({NOT_BEFORE: "2020-01-01T00:00:00Z", KARPENTER: "true"}, f"{KARPENTER}: true", None),
        ({}, None, None),
    ],
)
def test_what_a_pod_asks_for(annotations: dict[str, str], said: str | None, until: timedelta | None) -> None:
    found = protected_pods.protection(pod(**annotations), NOW)
    if said is None:
        assert found is None
    else:
        assert found is not None
        assert found.object.startswith("pod/n/p: ")
        assert said in found.object
        assert found.until == (None if until is None else NOW + until)


def test_a_pod_may_have_no_annotations_at_all() -> None:
    bare = pod()
    bare["metadata"]["annotations"] = None
    assert protected_pods.protection(bare, NOW) is None
    del bare["metadata"]["annotations"]
    assert protected_pods.protection(bare, NOW) is None


def test_what_it_says_is_told_with_40_characters_of_it() -> None:
    nonsense = protected_pods.protection(pod(**{NOT_BEFORE: "x" * 60}), NOW)
    assert nonsense is not None
    assert f"'{'x' * 40}' is not a time" in nonsense.object
    long = protected_pods.protection(pod(**{NOT_BEFORE: "2027-01-31T13:00:00." + "0" * 39 + "Z"}), NOW)
    assert long is not None
    assert len(long.object) == len(f"pod/n/p: {NOT_BEFORE} ") + 40


def test_ten_years_are_for_ever() -> None:
    for days, until in ((3650, None), (3649, NOW + timedelta(days=3649))):
        said = (NOW + timedelta(days=days)).isoformat()
        found = protected_pods.protection(pod(**{NOT_BEFORE: said}), NOW)
        assert found is not None
        assert found.until == until


def test_a_pod_without_a_controller_may_ask_one_of_a_daemon_set_may_not() -> None:
    assert protected_pods.protection(pod("", **{KARPENTER: "true"}), NOW) is not None  # a reboot would end it
    assert protected_pods.protection(pod("DaemonSet", **{KARPENTER: "true"}), NOW) is None
    done = {**pod(**{KARPENTER: "true"}), "status": {"phase": "Succeeded"}}
    assert protected_pods.protection(done, NOW) is None


def test_of_several_the_one_counts_that_asks_for_most_time() -> None:
    hour, day = (pod(**{NOT_BEFORE: text}) for text in ("2027-01-31T13:00:00Z", "2027-02-01T12:00:00Z"))
    found = protected_pods.longest([hour, pod(), day], NOW)
    assert found is not None
    assert found.until == NOW + timedelta(days=1)
    endless = protected_pods.longest([hour, pod(**{KARPENTER: "true"}), day], NOW)
    assert endless is not None
    assert endless.until is None
    assert protected_pods.longest([pod()], NOW) is None


def facts(began: datetime, *hosts: HostFacts) -> MaintenanceFacts:
    spec = msgspec.convert({"operations": [], "budget": {"maxUnavailable": 1}}, NodeMaintenanceSpec)
    names = tuple(one.name for one in hosts)
    by_name = {one.name: one for one in hosts}
    return MaintenanceFacts(
        "m", spec, Run("r1", began), [HostGroup("", names)], by_name, NOW, WindowView(open=True)
    )


def test_a_protected_host_spends_no_budget_and_holds_up_no_run_for_ever() -> None:
    asked = Protection("pod/n/p: not-before", NOW + timedelta(hours=1))
    kept = HostFacts("a", "uid-a", NOW - timedelta(days=30), node=NodeFacts(protected=asked))
    free = HostFacts("b", "uid-b", NOW - timedelta(days=30), node=NodeFacts())
    found = decide(facts(NOW, kept, free))
    assert [one.host for one in found.starts] == ["b"]
    (wait,) = found.waits
    assert (wait.reason, wait.object, wait.next_check) == (Reason.POD_PROTECTED, asked.object, asked.until)
    assert found.coming(5) == []  # nobody knows whether it comes next
    assert decide(facts(NOW, kept)).outcome == ""
    assert (
        decide(facts(NOW - PATIENCE, kept)).outcome == "Succeeded"
    )  # without it, which is counted as skipped
