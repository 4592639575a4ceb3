"""From the objects of a namespace to turns: which budgets count, and whom they count."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.api.common.left_drifts import LeftDrift, LeftDrifts
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.maintenance.disruption import Budget
from nodemanager.api.maintenance.nodetask import VISIT
from nodemanager.controllers.node_maintenances import observing
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.repairs import looking, turns
from nodemanager.fleet.repairs.deciding import RepairDecision
from nodemanager.fleet.repairs.looking import Around, MaintenanceBudget
from nodemanager.fleet.series import HostGroup
from nodemanager.kube import times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta, OwnerReference
from nodemanager.kube.selectors import LabelSelector

NOW = datetime(2026, 11, 17, 3, tzinfo=UTC)
MOTD, CONF = "configset/motd", "configset/tuesday-conf"
TUESDAY = "nodemaintenance/tuesday"
SPENT, UNKNOWN = Reason.BUDGET_SPENT, Reason.CONFIG_SET_UNKNOWN


def node(
    name: str, *asks: str, visit: Claim | None = None, alive: bool = True, ago: int = 1, role: str = "web"
) -> ManagedNode:
    notes = {VISIT: claims.encode(visit)} if visit is not None else {}
    since = times.rfc3339(NOW - timedelta(minutes=ago))
    left = LeftDrifts(asks=[LeftDrift(configset=one, since=since) for one in asks]) if asks else None
    said = Condition(type="Alive", status="True" if alive else "False")
    return ManagedNode(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", annotations=notes, labels={"role": role}),
        status=ManagedNodeStatus(conditions=[said], left_drifts=left),
    )


def visiting(maintenance: str, uid: str, host: str, run: str = "r9") -> Claim:
    return Claim(maintenance, uid, f"uid-{host}", run, 0, State.WORKING, NOW, NOW, NOW + timedelta(hours=1))


def config_set(name: str, owner: str = "", *, role: str = "", leaving: bool = False) -> ConfigSet:
    owners = [
        OwnerReference("v1", "Secret", "x", "uid-x"),
        *([OwnerReference("v1", "NodeMaintenance", "tuesday", owner)] if owner else []),
    ]
    meta = ObjectMeta(
        name=name, owner_references=owners, deletion_timestamp=times.rfc3339(NOW) if leaving else None
    )
    selector = LabelSelector(match_labels={"role": role} if role else {})
    return ConfigSet(metadata=meta, spec=ConfigSetSpec(node_selector=selector, prune=leaving))


def tuesday(most: int, *hosts: str, run: str = "") -> MaintenanceBudget:
    budget = Budget(max_unavailable=most)
    return MaintenanceBudget("tuesday", "uid-tuesday", budget, [HostGroup("", hosts)], run)


def looked(
    nodes: Sequence[ManagedNode], *sets: ConfigSet, maintenances: Sequence[MaintenanceBudget] = ()
) -> RepairDecision:
    facts = {one.metadata.name: observing.host_facts(one, None, None, {}) for one in nodes}
    by_name = {one.metadata.name: one for one in sets}
    return looking.decide(Around(nodes, facts, by_name, maintenances), NOW)


def begun(found: RepairDecision) -> list[str]:
    return [one.host.name for one in found.starts]


def waiting(found: RepairDecision) -> dict[str, tuple[Reason, str]]:
    return {wait.host: (wait.reason, wait.object) for _, wait in found.waits}


def test_where_nobody_asks_nothing_is_decided() -> None:
    assert looked([node("a"), node("b", alive=False)], config_set("motd")) == RepairDecision()
    unknown = Around([node("a", "motd")], {}, {"motd": config_set("motd")}, [])
    assert looking.decide(unknown, NOW) == RepairDecision(), "a host that nobody knows"


def test_a_set_of_nobody_is_put_back_on_one_host_at_a_time() -> None:
    found = looked([node("a"), node("b", "motd"), node("c", "motd")], config_set("motd"))
    assert (begun(found), waiting(found)) == (["b"], {"c": (SPENT, MOTD)})


def test_a_host_that_is_away_counts_if_the_set_means_it() -> None:
    for role, spent in (("web", True), ("db", False)):
        hosts = [node("a", "motd"), node("gone", alive=False, role=role)]
        found = looked(hosts, config_set("motd", role="web"))
        assert (begun(found), waiting(found)) == (([], {"a": (SPENT, MOTD)}) if spent else (["a"], {}))


def test_a_host_that_the_set_means_no_more_counts_while_it_has_its_turn() -> None:
    for repaired, spent in (("configset/motd", True), ("configset/other", False), ("tuesday", False)):
        busy = node("old", visit=visiting(repaired, "uid-old", "old"), role="db")
        found = looked([node("a", "motd"), busy], config_set("motd", role="web"))
        assert begun(found) == ([] if spent else ["a"]), repaired


def test_a_host_of_which_nobody_can_tell_who_works_there_is_not_counted_where_it_is_not_meant() -> None:
    strange = node("old", role="db")
    strange.metadata.annotations[VISIT] = "garbage"
    assert begun(looked([node("a", "motd"), strange], config_set("motd", role="web"))) == ["a"]
    strange.metadata.labels["role"] = "web"
    assert begun(looked([node("a", "motd"), strange], config_set("motd", role="web"))) == []


def test_a_host_that_begins_for_another_set_counts_in_all_that_mean_it() -> None:
    hosts = [node("a", "motd"), node("b", "other", ago=9)]
    sets = config_set("motd", role="web"), config_set("other")
    found = looked(hosts, *sets)
    assert (begun(found), waiting(found)) == (["b"], {"a": (SPENT, MOTD)})
    hosts = [node("a", "motd"), node("b", "other", ago=9, role="db")]
    assert begun(looked(hosts, *sets)) == ["b", "a"], "this one it does not mean"


def test_who_asks_for_a_set_that_is_not_for_it_has_no_turn() -> None:
    found = looked([node("a", "motd", role="db")], config_set("motd", role="web"))
    assert (begun(found), waiting(found)) == ([], {"a": (UNKNOWN, MOTD)})


def test_a_set_that_is_deleted_or_gone_is_put_back_no_more() -> None:
    for sets in ([], [config_set("motd", leaving=True)]):
        found = looked([node("a", "motd")], *sets)
        assert (begun(found), waiting(found)) == ([], {"a": (UNKNOWN, MOTD)})


CONF_SET = config_set("tuesday-conf", "uid-tuesday")


def test_a_set_of_a_maintenance_has_its_budget_also_while_that_has_no_run() -> None:
    hosts = [node(name, "tuesday-conf") for name in ("a", "b", "c")]
    found = looked(hosts, CONF_SET, maintenances=[tuesday(2, "a", "b", "c")])
    assert (begun(found), waiting(found)) == (["a", "b"], {"c": (SPENT, TUESDAY)})
    found = looked(hosts, CONF_SET, maintenances=[tuesday(2, "a", "b")])
    assert waiting(found) == {"c": (UNKNOWN, TUESDAY)}, "who is not of its series"


def test_a_set_whose_maintenance_is_gone_is_put_back_no_more() -> None:
    other = MaintenanceBudget("other", "uid-other", None, [HostGroup("", ("a",))])
    found = looked([node("a", "tuesday-conf")], CONF_SET, maintenances=[other])
    assert (begun(found), {one for one, _ in waiting(found).values()}) == ([], {UNKNOWN})


def test_hosts_in_work_for_a_maintenance_count_also_when_they_have_left_its_series() -> None:
    for visit, spent in (
        (visiting("tuesday", "uid-tuesday", "old"), True),
        (visiting("configset/tuesday-conf", "uid-old", "old"), True),
        (visiting("monday", "uid-monday", "old"), False),
        (visiting("configset/motd", "uid-old", "old"), False),
    ):
        hosts = [node("a", "tuesday-conf"), node("old", visit=visit)]
        found = looked(hosts, CONF_SET, config_set("motd"), maintenances=[tuesday(1, "a")])
        assert begun(found) == ([] if spent else ["a"]), visit.maintenance


def test_a_maintenance_that_has_a_run_holds_for_all_hosts_of_its_series() -> None:
    hosts = [node("a", "motd"), node("b", alive=False, role="db")]
    sets = config_set("motd", role="web")
    found = looked(hosts, sets, maintenances=[tuesday(1, "a", "b", run="r1")])
    assert (begun(found), waiting(found)) == ([], {"a": (SPENT, TUESDAY)})
    assert begun(looked(hosts, sets, maintenances=[tuesday(1, "a", "b")])) == ["a"], "it has no run"
    assert begun(looked(hosts, sets, maintenances=[tuesday(2, "a", "b", run="r1")])) == ["a"]


def test_a_host_that_has_reported_no_drift_has_its_turn_and_one_of_something_unreadable_has_none() -> None:
    visit = visiting("configset/motd", "uid-a", "a", "r1")
    given = node("a", visit=visit)
    found = turns.turn_of(given)
    assert found is not None
    assert (found.run, found.config_set, found.until) == ("r1", "motd", visit.expires)
    given.metadata.annotations[VISIT] = "garbage"
    assert (turns.claim_of(given), turns.turn_of(given)) == (None, None)
    assert turns.claim_of(node("a")) is None
