"""The operator begins the upgrades that hosts ask for: turn, Lease, cordon, drain, task; on both servers."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta

import pytest

from nodemanager.api.common.managednode import ANNOTATION_HOLD, ANNOTATION_REBOOT, MANAGED_NODES
from nodemanager.api.maintenance.nodetask import UPGRADES, VISIT, NodeTask
from nodemanager.client.patches import MergePatch
from nodemanager.controllers import disruption, host_roles, node_maintenances
from nodemanager.controllers.disruption.holding import CordonHolder, NodeHold
from nodemanager.controllers.node_maintenances import reconciling
from nodemanager.controllers.node_maintenances.orders import Orders
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.kube import core, errors, times
from support.either import Place
from support.maintenance_site import PATIENCE, Site, site_at
from support.pretend_agents import HANG, SUCCEEDED
from support.upgrade_site import ask, holder, scheduled, tell, told, until, until_over, until_state, visit


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "BUSY_SECONDS", 0.05)


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


async def until_taken(site: Site, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(site.agents.taken) < count:  # noqa: ASYNC110 - agents of the test
            await asyncio.sleep(0.03)


async def annotate(site: Site, host: str, key: str, value: str) -> None:
    body = MergePatch({"metadata": {"annotations": {key: value}}})
    await site.client.patch(MANAGED_NODES, host, site.namespace, body)


async def test_a_host_that_asks_is_drained_upgraded_and_given_back(site: Site) -> None:
    site.agents.behave = lambda _task: HANG
    host = await scheduled(site, "a", node=True)
    await annotate(site, host, ANNOTATION_REBOOT, "always")
    await site.pod("web", host)
    slot = now()
    async with site.operator():
        run = await ask(site, host, slot)
        await until_state(site, host, State.DRAINING)
        await site.bury()
        await until_taken(site, 1)
        assert await site.is_cordoned(host)
        assert await site.pods() == []
        assert await holder(site) == f"nodemanager-operator:{host}"
        task = site.agents.taken[0].spec
        assert [step.action for step in task.steps] == ["packages", "reboot", "probe"]
        assert task.steps[1].reboot is not None
        assert task.steps[1].reboot.when == "always"
        assert task.reason is not None
        assert (task.reason.kind, task.reason.name) == ("ManagedNode", host)
        assert task.not_before == times.rfc3339(slot)
        site.agents.behave = lambda _task: SUCCEEDED
        site.agents.look()
        ended = await until_over(site, host, run)
        assert (ended.state, ended.reason, ended.group) == (State.DONE, Reason.SUCCEEDED, "")
        assert await holder(site) == ""
        await site.nothing_is_left()
        # It still asks, as its status lags behind: the slot is used.
        await annotate(site, host, "example.com/touched", "")
        await ask(site, host, slot + timedelta(seconds=1))
        await until_over(site, host, upgrade_tasks.run_of(slot + timedelta(seconds=1)))
    assert [one.spec.not_before for one in site.agents.taken] == [
        times.rfc3339(slot), times.rfc3339(slot + timedelta(seconds=1))
    ]  # fmt: skip


async def test_hosts_of_a_group_go_one_after_the_other(site: Site) -> None:
    """One of them upgrades itself, as an agent does that is older, or of the Go project."""
    hosts = [await scheduled(site, name) for name in "abc"]
    lease = {"holderIdentity": "other", "leaseDurationSeconds": 3600,
             "renewTime": times.rfc3339_micro(datetime.now(UTC))}  # fmt: skip
    await site.client.create(core.LEASES, {"metadata": {"name": "web"}, "spec": lease}, site.namespace)
    async with site.operator():
        for host in hosts:
            await ask(site, host, now())
        said = await told(site, hosts[0], "UpgradeWaiting")
        assert site.agents.taken == []
        free = {"holderIdentity": None, "leaseDurationSeconds": 1, "renewTime": "2020-01-01T00:00:00.000000Z"}
        await site.client.patch(core.LEASES, "web", site.namespace, MergePatch({"spec": free}))
        for host in hosts:
            await until(site, host, lambda one: (claim := upgrade_tasks.visit_of(one)) and not claim.holds)
    assert sorted(site.agents.hosts) == sorted(hosts)
    assert site.agents.most == 1
    assert "GroupBusy: lease/web, held by other" in said
    assert "no Kubernetes Node" in await told(site, hosts[0], "UpgradeNotDrained")


async def test_a_cordon_of_somebody_else_stays(site: Site) -> None:
    """The host is drained all the same: pods stay where a Node is only cordoned."""
    host = await scheduled(site, "a", node=True, group="")
    await site.cordon(host)
    await site.pod("web", host)
    async with site.operator():
        run = await ask(site, host, now())
        await until_state(site, host, State.DRAINING)
        await site.bury()
        ended = await until_over(site, host, run)
    assert ended.state is State.DONE
    assert await site.pods() == []
    await site.nothing_is_left(host)


async def test_a_host_that_a_maintenance_left_halted_is_not_upgraded(site: Site) -> None:
    host = await scheduled(site, "a", node=True, group="")
    begun = now()
    left = Claim("monday", "m", (await site.managed(host)).metadata.uid, "r1", 0, State.HALTED, begun, begun,
                 begun + timedelta(hours=2), cordoned=True, reason=Reason.TASK_HALTED)  # fmt: skip
    await annotate(site, host, VISIT, claims.encode(left))
    await NodeHold(site.client, host, CordonHolder(site.namespace, "monday", "m")).cordon()
    async with site.operator():
        await ask(site, host, now())
        assert "NodeCordoned: nodemaintenance/monday" in await told(site, host, "UpgradeWaiting")
        assert claims.decode((await site.managed(host)).metadata.annotations[VISIT]) == left
        assert await site.is_cordoned(host)


@pytest.mark.parametrize(
    ("slot", "until_when"),
    [("2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z"), ("0001-01-01T00:00:00+01:00", "2026-01-01T00:00:00Z")],
)
async def test_a_host_that_asks_for_an_impossible_time_stops_nobody_else(
    site: Site, slot: str, until_when: str
) -> None:
    bad, good = [await scheduled(site, name, group="") for name in "ab"]
    async with site.operator():
        await until(site, bad, lambda one: UPGRADES in one.metadata.annotations)
        await tell(site, bad, {"asks": True, "due": {"slot": slot, "until": until_when}})
        assert "ClockDiffers" in await told(site, bad, "UpgradeWaiting")
        assert (await until_over(site, good, await ask(site, good, now()))).state is State.DONE


async def test_a_drain_that_takes_too_long_is_given_up_until_the_next_slot(site: Site) -> None:
    host = await scheduled(site, "a", node=True)
    await site.pod("web", host)
    await site.protect("web")
    async with site.operator():
        ended = await until_over(site, host, await ask(site, host, now(), drain="300ms"))
        assert (ended.state, ended.reason) == (State.UNDONE, Reason.DRAIN_TIMED_OUT)
        assert await holder(site) == ""
        await site.nothing_is_left()
    assert site.agents.taken == []


async def test_a_task_that_the_api_does_not_take_ends_the_visit(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that its CustomResourceDefinition, of before, does not know: nobody waits for two hours."""

    async def invalid(*_: object) -> NodeTask | None:
        raise errors.Invalid("spec.steps[0].packages.upgrade: Unsupported value")

    monkeypatch.setattr(Orders, "create_task", invalid)
    host = await scheduled(site, "a", node=True)
    async with site.operator():
        ended = await until_over(site, host, await ask(site, host, now()))
        assert (ended.state, ended.reason) == (State.UNDONE, Reason.TASK_REFUSED)
        assert await holder(site) == ""
        await site.nothing_is_left()


