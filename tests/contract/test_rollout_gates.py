"""What keeps further hosts from a change, with a real operator: windows, gates of health, approvals."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.common.rollout import SOAKING, STABLE, UNDONE, RolloutStatus
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.cli.maintenance.identity import whoami
from nodemanager.client.patches import MergePatch
from nodemanager.controllers.rollouts import gating, reconciling, waking
from nodemanager.fleet.maintenance import questions
from nodemanager.fleet.rollout import gates
from nodemanager.kube import errors, times
from support import cli
from support.editors import editor
from support.either import Place
from support.rollout_site import rollout_site
from support.scripted_server import Exchange, serve


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(reconciling, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(questions, "FRESH", timedelta(seconds=0.2))
    for module in (gates, gating):
        monkeypatch.setattr(module, "ASK_SECONDS", 0.1)


async def test_stages_begin_while_the_window_is_open_and_hosts_return_at_any_time(tmp_path: Path) -> None:
    later = times.rfc3339(datetime.now(UTC) + timedelta(days=90))
    never = {"always": True, "validFrom": later}
    async with rollout_site(tmp_path) as site, site.operator():
        await site.join("a", "b")
        await site.declare("web", "one", stages=["1"], soak="0", windowRef={"name": "nights"})
        await site.until("web", lambda status: status.reason == "WindowNotFound")
        window = {"metadata": {"name": "nights"}, "spec": {"always": True}}
        await site.client.create(MAINTENANCE_WINDOWS, window, site.namespace)
        await site.until("web", lambda status: status.phase == STABLE)

        async def decree(spec: dict[str, object]) -> None:
            patch = MergePatch({"spec": {"validFrom": None, **spec}})
            await site.client.patch(MAINTENANCE_WINDOWS, "nights", site.namespace, patch)

        await decree(never)
        await site.declare("web", "two")
        waits = await site.until("web", lambda status: status.reason == "WindowClosed")
        assert f"it opens at {later}" in waits.message
        assert (waits.stage, waits.threshold) == (0, 0)
        await decree({})
        await site.until("web", lambda status: status.phase == STABLE)
        # Shut while a stage is proven: no further host takes it, and the one that has it may return.
        site.hung.add(3)
        await site.declare("web", "three")
        await site.until("web", lambda status: status.stage == 1 and site.exposure(3).hosts)
        await decree(never)
        site.hung.clear()
        await site.until("web", lambda status: (status.phase, status.reason) == (SOAKING, "WindowClosed"))
        site.broken.add(3)
        await site.until("web", lambda status: status.phase == UNDONE)
        assert len(site.exposure(3).hosts) == 1


async def test_gates_of_health_are_asked_before_stages_and_stop_a_soak(tmp_path: Path) -> None:
    codes: dict[str, Any] = {"/shop": 503, "/a": 200, "/b": 200}
    asked: list[str] = []

    async def answer(exchange: Exchange) -> None:
        asked.append(exchange.target)
        await exchange.answer(codes[exchange.target], b"")

    async with rollout_site(tmp_path) as site, serve(answer) as endpoint:
        async with site.operator():
            await site.join("a", "b")
            health = [
                {"name": "shop", "http": {"url": f"{endpoint.url}/shop"}},
                {"http": {"url": f"{endpoint.url}/$(host)"}, "timeout": "1h"},
                {"ready": True},  # there are no Kubernetes Nodes
            ]
            await site.declare("web", "one", stages=["1"], soak="0", health=health)
            waits = await site.until("web", lambda status: status.reason == "GateFails")
            assert waits.message == "stage 1 of 2: gate shop: answered 503, not 200"
            assert set(asked) == {"/shop"}  # nobody has the change
            codes["/shop"] = 200
            await site.until("web", lambda status: status.phase == STABLE)
            assert {*asked} & {"/a", "/b"}
            # One that does not hold yet has its time; once it has held, and a soak has begun, it has none.
            patch = MergePatch({"spec": {"rollout": {"soak": "1h"}}})
            await site.client.patch(CONFIG_SETS, "web", site.namespace, patch)
            codes.update({"/a": 500, "/b": 500})
            await site.declare("web", "two")
            waits = await site.until("web", lambda status: status.reason == "GateFails")
            assert (waits.phase, waits.stage) == ("Waiting", 1)
            codes.update({"/a": 200, "/b": 200})
            await site.until("web", lambda status: status.phase == SOAKING)
        codes["/shop"] = 503  # while there is no operator; the next one asks by itself
        async with site.operator():
            undone = await site.until("web", lambda status: status.phase == UNDONE)
        assert undone.message == "revision 2 failed at gate shop: answered 503, not 200, and is undone"
        assert len(site.exposure(2).hosts) == 1


async def test_a_gate_that_can_never_be_asked_lets_nothing_begin(tmp_path: Path) -> None:
    async with rollout_site(tmp_path) as site, site.operator():
        await site.join("a")
        gate = {"object": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "cel": "object.data +"}}
        await site.declare("web", "one", health=[gate])
        waits = await site.until("web", lambda status: status.reason == "GateInvalid")
        assert "gate health[0].object.cel: " in waits.message
        assert site.exposure(1).hosts == frozenset()


async def test_a_change_waits_for_a_yes_and_the_next_one_for_another(tmp_path: Path) -> None:
    async with rollout_site(tmp_path) as site, site.operator():
        flags = ("--kubeconfig", str(site.kubeconfig), "-n", site.namespace)

        async def approve(*args: str) -> cli.Ran:
            return await asyncio.to_thread(cli.run, "rollout", "approve", "web", *args, *flags)

        await site.join("a", "b")
        await site.declare("web", "one", stages=["1"], soak="0", approval={"required": True})
        for number in (1, 2):
            waits = await site.until(
                "web", lambda found: found.reason == "NotApproved" and found.next is not None
            )
            assert waits.next is not None
            assert (waits.next.revision, waits.stage, waits.next.digest in waits.message) == (number, 0, True)
            other = await approve("--yes", "--hash", "0" * 64)
            assert (other.code, "something has changed since" in other.stderr) == (1, True), other
            done = await approve("--yes", "--hash", waits.next.digest[:12])
            assert (done.code, "web is approved by" in done.stdout) == (0, True), done
            assert f"+++ web revision {number}" in done.stdout
            await site.until("web", lambda found: found.phase == STABLE)
            await site.declare("web", f"after {number}")  # what was said is not about this
        assert site.exposure(3).hosts == frozenset()
        asks = {"approval": {"required": True, "differentUser": True, "requester": "somebody"}}
        patch = MergePatch({"spec": {"rollout": asks}})
        with pytest.raises(errors.Forbidden, match="who writes the ConfigSet"):
            await site.client.patch(CONFIG_SETS, "web", site.namespace, patch)


async def test_hosts_that_a_maintenance_works_on_are_among_the_unavailable(tmp_path: Path) -> None:
    async def visit(text: str | None) -> None:
        patch = MergePatch({"metadata": {"annotations": {ANNOTATION_VISIT: text}}})
        await site.client.patch(MANAGED_NODES, "b", site.namespace, patch)

    async with rollout_site(tmp_path) as site, site.operator():
        await site.join("a", "b")
        await visit("somebody is at work")
        await site.declare("web", "one", soak="0", maxUnavailable=1)
        waits = await site.until("web", lambda status: status.reason == "BudgetSpent")
        assert "such as b (some maintenance)" in waits.message
        assert site.exposure(1).hosts == frozenset()
        await visit(None)
        await site.until("web", lambda status: status.phase == STABLE)


def _is_at(number: int, found: RolloutStatus) -> bool:
    return found.next is not None and found.next.revision == number


async def test_who_undoes_a_change_asks_for_what_comes_instead(tmp_path: Path) -> None:
    """With differentUser the policy takes no other name; who asked first stays in the revision."""
    async with rollout_site(tmp_path) as site, site.operator():
        place, own = Place(site.kubeconfig, site.namespace, tmp_path), await whoami(site.client, "ask")
        async with editor(place, "jane") as jane:
            name, hers = await whoami(jane, "ask"), replace(site, client=jane)
            asks = {"required": True, "differentUser": True, "requester": name}
            for number, content in ((1, "one"), (2, "two")):
                await hers.declare("web", content, **({"approval": asks} if number == 1 else {}))
                await site.until("web", functools.partial(_is_at, number))
        flags = ("--kubeconfig", str(site.kubeconfig), "-n", site.namespace)
        undone = await asyncio.to_thread(cli.run, "rollout", "undo", "web", *flags)
        assert (undone.code, "says again what revision 1 said" in undone.stdout) == (0, True), undone
        await site.until("web", functools.partial(_is_at, 3))
        assert [one.spec.requester for one in await site.revisions("web")] == [name, name, own]
        refused = await asyncio.to_thread(cli.run, "rollout", "approve", "web", "--yes", *flags)
        assert (refused.code, f"{own} asked for this change" in refused.stderr) == (1, True), refused
