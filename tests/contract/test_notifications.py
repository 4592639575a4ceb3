"""People are told what happens to a maintenance: real webhooks on a socket, on both servers."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.client.calls import Selection
from nodemanager.client.http import posting
from nodemanager.client.patches import MergePatch
from nodemanager.controllers.node_maintenances import reconciling
from nodemanager.controllers.notifications import due, sending
from nodemanager.kube import core
from support.maintenance_site import Mortal, Site
from support.pretend_agents import HANG
from support.scripted_server import Exchange, ScriptedServer, serve, until

SECRET_PATH = "/services/T0/B0/very-secret?token=also-secret"


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "BUSY_SECONDS", 0.1)
    monkeypatch.setattr(due, "FIRST_RETRY", timedelta(seconds=0.2))


async def accept(exchange: Exchange) -> None:
    await exchange.answer(200, b"ok")


async def address(site: Site, name: str, server: ScriptedServer) -> dict[str, str]:
    """Write an address into a Secret; return the reference."""
    url = base64.b64encode(f"{server.url}{SECRET_PATH}".encode()).decode()
    await site.client.create(core.SECRETS, {"metadata": {"name": name}, "data": {"url": url}}, site.namespace)
    return {"name": name, "key": "url"}


def bodies(server: ScriptedServer) -> list[dict[str, Any]]:
    return [json.loads(one.body) for one in server.requests]


async def written(site: Site) -> str:
    """Return all that the operator wrote where others can read it."""
    events = await site.client.list(core.EVENTS.untyped(), Selection(site.namespace))
    found = await site.client.get(NODE_MAINTENANCES.untyped(), "monday", site.namespace)
    return json.dumps([events.items, found])


async def test_each_is_told_in_its_own_form_of_what_it_wants_and_of_nothing_twice(site: Site) -> None:
    await site.host("a")
    async with serve(accept) as hook, serve(accept) as chat, serve(accept) as gateway:
        notify = [
            {"name": "hook", "type": "webhook", "secretRef": await address(site, "hook", hook)},
            {
                "name": "chat", "type": "slack", "secretRef": await address(site, "chat", chat),
                "events": ["RunSucceeded"], "template": "{{ .maintenance }} <ok> {{ .hosts.succeeded }}",
            },
            {
                "name": "mail", "type": "mail", "secretRef": await address(site, "mail", gateway),
                "to": ["ops@example.org"], "events": ["RunSucceeded"], "template": "{{ .nope }}",
            },
        ]  # fmt: skip
        made = await site.maintenance(notify=notify)
        async with site.operator():
            await site.until_phase("Succeeded")
            await until_event(site, "NotificationTemplateInvalid")  # of the mail, which is sent nevertheless
            found = await site.until(lambda one: [each.number for each in one.status.deliveries] == [2, 2, 2])
    uid, run = made.metadata.uid, found.status.history[0].id
    started, ended = bodies(hook)
    assert (started["event"], started["id"], started["run"]) == ("RunStarted", f"{uid}-1", run)
    assert (ended["event"], ended["id"]) == ("RunSucceeded", f"{uid}-2")
    assert ended["hosts"] == {
        "total": 1, "waiting": 0, "running": 0, "succeeded": 1, "failed": 0, "skipped": 0
    }  # fmt: skip
    assert ended["text"] == f"{site.namespace}/monday: RunSucceeded: run {run} has ended: 1/1 hosts are done"
    assert bodies(chat) == [{"text": "monday <ok> 1"}]
    assert bodies(gateway) == [
        {
            "id": f"{uid}-2", "to": ["ops@example.org"],
            "subject": f"[nodemanager] {site.namespace}/monday: RunSucceeded", "text": ended["text"],
        }
    ]  # fmt: skip
    assert hook.requests[1].target == SECRET_PATH
    assert hook.requests[1].headers[sending.ID_HEADER] == f"{uid}-2"
    async with site.operator():  # another process: all of it is in the status
        await site.change(paused=True)
        await site.until(lambda one: one.status.observed_generation == one.metadata.generation)
    assert (len(hook.requests), len(chat.requests), len(gateway.requests)) == (2, 1, 1)


async def test_an_operator_that_is_killed_before_it_can_note_a_delivery_delivers_again_with_the_same_id(
    site: Site,
) -> None:
    born: asyncio.Future[Mortal] = asyncio.get_running_loop().create_future()

    async def accept_and_kill(exchange: Exchange) -> None:
        mortal = await born  # it may deliver before we hear that it runs
        if not mortal.at:
            mortal.after = False
            mortal.at = len(mortal.writes) + 1  # whatever it writes next does not leave any more
        await exchange.answer(200, b"")

    await site.host("a")
    site.agents.behave = lambda _task: HANG
    async with serve(accept_and_kill) as hook:
        to = {"name": "hook", "type": "webhook", "secretRef": await address(site, "hook", hook)}
        await site.maintenance(notify=[to])
        async with site.operator() as mortal:
            born.set_result(mortal)
            await mortal.dead.wait()
        assert not (await site.status()).status.deliveries
        site.agents.behave = lambda _task: "Succeeded"
        async with site.operator():
            site.agents.look()
            await site.until(lambda one: one.status.deliveries and one.status.deliveries[0].number == 2)
    assert [body["event"] for body in bodies(hook)] == ["RunStarted", "RunStarted", "RunSucceeded"]
    assert bodies(hook)[0] == bodies(hook)[1]


async def test_a_failed_host_and_a_stopped_run_are_told_by_name(site: Site) -> None:
    host = await site.host("a")
    site.agents.behave = lambda _task: "Failed"
    async with serve(accept) as hook:
        to = {"name": "hook", "type": "webhook", "secretRef": await address(site, "hook", hook)}
        await site.maintenance(notify=[{**to, "events": ["HostFailed", "RunStopped"]}])
        async with site.operator():
            await site.until_phase("Stopped")
            await until(lambda: len(hook.requests) == 2)
    failed, stopped = bodies(hook)
    assert failed["event"] == "HostFailed"
    assert f"{host} (TaskFailed)" in failed["message"]
    assert stopped["event"] == "RunStopped"
    assert stopped["message"].endswith("nodemanager maintenance retry monday")
    assert stopped["hosts"]["failed"] == 1


async def test_who_does_not_answer_delays_nothing_is_tried_again_and_given_up_without_his_address(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(due, "MAX_TRIES", 3)
    monkeypatch.setattr(posting, "TIMEOUT", 0.2)
    answers = iter(["hang", "away", "error"])

    async def refuse(exchange: Exchange) -> None:
        match next(answers, ""):
            case "hang":
                await exchange.hang()
            case "away":
                await exchange.answer(302, b"", location="http://127.0.0.1:1/elsewhere")
            case "error":
                await exchange.answer(500, b"something secret of the receiver")
            case _:
                await exchange.answer(200, b"")

    await site.host("a")
    async with serve(refuse) as hook:
        to = {"name": "hook", "type": "webhook", "secretRef": await address(site, "hook", hook)}
        await site.maintenance(notify=[to])
        async with site.operator():
            await site.until_phase("Succeeded")  # whatever becomes of the notices
            found = await site.until(
                lambda one: one.status.deliveries and one.status.deliveries[0].number == 2
            )
            delivery = found.status.deliveries[0]
            assert (delivery.dropped, delivery.failure, delivery.tries) == (1, "", 0)
            assert [body["event"] for body in bodies(hook)] == ["RunStarted"] * 3 + ["RunSucceeded"]
            assert len({body["id"] for body in bodies(hook)[:3]}) == 1  # a receiver knows doubles by it
            await until_event(site, "NotificationDropped")
            said = await written(site) + caplog.text
    assert "NotificationFailed" in said
    assert "it answers 500: see whether the address in key url of Secret hook is still right" in said
    for secret in ("very-secret", "also-secret", f":{hook.port}", "of the receiver", "elsewhere"):
        assert secret not in said


async def until_event(site: Site, reason: str) -> None:
    cut = datetime.now(UTC) + timedelta(seconds=20)
    while datetime.now(UTC) < cut:
        if reason in await written(site):
            return
    raise AssertionError(f"no Event {reason}")


async def test_a_secret_that_is_not_there_is_named_and_waited_for(site: Site) -> None:
    await site.host("a")
    async with serve(accept) as hook:
        to = {"name": "hook", "type": "webhook", "secretRef": {"name": "hook", "key": "url"}}
        await site.maintenance(notify=[{**to, "events": ["RunSucceeded"]}])
        async with site.operator():
            found = await site.until(lambda one: one.status.deliveries and one.status.deliveries[0].failure)
            assert found.status.deliveries[0].failure == (
                "there is no Secret hook: create it, with the address"
            )
            await address(site, "hook", hook)
            await site.until(lambda one: one.status.deliveries[0].number == 1)
    assert [body["event"] for body in bodies(hook)] == ["RunSucceeded"]


async def test_a_window_that_closes_with_hosts_left_and_an_approval_that_is_missing(site: Site) -> None:
    await site.host("a")
    site.shift = datetime(2027, 11, 22, 5, 30, tzinfo=UTC)
    window = {"schedules": [{"weekdays": ["Mon"], "start": "05:00", "duration": "1h", "timeZone": "UTC"}]}
    async with serve(accept) as hook:
        to = {"name": "hook", "type": "webhook", "secretRef": await address(site, "hook", hook)}
        await site.maintenance(
            notify=[{**to, "events": ["WaitingForApproval", "WindowClosed"]}],
            window=window,
            approval={"required": True},
        )
        async with site.operator():
            found = await site.until_phase("WaitingForApproval")
            await until(lambda: len(hook.requests) == 1)
            site.shift += timedelta(hours=1)
            await nudge(site)
            await until(lambda: len(hook.requests) == 2)
    asked, closed = bodies(hook)
    assert found.status.plan is not None
    assert f"waits for an approval of plan {found.status.plan.hash[:12]}" in asked["message"]
    assert "the window closed with 1 host of run" in closed["message"]
    assert "it goes on at 2027-11-29T05:00:00Z" in closed["message"]


async def nudge(site: Site) -> None:
    """Have the operator look now."""
    body = MergePatch({"metadata": {"annotations": {"look": "now"}}})
    await site.client.patch(NODE_MAINTENANCES, "monday", site.namespace, body)