@pytest.mark.parametrize("how", ["annotation", "hold"])
async def test_somebody_holds_a_host_back_that_is_being_drained(site: Site, how: str) -> None:
    host = await scheduled(site, "a", node=True)
    await site.pod("web", host)
    await site.protect("web")
    async with site.operator():
        run = await ask(site, host, now())
        await until_state(site, host, State.DRAINING)
        if how == "annotation":
            await annotate(site, host, ANNOTATION_HOLD, "")
        else:
            await site.say(host, Alive="True", Ready="True", Held="True")
        ended = await until_over(site, host, run)
        assert (ended.state, ended.reason) == (State.UNDONE, Reason.HOST_HELD)
        await site.nothing_is_left()


async def test_upgrades_and_maintenances_share_one_budget(site: Site) -> None:
    site.agents.behave = lambda _task: HANG
    hosts = [await scheduled(site, name, group="") for name in "ab"]
    budget = {"maxUnavailable": 1}
    await site.maintenance(series={"names": hosts}, budget=budget)
    async with site.operator():
        await until_taken(site, 1)
        first = site.agents.hosts[0]
        other = next(host for host in hosts if host != first)
        await ask(site, other, now())
        assert "BudgetSpent: nodemaintenance/monday" in await told(site, other, "UpgradeWaiting")
        site.agents.behave = lambda _task: SUCCEEDED
        site.agents.look()
        await site.until_phase("Succeeded")
        await until_taken(site, 3)
    assert site.agents.most == 1
    assert sorted(site.agents.hosts) == sorted([*hosts, other])


