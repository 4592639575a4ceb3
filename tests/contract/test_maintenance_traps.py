"""What other tools of this kind get wrong, each as a test of what this one does instead.

 1  a budget is no cap once something else is set     test_trap_1_*
 2  the stop rule switches itself off                 test_trap_2_* in unit/fleet/test_maintenance_decide.py
 3  the end of the window does not end the rollout    test_trap_3_*
 4  what is exclusive is so on one host only          test_trap_4_*
 5  whoever cordoned a Node, it is uncordoned         test_trap_5_*
 6  a restart of the agent counts as a reboot         test_trap_6_*
 7  after a failed drain a foreign cordon is gone     test_trap_7_*
 8  an overnight window is shut after midnight        test_trap_8_* in unit/fleet/test_windows.py
 9  a drain only deletes, and waits for nothing       test_trap_9_*
10  a reboot that failed reads as done                test_trap_10_*
11  a drain always succeeds, and has no limit         test_trap_11_*
12  zones follow each other without a soak            test_trap_12_*
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.client.patches import MergePatch
from nodemanager.controllers.node_maintenances import reconciling
from nodemanager.kube import core
from support.maintenance_site import REBOOT, TOUCH, Site
from support.pretend_agents import HANG

ONCE = "one-shot"


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "BUSY_SECONDS", 0.1)
    monkeypatch.setattr(reconciling, "LOOK_SECONDS", 0.5)


def reboots(**more: Any) -> list[dict[str, Any]]:
    return [{"name": "work", "type": ONCE, "steps": REBOOT, **more}]


async def until_taken(site: Site, count: int) -> None:
    async with asyncio.timeout(90):
        while len(site.agents.taken) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def settled(site: Site, name: str = "monday") -> None:
    """Wait until the operator has looked at a change, and has nothing to do about it."""
    found = await site.status(name)
    await site.change(name, parallelism=(found.spec.parallelism or 100) + 1)
    await site.until(lambda one: one.status.observed_generation == one.metadata.generation, name)


async def test_trap_1_a_budget_is_a_cap_whatever_else_is_set(site: Site) -> None:
    """Canaries, groups and parallelism decide who goes, never how many: not even of two maintenances."""
    for number in range(6):
        await site.host(f"n{number}", rack=str(number % 2))
    site.agents.behave = lambda _task: HANG
    for name in ("monday", "tuesday"):
        await site.maintenance(
            name,
            budget={"maxUnavailable": 2},
            parallelism=6,
            series={"canaries": {"matchLabels": {"rack": "0"}}, "groupBy": "rack"},
        )
    async with site.operator():
        await until_taken(site, 2)
        await settled(site)
        await settled(site, "tuesday")
        assert (len(site.agents.taken), len(await site.visits())) == (2, 2)
        site.agents.behave = lambda _task: "Succeeded"
        site.agents.look()
        await site.until_phase("Succeeded")
        await site.until_phase("Succeeded", name="tuesday")
    assert (len(site.agents.taken), site.agents.refused) == (12, [])
    assert site.agents.most <= 2


async def test_trap_1_hosts_that_others_broke_count_too(site: Site) -> None:
    hosts = [await site.host("a", node=True), await site.host("b"), await site.host("c")]
    await site.cordon(hosts[0])
    await site.say(hosts[1], Alive="False")
    await site.maintenance(budget={"maxUnavailable": 2}, series={"names": hosts})
    async with site.operator():
        found = await site.until(lambda one: len(one.status.waiting) == 3)
        assert {one.reason for one in found.status.waiting} == {"NodeCordoned", "HostSilent", "BudgetSpent"}
        assert site.agents.taken == []
        await site.say(hosts[1], Alive="True", Ready="True")
        await site.until(lambda one: one.status.hosts is not None and one.status.hosts.succeeded == 2)
    assert set(site.agents.hosts) == set(hosts[1:])
    await site.nothing_is_left(hosts[0])


async def test_trap_3_the_end_of_the_window_ends_the_rollout(site: Site) -> None:
    hosts = [await site.host(name) for name in ("a", "b")]
    site.agents.behave = lambda _task: HANG
    closes = datetime.now(UTC) + timedelta(hours=1)
    until = closes.strftime("%Y-%m-%dT%H:%M:%SZ")
    await site.maintenance(window={"always": True, "validUntil": until})
    async with site.operator():
        await until_taken(site, 1)
        site.shift = closes + timedelta(seconds=1)
        site.agents.behave = lambda _task: "Succeeded"
        site.agents.look()
        found = await site.until_phase("WaitingForWindow")
        assert found.status.hosts is not None
        assert (found.status.hosts.succeeded, found.status.hosts.waiting) == (1, 1)  # in work: finished
        await settled(site)
    assert site.agents.hosts == hosts[:1]
    await site.nothing_is_left()


async def test_trap_3_a_task_is_told_when_the_window_closes_if_it_shall_stop_then(site: Site) -> None:
    await site.host("a")
    closes = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    window = {"always": True, "validUntil": closes}
    for name, policy in (("m1", "stop"), ("m2", "abortAndUndo"), ("m3", "finishHost")):
        await site.maintenance(name, window={**window, "onClose": policy}, activeDeadlineSeconds=7200)
    async with site.operator():
        for name in ("m1", "m2", "m3"):
            await site.until_phase("Succeeded", name=name)
    by_name = {task.spec.reason.name: task for task in site.agents.taken if task.spec.reason is not None}
    assert by_name["m1"].spec.deadline == by_name["m2"].spec.deadline == closes
    assert by_name["m3"].spec.deadline > closes
    assert [step.on_failure for step in by_name["m2"].spec.steps] == ["undo"]
    assert [step.on_failure for step in by_name["m1"].spec.steps] == [""]


async def test_trap_4_one_visit_per_host_and_one_ceiling_for_the_whole_fleet(site: Site) -> None:
    """Two maintenances of the same hosts take turns, and share what may be unavailable."""
    for name in ("a", "b", "c"):
        await site.host(name)
    await site.maintenance("m1")
    await site.maintenance("m2")
    async with site.operator():
        await site.until_phase("Succeeded", name="m1")
        await site.until_phase("Succeeded", name="m2")
    assert (len(site.agents.taken), site.agents.most, site.agents.refused) == (6, 1, [])


async def test_trap_5_a_node_that_somebody_else_cordoned_stays_so(site: Site) -> None:
    """It is not begun with, either, until whoever cordoned it is done."""
    host = await site.host("a", node=True)
    await site.cordon(host)
    await site.maintenance(operations=reboots())
    async with site.operator():
        found = await site.until(lambda one: one.status.waiting)
        assert (found.status.waiting[0].reason, found.status.waiting[0].object) == (
            "NodeCordoned",
            f"node/{host}",
        )
        await settled(site)
        assert site.agents.taken == []
        await site.nothing_is_left(host)
        await site.client.patch(core.NODES, host, "", MergePatch({"spec": {"unschedulable": None}}))
        await site.until_phase("Succeeded")
    await site.nothing_is_left()


async def test_trap_6_only_a_proven_reboot_counts_as_one(site: Site) -> None:
    """An agent that only came back, and reports success, has proven nothing: the boot is the same."""
    await site.host("a")
    site.agents.reboots = False
    await site.maintenance(operations=reboots())
    async with site.operator():
        found = await site.until(lambda one: any(w.reason == "Proving" for w in one.status.waiting))
        await settled(site)
        assert found.status.phase == "Running"
        claim = next(iter((await site.visits()).values()))
        assert "Proving" in claim
        site.shift = datetime.now(UTC) + timedelta(minutes=11)
        await site.until_phase("Stopped")
    host = await site.client.get(MANAGED_NODES, site.agents.hosts[0], site.namespace)
    assert '"NotProven"' in host.metadata.annotations["maintenance.nodemanager/visit"]
    # Another maintenance visits the host, and takes over the claim: the first one stays failed.
    site.agents.reboots = True
    await site.maintenance("tuesday", operations=[{"name": "o", "type": "one-shot", "steps": TOUCH}])
    async with site.operator():
        await site.until_phase("Succeeded", name="tuesday")
        await site.change(parallelism=2)  # so that it looks again
        found = await site.until(lambda one: one.status.observed_generation == one.metadata.generation)
    assert found.status.hosts is not None
    assert (found.status.phase, found.status.hosts.failed) == ("Stopped", 1)


async def test_trap_7_a_failed_drain_leaves_a_foreign_cordon_alone(site: Site) -> None:
    """Somebody cordons the Node between our look and our order: it is theirs, and stays so."""
    host = await site.host("a", node=True)
    await site.pod("web", host)
    await site.protect("web")
    drain = {"timeout": "1s", "onTimeout": "skip"}
    await site.maintenance(operations=reboots(), disruption={"drain": drain})
    async with site.operator():
        await site.until(lambda one: any(w.reason == "Draining" for w in one.status.waiting))
        # An administrator takes it over: their cordon has no mark of ours.
        mark = {"maintenance.nodemanager/cordoned-by": None}
        body = MergePatch({"metadata": {"annotations": mark}, "spec": {"unschedulable": True}})
        await site.client.patch(core.NODES, host, "", body)
        await site.until_phase("Succeeded", "Failed")
    await site.nothing_is_left(host)


async def test_trap_9_a_drain_evicts_and_waits_and_the_task_comes_after(site: Site) -> None:
    host = await site.host("a", node=True)
    await site.pod("web", host)
    await site.maintenance(operations=reboots(), disruption={"drain": {"gracePeriodSeconds": 30}})
    async with site.operator():
        await site.until(lambda one: any(w.reason == "Draining" for w in one.status.waiting))
        await settled(site)
        web = await site.client.get(core.PODS, "web", site.namespace)
        assert web["metadata"]["deletionGracePeriodSeconds"] == 30  # the eviction says so, not the pod
        assert site.agents.taken == []  # it is on its way out, and not gone
        await site.bury()
        await site.until_phase("Succeeded")
    assert site.agents.hosts == [host]


async def test_trap_10_a_reboot_that_failed_does_not_read_as_done(site: Site) -> None:
    hosts = [await site.host(name) for name in ("a", "b")]
    site.agents.behave = lambda _task: "Failed"
    await site.maintenance(operations=reboots())
    async with site.operator():
        found = await site.until_phase("Stopped")
        await settled(site)
    assert found.status.hosts is not None
    assert (found.status.hosts.failed, found.status.hosts.succeeded) == (1, 0)
    assert site.agents.hosts == hosts[:1]


async def test_trap_11_a_drain_that_did_not_work_is_no_success_and_has_a_limit(site: Site) -> None:
    hosts = [await site.host("a", node=True), await site.host("b", node=True)]
    await site.pod("web", hosts[0])
    await site.protect("web")
    await site.maintenance(operations=reboots(), disruption={"drain": {"timeout": "1s", "onTimeout": "stop"}})
    async with site.operator():
        found = await site.until_phase("Stopped")
        await settled(site)
    assert found.status.hosts is not None
    assert (found.status.hosts.failed, found.status.hosts.waiting) == (1, 1)
    assert (site.agents.taken, await site.pods()) == ([], ["web"])
    await site.nothing_is_left()


async def test_trap_12_a_zone_has_soaked_before_the_next_one_begins(site: Site) -> None:
    hosts = [await site.host(name, zone=zone) for name, zone in (("a", "1"), ("b", "2"), ("c", "1"))]
    now = site.shift = datetime.now(UTC)
    await site.maintenance(budget={"maxUnavailable": 3}, series={"groupBy": "zone"}, soak="1h")
    async with site.operator():
        await site.until(lambda one: any(w.reason == "Soaking" and w.hosts == 2 for w in one.status.waiting))
        site.shift = now + timedelta(minutes=59)
        await settled(site)
        found = await site.status()
        assert {one.reason: one.first for one in found.status.waiting} == {
            "Soaking": [hosts[0], hosts[2]], "EarlierGroup": [hosts[1]],
        }  # fmt: skip
        assert sorted(site.agents.hosts) == [hosts[0], hosts[2]]  # they go side by side
        site.shift = now + timedelta(minutes=65)
        await until_taken(site, 3)
    assert site.agents.hosts[2:] == [hosts[1]]


async def test_a_host_that_is_protected_gives_its_turn_to_the_next(site: Site) -> None:
    """One of three cannot be drained: the others do not wait behind it once it was given back."""
    hosts = [await site.host(name, node=True) for name in ("a", "b", "c")]
    await site.pod("web", hosts[0])
    await site.protect("web")
    await site.maintenance(
        operations=reboots(), backoffLimit=1, disruption={"drain": {"timeout": "1s", "onTimeout": "skip"}}
    )
    async with site.operator():
        await until_taken(site, 2)
        assert site.agents.hosts == hosts[1:]
        await site.unprotect("web")
        site.shift = datetime.now(UTC) + timedelta(minutes=5)
        async with asyncio.timeout(90):
            while await site.pods():
                await site.bury()
        await site.until_phase("Succeeded")
    assert site.agents.hosts == [*hosts[1:], hosts[0]]
    await site.nothing_is_left()
