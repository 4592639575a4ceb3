"""What we say that others of this kind do not do, each as a test.

1  nothing is ever stranded         test_claim_1_* in test_maintenance_killed.py, test_maintenance.py,
                                    unit/agent/test_task_engine.py
2  an approval binds to a plan      test_claim_2_*
3  windows that fit                 test_claim_3_* in unit/fleet/test_maintenance_decide.py; trap 3
4  done means proven, or undone     test_claim_4_*; on hosts: hosts/test_undo.py
5  one ceiling for everything       test_claim_5_* in unit/fleet/test_maintenance_properties.py
6  why                              test_claim_6_*, also in unit/fleet/test_maintenance_visits.py
7  drift as an operation            test_claim_7_* in test_set_windows.py, test_drift_turns.py; on hosts:
                                    hosts/test_realtime.py
9  a handshake with workloads       test_claim_9_* in test_maintenance_handshake.py
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.client.calls import Selection
from nodemanager.controllers.node_maintenances import reconciling
from nodemanager.kube import conditions, core
from support import cli
from support.either import Place
from support.maintenance_site import REBOOT, TOUCH, Site
from support.pretend_agents import HANG

ONCE = "one-shot"


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "BUSY_SECONDS", 0.1)
    monkeypatch.setattr(reconciling, "LOOK_SECONDS", 0.5)


async def run(place: Place, site: Site, *args: str) -> str:
    where = ("--kubeconfig", str(place.kubeconfig), "-n", site.namespace)
    ran = await asyncio.to_thread(cli.run, *args, *where)
    assert ran.code == 0, ran
    return ran.stdout


async def why(place: Place, site: Site, host: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(await run(place, site, "why", host, "-o", "json"))["reasons"]
    return found


async def test_claim_2_who_changes_one_input_after_the_approval_has_an_unapproved_plan(
    place: Place, site: Site
) -> None:
    host = await site.host("a")
    await site.maintenance(approval={"required": True})
    async with site.operator():
        await site.until_phase("WaitingForApproval")
        await site.change(paused=True)
        await site.until_phase("Paused")
        await run(place, site, "maintenance", "approve", "monday", "--yes")
        before = (await site.status()).status.plan
        await site.change(paused=False, operations=[{"name": "note", "type": ONCE, "steps": REBOOT}])
        await site.until(lambda one: one.status.plan != before)
        await site.change(failedRunsHistoryLimit=7)  # which is no part of a plan, and has it look once more
        found = await site.until(lambda one: one.status.observed_generation == one.metadata.generation)
        assert found.status.phase == "WaitingForApproval"
        assert [one["reason"] for one in await why(place, site, host)] == ["NotApproved"]
        assert site.agents.taken == []
        await site.change(operations=[{"name": "note", "type": ONCE, "steps": TOUCH}])
        await site.until_phase("Succeeded")
    assert [len(task.spec.steps) for task in site.agents.taken] == [1], "what was approved, and nothing else"


async def test_claim_4_what_is_not_proven_is_taken_back_and_counts_as_failed_for_good(
    place: Place, site: Site
) -> None:
    """The task went well, and the Node is not Ready after it; later another maintenance comes there."""
    hosts = [await site.host("a", node=True), await site.host("b")]
    back = {"execution": {"argv": ["rm", "/x"]}}
    steps = [{**TOUCH[0], "undo": back}]
    now = site.shift = datetime.now(UTC)
    site.agents.behave = lambda _task: HANG
    await site.maintenance(operations=[{"name": "work", "type": ONCE, "steps": steps}], soak="1h")
    async with site.operator():
        await site.until(lambda one: site.agents.taken)
        await site.ready(hosts[0], "False")
        site.agents.behave = lambda _task: "Succeeded"
        site.agents.look()
        await site.until(lambda one: any(w.reason == "Proving" for w in one.status.waiting))
        site.shift = now + timedelta(minutes=11)
        stopped = await site.until_phase("Stopped")
        assert stopped.status.hosts is not None
        assert (stopped.status.hosts.failed, stopped.status.hosts.text) == (1, "0/2")
        assert site.agents.hosts == [hosts[0]] * 2, "one host was touched: the work, and what takes it back"
        assert [step.execution.argv for step in site.agents.taken[1].spec.steps if step.execution] == [
            ["rm", "/x"]
        ]
        (said,) = [one for one in await why(place, site, hosts[0]) if one["reason"] == "NotProven"]
        assert said["message"] == f"its last visit ended Undone: node/{hosts[0]}: not Ready"
        assert said["remedy"].endswith("then run `nodemanager maintenance retry monday`.")
        await site.ready(hosts[0], "True")
        await site.maintenance("tuesday", series={"names": [hosts[0]]})
        await site.until_phase("Succeeded", name="tuesday")
        failed = json.loads(
            await run(place, site, "maintenance", "history", "monday", "--failed", "-o", "json")
        )
        assert [(one["host"], one["phase"]) for one in failed["hosts"]["tasks"]] == [(hosts[0], "Undone")]
        still = await site.status()
        assert still.status.hosts is not None
        assert (still.status.phase, still.status.hosts.failed) == ("Stopped", 1)
    await site.nothing_is_left()


async def test_claim_6_one_code_in_status_event_metric_and_command(place: Place, site: Site) -> None:
    hosts = [await site.host("a"), await site.host("b")]

    site.agents.behave = lambda _task: "Failed"
    await site.maintenance()
    async with site.operator():
        found = await site.until_phase("Stopped")
        (wait,) = found.status.waiting
        assert (wait.reason, wait.object, wait.first) == ("Stopped", f"managednode/{hosts[0]}", [hosts[1]])
        assert wait.remedy.endswith("`nodemanager maintenance retry monday`.")
        progressing = conditions.get(found.status.conditions, "Progressing")
        assert progressing is not None
        assert progressing.reason == "Stopped"
        assert progressing.message == f"1 host failed: {wait.object}. {wait.remedy}"
        (said,) = await why(place, site, hosts[1])
        assert (said["reason"], said["object"], said["remedy"]) == (wait.reason, wait.object, wait.remedy)
        line = 'nodemanager_maintenance_waiting{maintenance="monday",reason="Stopped"} 1'
        assert line in site.metrics.render()
        events = (await site.client.list(core.EVENTS, Selection(site.namespace))).items
        told = {one.message for one in events if one.reason == "RunStopped"}
        assert told == {progressing.message}
        site.agents.behave = lambda _task: "Succeeded"
        await run(place, site, "maintenance", "retry", "monday")
        await site.until_phase("Succeeded")
        assert 'reason="Stopped"' not in site.metrics.render()
