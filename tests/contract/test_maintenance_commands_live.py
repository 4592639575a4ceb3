"""The commands about maintenances with the real operator, and agents that only claim and report."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_RETRY
from nodemanager.api.maintenance.nodeoperationtemplate import NODE_OPERATION_TEMPLATES
from nodemanager.cli.maintenance import following
from support import cli
from support.either import Place
from support.maintenance_site import REBOOT, TOUCH, Site, site_at
from support.pretend_agents import HANG, SUCCEEDED


@pytest.fixture(name="site")
async def _site(place: Place) -> AsyncIterator[Site]:
    async with site_at(place) as found:
        yield found


async def run(place: Place, site: Site, *args: str) -> cli.Ran:
    where = ("--kubeconfig", str(place.kubeconfig), "-n", site.namespace)
    return await asyncio.to_thread(cli.run, *args, *where)


async def reasons(place: Place, site: Site, host: str) -> list[str]:
    ran = await run(place, site, "why", host, "-o", "json")
    assert ran.code == 0, ran
    return [one["reason"] for one in json.loads(ran.stdout)["reasons"]]


async def test_run_does_a_template_once_on_the_hosts_that_are_meant(
    place: Place, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "POLL_SECONDS", 0.1)
    hosts = [await site.host(name, role="web") for name in ("a", "b")]
    other = await site.host("c", role="db")
    template = {"metadata": {"name": "touching"}, "spec": {"steps": TOUCH}}
    await site.client.create(NODE_OPERATION_TEMPLATES, template, site.namespace)
    async with site.operator():
        ran = await run(place, site, "run", "touching", "--on", "role=web", "--now", "--timeout", "60s")
    assert ran.code == 0, ran
    assert sorted(site.agents.hosts) == sorted(hosts)
    assert other not in site.agents.hosts
    assert ran.stdout.splitlines()[-1].endswith(": Succeeded: 2 succeeded")
    name = ran.stdout.partition(":")[0]
    history = json.loads((await run(place, site, "maintenance", "history", name, "-o", "json")).stdout)
    assert [one["outcome"] for one in history["history"]] == ["Succeeded"]
    assert sorted(one["host"] for one in history["hosts"]["tasks"]) == sorted(hosts)


async def test_a_run_that_fails_stops_says_why_and_goes_on_when_it_is_told(place: Place, site: Site) -> None:
    hosts = [await site.host(name) for name in ("a", "b")]
    site.agents.behave = lambda task: "Failed" if task.spec.node_name == hosts[0] else SUCCEEDED
    async with site.operator():
        await site.maintenance()
        await site.until_phase("Stopped")
        assert await reasons(place, site, hosts[0]) == ["TaskFailed"], "it is said once"
        assert await reasons(place, site, hosts[1]) == ["Stopped"]
        site.agents.behave = lambda _task: SUCCEEDED
        ran = await run(place, site, "maintenance", "retry", "monday")
        assert (ran.code, "1 host that failed will be tried again" in ran.stdout) == (0, True), ran
        found = await site.until_phase("Succeeded")
        await site.until(lambda one: ANNOTATION_RETRY not in one.metadata.annotations)
    assert found.status.hosts is not None
    assert found.status.hosts.succeeded == 2


async def test_abort_lets_the_host_in_work_end_and_begins_with_no_other(place: Place, site: Site) -> None:
    hosts = [await site.host(name) for name in ("a", "b")]
    site.agents.behave = lambda _task: HANG
    async with site.operator():
        await site.maintenance()
        await site.until(lambda one: one.status.hosts is not None and one.status.hosts.running == 1)
        while await reasons(place, site, hosts[0]) not in (["Working"], ["TaskNotTaken"]):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert await reasons(place, site, hosts[1]) == ["BudgetSpent"]
        ran = await run(place, site, "maintenance", "abort", "monday")
        assert (ran.code, "1 host in work will be finished" in ran.stdout) == (0, True), ran
        site.agents.behave = lambda _task: SUCCEEDED
        site.agents.look()
        found = await site.until(lambda one: one.status.history)
    assert found.status.history[0].outcome == "Aborted"
    assert site.agents.hosts == [hosts[0]]


async def test_a_plan_names_the_budgets_that_would_keep_pods(place: Place, site: Site) -> None:
    host, off = await site.host("a", node=True), await site.host("b")
    for pod in ("web", "free"):
        await site.pod(pod, host)
    await site.protect("web")
    reboot = {"name": "boot", "type": "one-shot", "steps": REBOOT}
    await site.maintenance(operations=[reboot])
    plan = json.loads((await run(place, site, "maintenance", "plan", "monday", "-o", "json")).stdout)
    found = {one["host"]: (one["disruption"], one["pods"], one["keptBy"]) for one in plan["hosts"]}
    assert found == {
        host: ("reboot", 2, [f"{site.namespace}/web"]), off: ("reboot", None, []),
    }, "a host that is no Node has no pods"  # fmt: skip
    shown = (await run(place, site, "maintenance", "plan", "monday")).stdout
    assert "Pods that have to leave:" in shown
    assert max(map(len, shown.splitlines())) <= 80


async def test_why_names_what_keeps_a_drain_from_ending(place: Place, site: Site) -> None:
    host = await site.host("a", node=True)
    await site.pod("web", host)
    await site.protect("web")
    async with site.operator():
        await site.maintenance(operations=[{"name": "boot", "type": "one-shot", "steps": REBOOT}])
        while await reasons(place, site, host) != ["Draining"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        ran = await run(place, site, "why", host)
        said = f"1 pod left on the Node, kept by poddisruptionbudget {site.namespace}/web"
        assert said in " ".join(ran.stdout.split()), ran
        await site.unprotect("web")
        async with asyncio.timeout(90):
            while (await site.status()).status.phase != "Succeeded":
                await site.bury()
                await asyncio.sleep(0.05)


async def test_what_was_approved_before_it_began_begins(place: Place, site: Site) -> None:
    """The hash that the command works out is the operator's, also before there is a run."""
    await site.host("a")
    now = site.now()
    later = now + timedelta(hours=2)
    schedule: dict[str, Any] = {
        "cron": f"0 {later.hour} {later.day} {later.month} *", "duration": "3h", "timeZone": "UTC"
    }  # fmt: skip
    await site.maintenance(window={"schedules": [schedule]}, approval={"required": True})
    plan = json.loads((await run(place, site, "maintenance", "plan", "monday", "-o", "json")).stdout)
    assert plan["hosts"][0]["reason"] == "WindowClosed"
    ran = await run(place, site, "maintenance", "approve", "monday", "--yes", "--hash", plan["hash"])
    assert ran.code == 0, ran
    site.shift = later.replace(minute=5)
    async with site.operator():
        found = await site.until_phase("Succeeded")
    assert found.status.plan is not None
    assert found.status.plan.hash == plan["hash"]


async def test_a_run_waits_for_the_yes_and_a_pause_for_resume(place: Place, site: Site) -> None:
    host = await site.host("a")
    async with site.operator():
        await site.maintenance(approval={"required": True}, paused=True)
        await site.until_phase("Paused")
        assert await reasons(place, site, host) == ["Paused"]
        assert (await run(place, site, "maintenance", "resume", "monday")).code == 0
        await site.until_phase("WaitingForApproval")
        assert await reasons(place, site, host) == ["NotApproved"]
        assert (await run(place, site, "maintenance", "approve", "monday", "--yes")).code == 0
        await site.until_phase("Succeeded")
        assert await reasons(place, site, host) == ["NothingDue"]
