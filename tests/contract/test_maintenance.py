"""The operator carries out maintenances, with pretend agents, on both servers."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodemaintenance import (
    ANNOTATION_ABORT,
    ANNOTATION_RETRY,
    ANNOTATION_TOKEN,
    ANNOTATION_VISIT,
    FINALIZER,
    NODE_MAINTENANCES,
)
from nodemanager.api.maintenance.nodeoperationtemplate import NODE_OPERATION_TEMPLATES
from nodemanager.api.maintenance.nodetask import NODE_TASKS, NOT_DONE
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.controllers.disruption.nodes import MAINTENANCE_IN_PROGRESS, NODES
from nodemanager.controllers.node_maintenances import reconciling
from nodemanager.controllers.node_maintenances.status import maintenance_conditions
from nodemanager.kube import conditions, core, errors
from nodemanager.kube.objects import Resource
from support.clients import connected
from support.either import Place
from support.joined_host import guard
from support.maintenance_site import REBOOT, TOUCH, Site, site_at
from support.pretend_agents import HANG, IGNORE

MONDAY = datetime(2027, 11, 22, 5, 30, tzinfo=UTC)
"""Half past six in Paris."""
ONCE = "one-shot"


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "BUSY_SECONDS", 0.1)


def operation(steps: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"name": "work", "type": ONCE, "steps": steps, **more}


async def until_taken(site: Site, count: int = 1) -> None:
    """Wait until so many tasks were claimed."""
    async with asyncio.timeout(90):
        while len(site.agents.taken) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def until_gone(site: Site, name: str = "monday") -> None:
    async with asyncio.timeout(90):
        while True:
            try:
                await site.status(name)
            except errors.NotFound:
                return
            await asyncio.sleep(0.02)


async def template(site: Site, name: str, *steps: dict[str, Any]) -> None:
    body = {"metadata": {"name": name}, "spec": {"steps": list(steps)}}
    await site.client.create(NODE_OPERATION_TEMPLATES, body, site.namespace)


async def note(site: Site, **annotations: str) -> None:
    body = MergePatch({"metadata": {"annotations": annotations}})
    await site.client.patch(NODE_MAINTENANCES, "monday", site.namespace, body)


async def test_the_monday_example(site: Site) -> None:
    """Three hosts, one of which is a Kubernetes Node: one visit, one task, one reboot for each."""
    hosts = [
        await site.host("a", role="web"),
        await site.host("b", node=True, role="web"),
        await site.host("c", role="web"),
    ]
    await site.host("db", role="db")
    await template(site, "package-upgrade", {"name": "upgrade", "packages": {"upgrade": "all"}})
    await template(site, "reboot-if-needed", {"name": "reboot", "reboot": {"when": "ifNeeded"}})
    cron = {"type": "cron", "schedule": "0 6 * * 1"}
    motd = {"path": "/etc/motd", "ensure": "file", "content": "x\n"}
    monday = {"weekdays": ["Mon"], "start": "06:00", "duration": "3h", "timeZone": "Europe/Paris"}
    site.agents.behave = lambda task: HANG if task.spec.node_name == hosts[1] else "Succeeded"
    await site.maintenance(
        window={"schedules": [monday]},
        series={"selector": {"matchLabels": {"role": "web"}}},
        budget={"maxUnavailable": 1},
        operations=[
            {"name": "upgrade", **cron, "templateRef": {"name": "package-upgrade"}},
            {"name": "reboot", **cron, "templateRef": {"name": "reboot-if-needed"}},
            {"name": "note", "type": ONCE, "steps": TOUCH},
            {"name": "motd", "type": "realtime", "configSet": {"files": [motd]}},
        ],
    )
    async with site.operator():
        waits = await site.until(lambda found: found.status.window is not None)
        assert waits.status.phase == "WaitingForWindow"
        assert site.agents.taken == []
        kept = conditions.get(waits.status.conditions, maintenance_conditions.REALTIME_KEPT)
        assert kept is not None
        assert (kept.status, kept.reason) == ("True", "Kept")
        site.shift = MONDAY
        await site.change(parallelism=5)  # so that it looks at once
        await until_taken(site, 2)
        assert await site.is_cordoned(hosts[1])
        assert (await site.client.get(NODES, hosts[1])).says(MAINTENANCE_IN_PROGRESS)
        site.agents.behave = lambda _task: "Succeeded"
        site.agents.look()
        done = await site.until(lambda found: found.status.history)
        assert site.agents.hosts == hosts
        assert [step.name for step in site.agents.taken[0].spec.steps] == [
            "upgrade-upgrade", "reboot-reboot", "note-touch",
        ]  # fmt: skip
        assert {task.spec.not_after for task in site.agents.taken} == {"2027-11-22T08:00:00Z"}
        assert (site.agents.most, site.agents.refused) == (1, [])
        ended = done.status.history[0]
        assert ended.hosts is not None
        assert (ended.outcome, ended.hosts.text) == ("Succeeded", "3/3")
        again = {one.name: one.next_run for one in done.status.operations}
        assert again == {"upgrade": "2027-11-29T05:00:00Z", "reboot": "2027-11-29T05:00:00Z", "note": None}
        assert done.status.phase == "WaitingForSlot"
    await site.nothing_is_left()


async def test_a_one_shot_is_done_once_and_again_under_another_run_id(site: Site) -> None:
    hosts = [await site.host(name) for name in ("a", "b", "c")]
    await site.maintenance()
    async with site.operator():
        done = await site.until_phase("Succeeded")
        assert site.agents.hosts == hosts
        assert done.status.hosts is not None
        assert done.status.hosts.text == "3/3"
        tokens = dict(site.agents.tokens)
        await site.change(operations=[operation(TOUCH, runID="2")])
        await site.until(lambda found: len(found.status.history) == 2)
        assert site.agents.hosts == hosts * 2
        assert all(site.agents.tokens[host] > tokens[host] for host in hosts)
        assert (site.agents.most, site.agents.refused) == (1, [])
    await site.nothing_is_left()


async def test_a_budget_of_pods_is_waited_for_while_the_node_stays_cordoned(site: Site) -> None:
    host = await site.host("a", node=True)
    await site.pod("web", host)
    await site.protect("web")
    await site.maintenance(operations=[operation(REBOOT)])
    async with site.operator():
        found = await site.until(lambda one: any(w.reason == "Draining" for w in one.status.waiting))
        assert found.status.phase == "Running"
        assert await site.is_cordoned(host)
        assert (await site.pods(), site.agents.taken) == (["web"], [])
        await site.unprotect("web")
        async with asyncio.timeout(90):
            while await site.pods():
                await site.bury()
        await site.until_phase("Succeeded")
    assert site.agents.hosts == [host]
    await site.nothing_is_left()


async def test_a_drain_that_takes_too_long_gives_the_host_back(site: Site) -> None:
    host = await site.host("a", node=True)
    await site.pod("web", host)
    await site.protect("web")
    await site.maintenance(
        operations=[operation(REBOOT)], disruption={"drain": {"timeout": "1s", "onTimeout": "skip"}}
    )
    async with site.operator():
        found = await site.until_phase("Succeeded", "Failed")
    assert found.status.hosts is not None
    assert (found.status.hosts.skipped, found.status.hosts.succeeded) == (1, 0)
    assert (await site.pods(), site.agents.taken) == (["web"], [])
    await site.nothing_is_left()


async def test_a_failure_stops_the_run_until_somebody_has_it_go_on(site: Site) -> None:
    hosts = [await site.host(name) for name in ("a", "b")]
    site.agents.behave = lambda _task: "Failed"
    await site.maintenance(soak="1s")
    async with site.operator():
        found = await site.until_phase("Stopped")
        assert site.agents.hosts == hosts[:1]
        assert found.status.run is not None
        assert [(one.reason, one.hosts) for one in found.status.waiting] == [("Stopped", 1)]
        assert await site.visits() == {}  # the slot is free
        site.agents.behave = lambda _task: "Succeeded"
        await note(site, **{ANNOTATION_RETRY: found.status.run.id})
        done = await site.until_phase("Succeeded")
        assert site.agents.hosts == [hosts[0], hosts[0], hosts[1]]
        assert ANNOTATION_RETRY not in done.metadata.annotations


async def test_an_aborted_run_begins_nothing_more_and_lets_the_running_task_end(site: Site) -> None:
    hosts = [await site.host(name) for name in ("a", "b")]
    site.agents.behave = lambda _task: HANG
    await site.maintenance()
    async with site.operator():
        await until_taken(site)
        found = await site.until(lambda one: one.status.run is not None)
        assert found.status.run is not None
        await note(site, **{ANNOTATION_ABORT: found.status.run.id})
        await site.until(lambda one: any(w.reason == "Aborted" for w in one.status.waiting))
        assert len(await site.visits()) == 1
        site.agents.behave = lambda _task: "Succeeded"
        site.agents.look()
        done = await site.until(lambda one: one.status.history)
    assert done.status.history[0].outcome == "Aborted"
    assert site.agents.hosts == hosts[:1]
    await site.nothing_is_left()


async def test_one_that_is_paused_begins_nothing(site: Site) -> None:
    host = await site.host("a")
    await site.maintenance(paused=True)
    async with site.operator():
        await site.until_phase("Paused")
        assert site.agents.taken == []
        await site.change(paused=False)
        await site.until_phase("Succeeded")
    assert site.agents.hosts == [host]


async def test_deleted_while_a_node_is_drained_it_is_given_back_at_once(site: Site) -> None:
    host = await site.host("a", node=True)
    await site.pod("web", host)
    await site.protect("web")
    await site.maintenance(operations=[operation(REBOOT)])
    async with site.operator():
        await site.until(lambda one: any(w.reason == "Draining" for w in one.status.waiting))
        await site.client.delete(NODE_MAINTENANCES, "monday", site.namespace)
        await until_gone(site)
    assert site.agents.taken == []
    await site.nothing_is_left()


async def test_deleted_while_a_task_runs_it_waits_for_its_end(site: Site) -> None:
    await site.host("a", node=True)
    await site.host("b")
    site.agents.behave = lambda _task: HANG
    await site.maintenance(operations=[operation(REBOOT)])
    async with site.operator():
        await until_taken(site)
        await site.client.delete(NODE_MAINTENANCES, "monday", site.namespace)
        await site.until(lambda one: one.metadata.deletion_timestamp)
        assert len(await site.visits()) == 1
        site.agents.behave = lambda _task: "Succeeded"
        site.agents.look()
        await until_gone(site)
    assert len(site.agents.taken) == 1
    await site.nothing_is_left()


async def test_deleted_before_the_task_was_taken_it_takes_the_task_back(site: Site) -> None:
    await site.host("a", node=True)
    site.agents.behave = lambda _task: IGNORE
    await site.maintenance(operations=[operation(REBOOT)])
    async with site.operator():
        await site.until(lambda one: any(w.reason == "Working" for w in one.status.waiting))
        await site.client.delete(NODE_MAINTENANCES, "monday", site.namespace)
        await until_gone(site)
    assert site.agents.taken == []
    await site.nothing_is_left()


async def test_claim_1_a_host_that_is_deleted_in_work_leaves_no_cordon(site: Site) -> None:
    host = await site.host("a", node=True)
    site.agents.behave = lambda _task: HANG
    await site.maintenance(operations=[operation(REBOOT)])
    async with site.operator():
        await until_taken(site)
        assert await site.is_cordoned(host)
        await site.client.delete(MANAGED_NODES, host, site.namespace)
        async with asyncio.timeout(90):
            while await site.is_cordoned(host):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        done = await site.until_phase("Succeeded", "Failed")
    assert done.status.hosts is not None
    assert (done.status.hosts.skipped, done.status.hosts.total) == (1, 1)
    await site.nothing_is_left()


async def test_one_that_has_ended_goes_when_its_time_is_over_and_no_other_does(site: Site) -> None:
    host = await site.host("a")
    cron = operation(TOUCH, type="cron", schedule="0 6 * * 1")
    await site.maintenance("once", ttlSecondsAfterFinished=60)
    await site.maintenance("forever")
    await site.maintenance("again", ttlSecondsAfterFinished=60, operations=[cron])
    async with site.operator():
        await site.until_phase("Succeeded", name="once")
        await site.until_phase("Succeeded", name="forever")
    site.shift = datetime.now(UTC) + timedelta(seconds=120)
    async with site.operator():
        await until_gone(site, "once")
    assert {(await site.status(name)).status.phase for name in ("forever", "again")} == {
        "Succeeded", "WaitingForSlot",
    }  # fmt: skip
    assert ANNOTATION_TOKEN in (await site.managed(host)).metadata.annotations
    await site.nothing_is_left()


async def test_a_template_that_changes_in_a_run_changes_nothing_of_it(site: Site) -> None:
    for name in ("a", "b"):
        await site.host(name)
    await template(site, "touch", {"name": "one", "execution": {"argv": ["true"]}})
    site.agents.behave = lambda _task: HANG
    await site.maintenance(operations=[{"name": "w", "type": ONCE, "templateRef": {"name": "touch"}}])
    async with site.operator():
        await until_taken(site)
        steps = [{"name": "two", "execution": {"argv": ["false"]}}]
        body = MergePatch({"spec": {"steps": steps}})
        await site.client.patch(NODE_OPERATION_TEMPLATES, "touch", site.namespace, body)
        site.agents.behave = lambda _task: "Succeeded"
        site.agents.look()
        await site.until_phase("Succeeded")
    assert [[step.name for step in task.spec.steps] for task in site.agents.taken] == [["w-one"], ["w-one"]]


async def test_without_the_right_to_drain_nothing_is_begun_and_the_reason_says_how_to_grant_it(
    place: Place,
) -> None:
    async with site_at(place, disruptive=False) as site:
        await site.host("a", node=True)
        await site.maintenance(operations=[operation(REBOOT)])
        async with site.operator():
            found = await site.until(lambda one: one.status.waiting)
            assert found.status.waiting[0].reason == "NodesUnknown"
            assert "kubectl apply -f config/rbac/operator-disruption.yaml" in found.status.waiting[0].remedy
            assert site.agents.taken == []
            await site.change(disruption={"cordon": False})
            await site.until_phase("Succeeded")
        await site.nothing_is_left()


async def test_two_operators_never_both_act(site: Site) -> None:
    for name in ("a", "b", "c", "d"):
        await site.host(name)
    await site.maintenance(budget={"maxUnavailable": 2})
    async with site.operator(leader_elect=True) as one, site.operator(leader_elect=True) as other:
        await site.until_phase("Succeeded")
        assert bool(one.writes) != bool(other.writes)
    assert (len(site.agents.taken), site.agents.refused) == (4, [])
    assert site.agents.most <= 2


async def test_two_operators_that_both_believe_to_lead_never_visit_a_host_twice(site: Site) -> None:
    """Leader election is the first line; the version of the claim is the second."""
    for name in ("a", "b", "c"):
        await site.host(name)
    await site.maintenance()
    async with site.operator(), site.operator():
        await site.until_phase("Succeeded")
    assert sorted(site.agents.hosts) == sorted(set(site.agents.hosts))
    assert (len(site.agents.taken), site.agents.refused, site.agents.most) == (3, [], 1)
    await site.nothing_is_left()


async def test_a_missing_window_is_named_and_begins_nothing(site: Site) -> None:
    await site.host("a")
    await site.maintenance(window=None, windowRef={"name": "office"})
    async with site.operator():
        found = await site.until(lambda one: one.status.conditions)
        valid = conditions.get(found.status.conditions, "Valid")
        assert valid is not None
        assert (valid.status, valid.reason) == ("False", "WindowNotFound")
        assert (found.status.phase, site.agents.taken) == ("Pending", [])


async def test_events_tell_of_the_run_and_of_each_host(site: Site) -> None:
    host = await site.host("a")
    await site.maintenance()
    async with site.operator():
        await site.until_phase("Succeeded")
    found = (await site.client.list(core.EVENTS, Selection(site.namespace))).items
    told = {(one.involved_object.name, one.reason) for one in found}
    assert {("monday", "RunStarted"), ("monday", "RunSucceeded")} <= told
    assert {(host, "MaintenanceWorking"), (host, "MaintenanceDone")} <= told


async def test_the_operator_changes_nothing_that_people_decide(place: Place, tmp_path: Path) -> None:
    """RBAC lets it patch hosts and maintenances; the policy says which part of them."""
    await guard(place, tmp_path)
    async with site_at(place) as site, connected(site.own) as operator:
        host = await site.host("a")
        await site.maintenance(paused=True)

        async def changes(resource: Resource[Any], name: str, body: dict[str, Any]) -> bool:
            try:
                await operator.patch(resource, name, site.namespace, MergePatch(body))
            except errors.Forbidden as error:
                return "the operator may change nothing of" not in str(error)
            return True

        async with asyncio.timeout(90):  # a kube-apiserver takes a moment
            tries = itertools.count()
            while await changes(  # noqa: ASYNC110
                MANAGED_NODES, host, {"metadata": {"labels": {"a": str(next(tries))}}}
            ):
                await asyncio.sleep(0.05)
        refused: dict[str, Any]
        for refused in (
            {"spec": {"domain": "a.test"}},
            {"metadata": {"annotations": {"upgrade.nodemanager/reboot": "always"}}},
            {"metadata": {"finalizers": ["a.test/b"]}},
        ):
            assert not await changes(MANAGED_NODES, host, refused), refused
        for refused in (
            {"spec": {"paused": False}},
            {"metadata": {"finalizers": ["a.test/b"]}},
            {"metadata": {"annotations": {ANNOTATION_ABORT: "x"}}},
        ):
            assert not await changes(NODE_MAINTENANCES, "monday", refused), refused
        step = {"name": "one", "execution": {"argv": ["true"]}}
        spec = {"nodeName": host, "steps": [step], "deadline": "2030-01-01T00:00:00Z", "fencingToken": 1}
        body = {"metadata": {"name": "t"}, "spec": spec}
        await operator.create(NODE_TASKS, body, site.namespace)
        for refused in (
            {"metadata": {"labels": {"maintenance.nodemanager/run": "x"}}},
            {"metadata": {"annotations": {"a.test/b": "x"}}},
            {"metadata": {"finalizers": ["a.test/b"]}},
        ):
            assert not await changes(NODE_TASKS, "t", refused), refused
        assert await changes(NODE_TASKS, "t", {"metadata": {"annotations": {NOT_DONE: "NotProven"}}})
        assert await changes(MANAGED_NODES, host, {"metadata": {"annotations": {ANNOTATION_VISIT: "x"}}})
        assert await changes(NODE_MAINTENANCES, "monday", {"metadata": {"finalizers": [FINALIZER]}})
        assert await changes(NODE_MAINTENANCES, "monday", {"metadata": {"finalizers": []}})
        with pytest.raises(errors.Forbidden, match="may delete no NodeMaintenance that does not say so"):
            await operator.delete(NODE_MAINTENANCES, "monday", site.namespace)
        await site.change(ttlSecondsAfterFinished=0)
        await operator.delete(NODE_MAINTENANCES, "monday", site.namespace)
