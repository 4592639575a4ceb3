"""`maintenance plan --preview`: the operator has hosts tell what an upgrade would do; on both servers."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_PREVIEW, NODE_MAINTENANCES
from nodemanager.cli.maintenance import previews
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.controllers.node_maintenances.orders import Orders
from nodemanager.kube import core, errors
from support import cli, kubeconfigs
from support.accounts import RBAC
from support.either import Place
from support.maintenance_site import Site, site_at
from support.pretend_agents import HANG

SHUT = {"schedules": [{"weekdays": ["Mon"], "start": "06:00", "duration": "1m", "timeZone": "UTC"}]}
UPGRADE = [{"name": "up", "packages": {"upgrade": "all"}}, {"name": "boot", "reboot": {"when": "ifNeeded"}}]
CRON = {"name": "up", "type": "cron", "schedule": "0 6 * * 1", "steps": UPGRADE}


@pytest.fixture(name="site")
async def _site(place: Place, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setattr(previews, "POLL_SECONDS", 0.05)
    async with site_at(place) as site:
        yield site


async def plan(site: Site, place: Place, *args: str) -> cli.Ran:
    """Run the command as whoever has the kubeconfig of the test."""
    return await asyncio.to_thread(
        cli.run, "maintenance", "plan", "monday", "-n", site.namespace, "--kubeconfig",
        str(place.kubeconfig), *args,
    )  # fmt: skip


async def test_hosts_tell_what_would_be_upgraded_outside_of_window_and_budget(
    site: Site, place: Place
) -> None:
    hosts = [await site.host(name) for name in ("a", "b", "c")]
    gone = await site.host("gone")
    await site.say(gone, Alive="False")
    await site.maintenance(window=SHUT, operations=[CRON], paused=True)
    new = {"openssl": "3.0.15 -> 3.0.16"}
    site.agents.upgrades = {hosts[0]: new, hosts[1]: new}
    async with site.operator():
        ran = await plan(site, place, "--preview")
        assert ran.code == 2, "one host is silent"
        assert "2 hosts: 1 package (openssl 3.0.15 -> 3.0.16)" in ran.stdout
        assert f"{hosts[0]}, {hosts[1]}" in ran.stdout
        assert "1 host: nothing to upgrade" in ran.stdout
        assert "1 host said nothing, HostSilent" in ran.stdout
        assert "answered" in ran.stderr
        found = await site.status()
        assert ANNOTATION_PREVIEW not in found.metadata.annotations
        assert (found.status.run, found.status.hosts) == (None, None), "it is part of no run"
        first = {task.metadata.name for task in await site.tasks()}
        again: dict[str, Any] = json.loads((await plan(site, place, "--preview", "-o", "json")).stdout)
        said = {one["host"]: (one["state"], one["packages"]) for one in again["preview"]}
        assert said == {
            hosts[0]: ("Succeeded", new), hosts[1]: ("Succeeded", new), hosts[2]: ("Succeeded", {}),
            gone: ("HostSilent", {}),
        }  # fmt: skip
    tasks = await site.tasks()
    assert len(first) == 3
    assert len(tasks) == 6, "who asks again is answered again"
    assert all([step.preview is not None for step in task.spec.steps] == [True] for task in tasks)
    assert (site.agents.refused, await site.visits()) == ([], {})


async def test_a_host_that_does_not_answer_in_time_is_named(site: Site, place: Place) -> None:
    host = await site.host("a")
    site.agents.behave = lambda _task: HANG
    await site.maintenance(window=SHUT, operations=[CRON])
    async with site.operator():
        ran = await plan(site, place, "--preview", "--timeout", "2s")
    assert (ran.code, "1 host said nothing, Unanswered: " in ran.stdout) == (2, True), ran
    assert host in ran.stdout


async def test_what_is_asked_after_a_change_is_refused_and_said(site: Site, place: Place) -> None:
    await site.host("a")
    await site.maintenance(window=SHUT, operations=[CRON])
    note = {"metadata": {"annotations": {ANNOTATION_PREVIEW: f"{'ab' * 32} 0f1e"}}}
    await site.client.patch(NODE_MAINTENANCES, "monday", site.namespace, MergePatch(note))
    async with site.operator():
        await site.until(lambda one: ANNOTATION_PREVIEW not in one.metadata.annotations)
    events = (await site.client.list(core.EVENTS, Selection(site.namespace))).items
    assert [one.message for one in events if one.reason == "PreviewRefused"] == [
        "the plan is another one by now: look at it, and ask again"
    ]
    assert await site.tasks() == []


async def test_hosts_that_cannot_be_asked_hold_back_no_run(
    site: Site, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_args: object) -> None:
        raise errors.Forbidden("exceeded quota: tasks")

    monkeypatch.setattr(Orders, "create_preview", full)
    host = await site.host("a")
    await site.maintenance(operations=[{"name": "up", "type": "one-shot", "steps": UPGRADE}])
    planned = json.loads((await plan(site, place, "-o", "json")).stdout)["hash"]
    note = {"metadata": {"annotations": {ANNOTATION_PREVIEW: f"{planned} 0f1e"}}}
    await site.client.patch(NODE_MAINTENANCES, "monday", site.namespace, MergePatch(note))
    async with site.operator():
        found = await site.until_phase("Succeeded")
    assert (ANNOTATION_PREVIEW in found.metadata.annotations, site.agents.hosts) == (False, [host])
    events = (await site.client.list(core.EVENTS, Selection(site.namespace))).items
    (said,) = [one.message for one in events if one.reason == "PreviewRefused"]
    assert said.startswith("cannot ask hosts what an upgrade would do: ")
    assert "exceeded quota: tasks; ask again" in said


async def test_without_an_operator_or_an_upgrade_it_says_so_and_leaves_nothing(
    site: Site, place: Place
) -> None:
    await site.host("a")
    await site.maintenance(window=SHUT, operations=[CRON])
    ran = await plan(site, place, "--preview", "--timeout", "1s")
    assert (ran.code, "no operator took the request within 1 s" in ran.stderr) == (1, True), ran
    assert ANNOTATION_PREVIEW not in (await site.status()).metadata.annotations
    await site.change(operations=[{**CRON, "steps": UPGRADE[1:]}])
    ran = await plan(site, place, "--preview")
    assert "cannot preview monday: none of its steps upgrades packages" in ran.stderr


async def test_a_viewer_may_look_at_the_plan_and_is_told_who_may_ask(site: Site, place: Place) -> None:
    await site.host("a")
    await site.maintenance(window=SHUT, operations=[CRON])
    groups = ["maintenance.nodemanager", "common.nodemanager"]
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    role = {"metadata": {"name": "look"}, "rules": rules}
    binding = {
        "metadata": {"name": "look"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "look"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "jane"}],
    }
    await site.client.create(core.ROLES.untyped(), role, site.namespace)
    await site.client.create(core.ROLE_BINDINGS.untyped(), binding, site.namespace)
    config = yaml.safe_load(place.kubeconfig.read_text())
    for user in config["users"]:
        user["user"]["as"] = "jane"
    own = Path(kubeconfigs.write(Path(f"{place.kubeconfig}.jane"), config))
    jane = dataclasses.replace(place, kubeconfig=own)
    assert "Maintenance:" in (await plan(site, jane)).stdout
    ran = await plan(site, jane, "--preview")
    assert (ran.code, ran.stdout) == (1, "")
    assert "cannot ask hosts of monday for previews: " in ran.stderr
    assert "needs the role nodemanager-editor: ask somebody who has it" in " ".join(ran.stderr.split())


@pytest.mark.parametrize("kill_at", [2, 3, 5])
async def test_an_operator_that_is_killed_while_it_asks_leaves_it_to_the_next_one(
    site: Site, place: Place, kill_at: int
) -> None:
    hosts = [await site.host(name) for name in ("a", "b")]
    await site.maintenance(window=SHUT, operations=[CRON])
    planned = json.loads((await plan(site, place, "-o", "json")).stdout)["hash"]
    note = {"metadata": {"annotations": {ANNOTATION_PREVIEW: f"{planned} 0f1e"}}}
    await site.client.patch(NODE_MAINTENANCES, "monday", site.namespace, MergePatch(note))
    async with site.operator(kill_at) as first:
        async with asyncio.timeout(90):
            await first.dead.wait()
    async with site.operator():
        await site.until(lambda one: ANNOTATION_PREVIEW not in one.metadata.annotations)
    assert sorted(task.spec.node_name for task in await site.tasks()) == hosts
    assert site.agents.refused == []
