"""What has to be approved, by whom, and how long that counts: with operator and commands, on both servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.cli.maintenance import identity
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import conditions
from support import cli
from support.editors import editor
from support.either import Place
from support.maintenance_site import Site, site_at

SSHD: dict[str, Any] = {
    "name": "sshd", "type": "realtime",
    "configSet": {"files": [{"path": "/etc/ssh/x.conf", "mode": "0600", "content": "PermitRootLogin no\n"}]},
}  # fmt: skip


@pytest.fixture(name="site")
async def _site(place: Place) -> AsyncIterator[Site]:
    async with site_at(place, disruptive=False) as site:
        yield site


async def approve(site: Site, who: Client, plan_hash: str) -> None:
    """Say yes, as somebody."""
    user = await identity.whoami(who, "approve")
    spec = {"maintenance": "monday", "planHash": plan_hash, "approver": user}
    body = {"metadata": {"generateName": "yes-"}, "spec": spec}
    await who.create(MAINTENANCE_APPROVALS, body, site.namespace)


async def run(place: Place, *args: str) -> cli.Ran:
    where = ("--kubeconfig", str(place.kubeconfig), "-n", place.namespace)
    return await asyncio.to_thread(cli.run, *args, *where)


def looked_at(found: NodeMaintenance) -> int:
    return found.status.observed_generation


def plan_hash(found: NodeMaintenance) -> str:
    return found.status.plan.hash if found.status.plan is not None else ""


def realtime_hash(found: NodeMaintenance) -> str:
    return found.status.realtime.hash if found.status.realtime is not None else ""


def is_kept(status: str, reason: str) -> Callable[[NodeMaintenance], bool]:
    def holds(found: NodeMaintenance) -> bool:
        said = conditions.get(found.status.conditions, "RealtimeKept")
        return said is not None and (said.status, said.reason) == (status, reason)

    return holds


async def test_whoever_asked_for_it_does_not_approve_it(place: Place, site: Site) -> None:
    host = await site.host("a")
    requester = await identity.whoami(site.client, "ask")
    async with site.operator(), editor(place, "jane") as jane:
        asked = {"required": True, "differentUser": True, "requester": requester}
        await site.maintenance(approval=asked)
        waits = await site.until(plan_hash)
        await approve(site, site.client, plan_hash(waits))
        ran = await run(place, "maintenance", "approve", "monday", "--yes")
        assert f"cannot approve monday: {requester} changed it last" in ran.stderr
        # Jane changes it: what the other approved was another's plan, and she cannot approve her own.
        name = await identity.whoami(jane, "ask")
        change = MergePatch({"spec": {"stopAfter": 2, "approval": {"requester": name}}})
        await jane.patch(NODE_MAINTENANCES, "monday", site.namespace, change)
        hers = await site.until(lambda found: plan_hash(found) not in ("", plan_hash(waits)))
        await approve(site, jane, plan_hash(hers))
        await site.change(paused=True)  # so that it looks again, and sees her yes
        await site.until(lambda found: looked_at(found) >= 3)
        await site.change(paused=False)
        again = await site.until(lambda found: looked_at(found) >= 4)
        assert [one.reason for one in again.status.waiting] == ["NotApproved"]
        assert site.agents.taken == []
        ran = await run(place, "maintenance", "approve", "monday", "--yes")
        assert f"monday is approved by {requester}" in ran.stdout, ran
        await site.until_phase("Succeeded")
        assert site.agents.hosts == [host]


async def test_realtime_is_enforced_after_a_yes_and_no_more_after_a_change(place: Place, site: Site) -> None:
    await site.host("a", role="web")

    async def made() -> ConfigSet | None:
        found = (await site.client.list(CONFIG_SETS, Selection(site.namespace))).items
        return found[0] if found else None

    def openings(found: ConfigSet | None) -> int:
        assert found is not None
        assert found.spec.enforcement is not None
        return len(found.spec.enforcement.openings)

    series = {"selector": {"matchLabels": {"role": "web"}}}
    async with site.operator():
        await site.maintenance(operations=[SSHD], series=series, approval={"required": True})
        waits = await site.until(is_kept("False", "NotApproved"))
        assert waits.status.phase == "WaitingForApproval"
        assert await made() is None
        first = realtime_hash(waits)
        ran = await run(place, "maintenance", "approve", "monday", "--yes", "--hash", first)
        assert ran.code == 0, ran.stderr
        assert "not enforced yet" in ran.stdout
        await site.until(is_kept("True", "Kept"))
        assert openings(await made()) == 1
        # Another host of the series is meant by what was approved; pausing changes nothing of it, either.
        await site.host("b", role="web")
        await site.change(paused=True)
        paused = await site.until(lambda found: found.status.observed_generation >= 2)
        assert (realtime_hash(paused), openings(await made())) == (first, 0)
        await site.change(paused=False)
        # Another content is not: it reaches no host, and nothing is enforced meanwhile.
        other = {"files": [{"path": "/etc/ssh/x.conf", "mode": "0600", "content": "PermitRootLogin yes\n"}]}
        await site.change(operations=[{**SSHD, "configSet": other}])
        changed = await site.until(
            lambda found: is_kept("False", "NotApproved")(found) and realtime_hash(found) != first
        )
        found = await made()
        assert openings(found) == 0
        assert found is not None
        assert [one.content for one in found.spec.files] == ["PermitRootLogin no\n"]
        await approve(site, site.client, realtime_hash(changed))
        await site.until(is_kept("True", "Kept"))
        found = await made()
        assert openings(found) == 1
        assert found is not None
        assert [one.content for one in found.spec.files] == ["PermitRootLogin yes\n"]


async def test_a_run_and_what_is_enforced_are_approved_together(place: Place, site: Site) -> None:
    """One yes of a person, two plans: what is enforced stays approved when the next run has another plan."""
    await site.host("a")
    note = {"name": "note", "type": "one-shot", "steps": [{"name": "x", "execution": {"argv": ["true"]}}]}
    async with site.operator():
        await site.maintenance(operations=[SSHD, note], approval={"required": True})
        waits = await site.until(lambda found: plan_hash(found) and realtime_hash(found))
        ran = await run(place, "maintenance", "approve", "monday", "--yes")
        assert ran.code == 0, ran.stderr
        await site.until(is_kept("True", "Kept"))
        await site.until(lambda found: found.status.history)
        await site.change(operations=[SSHD, {**note, "runID": "again"}])
        again = await site.until(lambda found: plan_hash(found) != plan_hash(waits))
        assert realtime_hash(again) == realtime_hash(waits)
        await site.until(lambda found: [one.reason for one in found.status.waiting] == ["NotApproved"])
        await site.until(is_kept("True", "Kept"))