async def test_a_maintenance_waits_for_an_upgrade(site: Site) -> None:
    site.agents.behave = lambda _task: HANG
    hosts = [await scheduled(site, name, group="") for name in "ab"]
    async with site.operator():
        await ask(site, hosts[0], now())
        await until_taken(site, 1)
        await site.maintenance(series={"names": hosts}, budget={"maxUnavailable": 1})
        waiting = (await site.until(lambda one: one.status.waiting)).status.waiting
        assert {one.reason for one in waiting} == {Reason.HOST_BUSY, Reason.BUDGET_SPENT}
        busy = next(one for one in waiting if one.reason == Reason.HOST_BUSY)
        assert busy.object == f"managednode/{hosts[0]}"
        site.agents.behave = lambda _task: SUCCEEDED
        site.agents.look()
        await site.until_phase("Succeeded")
    assert (len(site.agents.taken), site.agents.most) == (3, 1)
    await site.nothing_is_left()


async def test_nobody_is_taken_from_whoever_could_drain_himself(place: Place) -> None:
    """An operator that may not drain leaves upgrades to the hosts, and gives back those that it took."""
    async with site_at(place) as site:
        host = await scheduled(site, "a")
        async with site.operator():
            await until(site, host, lambda one: UPGRADES in one.metadata.annotations)
    async with site_at(place, disruptive=False) as site:
        async with site.operator():
            await until(site, host, lambda one: UPGRADES not in one.metadata.annotations)
        assert await visit(site, host) is None


async def test_a_host_that_asks_keeps_the_right_to_the_lease_of_its_group(site: Site) -> None:
    """It needs it when its operator is gone, or its agent an older one: nobody could give it back then."""
    host = await scheduled(site, "a")

    async def may_lock(*expected: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(errors.NotFound):
                    role = await site.client.get(core.ROLES, f"nodemanager-{host}-references", site.namespace)
                    rules = [one for one in role.rules or [] if one.get("resources") == ["leases"]]
                    if [name for one in rules for name in one["resourceNames"]] == list(expected):
                        return
                await asyncio.sleep(0.05)

    entries = (node_maintenances.REGISTRATION, disruption.REGISTRATION, host_roles.REGISTRATION)
    async with site.operator(entries=entries):
        await until(site, host, lambda one: UPGRADES in one.metadata.annotations)
        await tell(site, host, {"asks": True})
        await annotate(site, host, "example.com/touched", "")
        await may_lock("web")


async def test_a_claim_that_came_back_with_a_backup_is_nobodys(site: Site) -> None:
    host = await scheduled(site, "a")
    begun = now()
    run = "upgrade-20260101t030000z"
    stale = Claim(f"managednode/{host}", "other", "other", run, 0, State.WORKING, begun,
                  begun, begun + timedelta(hours=2), task="gone", group="web")  # fmt: skip
    await annotate(site, host, VISIT, claims.encode(stale))
    lease = {"holderIdentity": f"nodemanager-operator:{host}", "leaseDurationSeconds": 9000,
             "renewTime": times.rfc3339_micro(datetime.now(UTC))}  # fmt: skip
    await site.client.create(core.LEASES, {"metadata": {"name": "web"}, "spec": lease}, site.namespace)
    async with site.operator():
        await until(site, host, lambda one: VISIT not in one.metadata.annotations)
        assert await holder(site) == ""
        assert (await until_over(site, host, await ask(site, host, now()))).state is State.DONE
