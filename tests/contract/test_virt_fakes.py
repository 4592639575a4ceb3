"""What the controllers of tests/support/virt do, before both servers: each fact of KubeVirt that they follow.

Tests of what a site shows of them are in test_edge_virtual_machines.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from nodemanager.kube import core
from nodemanager.kube.objects import Untyped
from support import foreign_kinds
from support.agent_process import Api
from support.either import Place
from support.scripted_server import until
from support.virt import asking, draining, instances, running
from support.virt.cluster import VirtCluster
from support.virt.kinds import (
    BUDGETS,
    DATA_VOLUMES,
    DEFINED,
    INSTANCES,
    KUBEVIRTS,
    MACHINES,
    MIGRATIONS,
    data_volume,
    machine,
    named,
    phase_of,
)

pytestmark = [pytest.mark.usefixtures("place"), pytest.mark.timeout(120)]


@pytest.fixture(name="known")
def _known(place: Place) -> Iterator[None]:
    with foreign_kinds.defined(place, DEFINED):
        yield


@pytest.fixture(name="cluster")
async def _cluster(api: Api, known: None) -> AsyncIterator[VirtCluster]:
    cluster = VirtCluster(api.client, api.namespace)
    yield cluster
    await cluster.clear()


async def shown(cluster: VirtCluster, name: str) -> tuple[str, str]:
    """Return the word for a machine, and the phase of its instance ("-": it has none)."""
    one = await cluster.get(MACHINES, name)
    found = [each for each in await cluster.all_of(INSTANCES) if named(each) == name]
    return one.get("status", {}).get("printableStatus", ""), phase_of(found[0]) if found else "-"


async def walk(cluster: VirtCluster, name: str, most: int = 20) -> list[tuple[str, str]]:
    """Step until nothing moves; returns what was shown, each thing once in a row."""
    told: list[tuple[str, str]] = []
    for _ in range(most):
        moved = await running.step(cluster)
        now = await shown(cluster, name)
        if not told or told[-1] != now:
            told.append(now)
        if not moved:
            return told
    raise AssertionError(told)


def said(instance: Untyped) -> dict[str, tuple[str, str]]:
    """Return conditions as status and reason."""
    found = instance.get("status", {}).get("conditions") or ()
    return {one["type"]: (one["status"], one.get("reason", "")) for one in found}


async def test_a_machine_starts_and_stops(cluster: VirtCluster) -> None:
    await cluster.create(MACHINES, machine("db"))
    told = await walk(cluster, "db")
    phases = [phase for _, phase in told if phase != "-"]
    assert list(dict.fromkeys(phases)) == ["", "Pending", "Scheduling", "Scheduled", "Running"]
    assert list(dict.fromkeys(word for word, _ in told)) == ["Stopped", "Starting", "Running"]
    one = await cluster.get(INSTANCES, "db")
    assert one["status"]["nodeName"] == "a"
    assert said(one)["Ready"][0] == "True"
    assert {each["lastTransitionTime"] for each in one["status"]["conditions"]} == {None}
    await asking.stop(cluster, "db")
    assert (await cluster.get(MACHINES, "db"))["spec"]["runStrategy"] == "Halted"
    told = await walk(cluster, "db")
    assert told == [("Running", "Running"), ("Stopping", "Succeeded"), ("Stopping", "-"), ("Stopped", "-")]
    assert await cluster.all_of(core.PODS) == [], "a stop is over when the pod is gone, too"
    await asking.start(cluster, "db")
    assert (await walk(cluster, "db"))[-1] == ("Running", "Running")


@pytest.mark.parametrize(
    ("strategy", "after_failure", "after_success"),
    [
        ("Always", ("Running", "Running"), ("Running", "Running")),
        ("RerunOnFailure", ("Running", "Running"), ("Stopped", "Succeeded")),
        ("Once", ("Stopped", "Failed"), ("Stopped", "Succeeded")),
    ],
)
async def test_run_strategies(
    cluster: VirtCluster, strategy: str, after_failure: tuple[str, str], after_success: tuple[str, str]
) -> None:
    for name, phase, after in (("bad", "Failed", after_failure), ("good", "Succeeded", after_success)):
        await cluster.create(MACHINES, machine(name, strategy))
        await running.settle(cluster)
        assert await shown(cluster, name) == ("Running", "Running")
        await cluster.patch(INSTANCES, await cluster.get(INSTANCES, name), status={"phase": phase})
        await running.settle(cluster)
        assert await shown(cluster, name) == after


async def test_a_machine_that_is_started_by_hand_or_not_at_all(cluster: VirtCluster) -> None:
    for name, strategy in (("hand", "Manual"), ("off", "Halted")):
        await cluster.create(MACHINES, machine(name, strategy))
    await running.settle(cluster)
    assert await shown(cluster, "hand") == await shown(cluster, "off") == ("Stopped", "-")
    await asking.start(cluster, "hand")
    await running.settle(cluster)
    assert await shown(cluster, "hand") == ("Running", "Running")
    await asking.stop(cluster, "hand")
    await running.settle(cluster)
    assert await shown(cluster, "hand") == ("Stopped", "-")


async def test_what_can_be_moved_live(cluster: VirtCluster) -> None:
    for name, access in (("shared", "ReadWriteMany"), ("alone", "ReadWriteOnce")):
        await cluster.create(DATA_VOLUMES, data_volume(f"disk-{name}", access))
        await cluster.create(MACHINES, machine(name, volumes=[f"disk-{name}"]))
    await cluster.create(MACHINES, machine("bridged", bridged=True))
    await running.settle(cluster)
    found = {named(one): said(one)["LiveMigratable"] for one in await cluster.all_of(INSTANCES)}
    assert found == {
        "shared": ("True", ""),
        "alone": ("False", instances.DISKS),
        "bridged": ("False", instances.INTERFACE),
    }
    with pytest.raises(asking.Denied, match="Cannot migrate VMI, Reason: DisksNotLiveMigratable"):
        await asking.migrate(cluster, "alone")


async def moved(cluster: VirtCluster, name: str = "move-db") -> str:
    return phase_of(await cluster.get(MIGRATIONS, name))


async def test_a_migration_goes_through_its_phases(cluster: VirtCluster) -> None:
    await cluster.create(MACHINES, machine("db"))
    await running.settle(cluster)
    await asking.migrate(cluster, "db")
    phases, words, times = [], [], set()
    for _ in range(12):
        await running.step(cluster)
        phases.append(await moved(cluster))
        words.append((await shown(cluster, "db"))[0])
        state = (await cluster.get(INSTANCES, "db"))["status"].get("migrationState") or {}
        times.add((phases[-1], "startTimestamp" in state, "endTimestamp" in state))
    assert list(dict.fromkeys(phases)) == [
        "Pending", "Scheduling", "Scheduled", "PreparingTarget", "TargetReady", "Running", "Succeeded",
    ]  # fmt: skip
    assert [word for word, before in zip(words, ["", *words], strict=False) if word != before] == [
        "Running", "Migrating", "Running",
    ]  # fmt: skip
    assert ("Running", True, False) in times
    assert ("Succeeded", True, True) in times
    one = await cluster.get(INSTANCES, "db")
    state = one["status"]["migrationState"]
    assert (one["status"]["nodeName"], state["sourceNode"], state["targetNode"]) == ("b", "a", "b")
    assert (state["completed"], state.get("failed")) == (True, None)
    assert [one["spec"]["nodeName"] for one in await cluster.all_of(core.PODS)] == ["b"]


async def test_a_migration_that_fails_or_is_deleted_leaves_the_instance_where_it_is(
    cluster: VirtCluster,
) -> None:
    await cluster.create(MACHINES, machine("db"))
    await running.settle(cluster)
    cluster.faults.migrations_fail = "the link is lost"
    await asking.migrate(cluster, "db", "first")
    await running.settle(cluster)
    state = (await cluster.get(INSTANCES, "db"))["status"]["migrationState"]
    assert (await moved(cluster, "first"), state["failed"], state["failureReason"]) == (
        "Failed", True, "the link is lost",
    )  # fmt: skip
    cluster.faults.migrations_fail, cluster.faults.migrations_hang = "", True
    await asking.migrate(cluster, "db", "second")
    await running.settle(cluster)
    assert await moved(cluster, "second") == "Running", "it hangs"
    state = (await cluster.get(INSTANCES, "db"))["status"]["migrationState"]
    assert "endTimestamp" not in state, "nothing is left of the one before"
    await cluster.delete(MIGRATIONS, await cluster.get(MIGRATIONS, "second"))
    await running.settle(cluster)
    assert [named(one) for one in await cluster.all_of(MIGRATIONS)] == ["first"]
    one = await cluster.get(INSTANCES, "db")
    assert (one["status"]["nodeName"], one["status"]["migrationState"]["abortStatus"]) == ("a", "Succeeded")
    assert [one["spec"]["nodeName"] for one in await cluster.all_of(core.PODS)] == ["a"]


async def test_no_migration_begins_above_the_limit_nor_without_another_node(cluster: VirtCluster) -> None:
    limited = {"configuration": {"migrations": {"parallelMigrationsPerCluster": 0}}}
    kind = {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt"}}
    await cluster.create(KUBEVIRTS, {**kind, "spec": limited})
    for name in ("db", "web"):
        await cluster.create(MACHINES, machine(name))
    await running.settle(cluster)
    for name in ("db", "web"):
        await asking.migrate(cluster, name)
    await running.settle(cluster)
    assert {phase_of(one) for one in await cluster.all_of(MIGRATIONS)} == {"Pending"}
    settings = await cluster.get(KUBEVIRTS, "kubevirt")
    limited["configuration"]["migrations"]["parallelMigrationsPerCluster"] = 1
    await cluster.patch(KUBEVIRTS, settings, spec=limited)
    del cluster.nodes["b"]
    await running.settle(cluster)
    phases = {named(one): phase_of(one) for one in await cluster.all_of(MIGRATIONS)}
    assert phases == {"move-db": "Scheduling", "move-web": "Pending"}, "one has no node to go to, one waits"


async def test_drains(cluster: VirtCluster) -> None:
    for name, access in (("shared", "ReadWriteMany"), ("alone", "ReadWriteOnce")):
        await cluster.create(DATA_VOLUMES, data_volume(name, access))
    wanted = {
        "live": ("LiveMigrate", "shared"), "blocked": ("LiveMigrate", "alone"),
        "either": ("LiveMigrateIfPossible", "alone"),
        "outside": ("External", "shared"), "none": ("None", "shared"),
    }  # fmt: skip
    for name, (kind, disk) in wanted.items():
        await cluster.create(MACHINES, machine(name, "Once", eviction=kind, volumes=[disk]))
    await running.settle(cluster)
    budgets = {
        named(one).removeprefix("kubevirt-disruption-budget-") for one in await cluster.all_of(BUDGETS)
    }
    assert budgets == {"live", "blocked", "outside"}
    uid = (await cluster.get(INSTANCES, "live"))["metadata"]["uid"]
    assert await asking.evict(cluster, uid, "a") == "refused", "by the server, as there is a budget"
    assert await asking.drain(cluster, "a") == {
        "live": "evacuates", "outside": "evacuates", "blocked": "refused", "either": "evicted",
        "none": "evicted",
    }  # fmt: skip
    await running.step(cluster)
    (made,) = await cluster.all_of(MIGRATIONS)
    assert (made["metadata"]["generateName"], made["spec"]["vmiName"]) == (draining.PREFIX, "live")
    await running.settle(cluster)
    where = {
        named(one): (phase_of(one), one["status"]["nodeName"], one["status"].get("evacuationNodeName"))
        for one in await cluster.all_of(INSTANCES)
    }
    assert where == {
        "live": ("Running", "b", None), "blocked": ("Running", "a", None), "outside": ("Running", "a", "a"),
        "either": ("Succeeded", "a", None), "none": ("Succeeded", "a", None),
    }  # fmt: skip


async def test_what_the_cluster_says_of_drains_counts_where_an_instance_is_silent(
    cluster: VirtCluster,
) -> None:
    kind = {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt"}}
    await cluster.create(KUBEVIRTS, {**kind, "spec": {"configuration": {"evictionStrategy": "LiveMigrate"}}})
    await cluster.create(MACHINES, machine("db"))
    await running.settle(cluster)
    assert await asking.drain(cluster, "a") == {"db": "evacuates"}
    await running.settle(cluster)
    assert (await cluster.get(INSTANCES, "db"))["status"]["nodeName"] == "b"


async def test_an_instance_of_a_lost_node_says_running_until_its_pod_is_gone(cluster: VirtCluster) -> None:
    await cluster.create(MACHINES, machine("db", "RerunOnFailure"))
    await running.settle(cluster)
    cluster.nodes["a"].lost = True
    await running.settle(cluster)
    one = await cluster.get(INSTANCES, "db")
    assert (phase_of(one), said(one)["Ready"]) == ("Running", ("True", "")), "nobody has noticed"
    await asking.not_ready(cluster, "a")
    await running.settle(cluster)
    one = await cluster.get(INSTANCES, "db")
    assert (phase_of(one), said(one)["Ready"]) == ("Running", ("False", "NodeNotReady"))
    assert said(one)["LiveMigratable"] == ("True", ""), "virt-handler said so, and is gone"
    await asking.give_up(cluster, "a")
    await running.step(cluster)
    one = await cluster.get(INSTANCES, "db")
    assert (phase_of(one), one["status"]["reason"]) == ("Failed", instances.UNRESPONSIVE)
    await running.settle(cluster)
    one = await cluster.get(INSTANCES, "db")
    assert (phase_of(one), one["status"]["nodeName"]) == ("Running", "b"), "it is started elsewhere"


async def test_there_may_be_no_node_to_run_on_and_somebody_may_pause_a_guest(cluster: VirtCluster) -> None:
    for one in cluster.nodes.values():
        one.cordoned = True
    await cluster.create(MACHINES, machine("db"))
    await running.settle(cluster)
    assert await shown(cluster, "db") == ("ErrorUnschedulable", "Scheduling")
    cluster.nodes["b"].cordoned = False
    await running.settle(cluster)
    assert await shown(cluster, "db") == ("Running", "Running")
    cluster.paused.add("db")
    await running.settle(cluster)
    assert await shown(cluster, "db") == ("Paused", "Running")


async def test_controllers_that_are_down_leave_everything_as_it_was(cluster: VirtCluster) -> None:
    await cluster.create(MACHINES, machine("db"))
    await running.settle(cluster)
    cluster.faults.down = True
    await asking.stop(cluster, "db")
    await running.settle(cluster)
    assert await shown(cluster, "db") == ("Running", "Running")
    cluster.faults.down = False
    await running.settle(cluster)
    assert await shown(cluster, "db") == ("Stopped", "-")


async def test_they_act_on_what_they_watch(cluster: VirtCluster, place: Place) -> None:
    async with running.watching(cluster):
        await cluster.create(MACHINES, machine("db"))
        word = ("get", "virtualmachine", "db", "-o", "jsonpath={.status.printableStatus}")
        await until(lambda: place.kubectl(*word) == "Running")
