"""The commands about maintenances, against both servers: what they write, what they say, what they refuse."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS
from nodemanager.api.maintenance.nodemaintenance import (
    ANNOTATION_ABORT,
    ANNOTATION_RETRY,
    ANNOTATION_VISIT,
    NODE_MAINTENANCES,
)
from nodemanager.cli.maintenance import following
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.fleet.maintenance.claims import State
from support import cli
from support.agent_process import Api
from support.stamps import unstamped
from support.told_maintenances import HASH, ONCE, Told, ago, counts

RUN = "3f2a9c0d11223344"
GOING: dict[str, Any] = {"id": RUN, "operations": ["note"], "slots": {"note": "x"}}


@pytest.fixture(name="told")
def _told(api: Api) -> Told:
    return Told(api)


def said(ran: cli.Ran) -> str:
    assert (ran.code, ran.stderr) == (0, ""), ran
    return ran.stdout


def refused(ran: cli.Ran, code: int = 1) -> str:
    assert ran.code == code, ran
    return ran.stderr


# pause, resume


async def test_pause_and_resume_say_what_they_did_and_do_it_once(told: Told) -> None:
    await told.maintenance(status={"hosts": counts(3, running=2)})
    done = said(await told.run("maintenance", "pause", "monday"))
    assert "monday is paused: nothing is begun; 2 hosts in work will be finished" in done
    assert (await told.get()).spec.paused
    version = (await told.get()).metadata.resource_version
    assert said(await told.run("maintenance", "pause", "monday")) == "monday is paused already\n"
    assert (await told.get()).metadata.resource_version == version, "nothing was written"
    assert said(await told.run("maintenance", "resume", "monday")) == "monday goes on now\n"
    assert not (await told.get()).spec.paused
    assert said(await told.run("maintenance", "resume", "monday")) == "monday is not paused\n"


async def test_one_of_several_that_is_not_there_stops_no_other(told: Told) -> None:
    await told.maintenance()
    ran = await told.run("maintenance", "pause", "nobody", "monday")
    assert (ran.code, ran.stdout.startswith("monday is paused")) == (1, True)
    assert "cannot pause nobody: there is no such maintenance in namespace" in ran.stderr
    assert "nodemanager maintenance list -A" in ran.stderr


async def test_a_change_of_somebody_else_meanwhile_is_kept(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was judged is what is written: a resourceVersion that is old is read anew."""
    await told.maintenance(status={"run": GOING, "hosts": counts(1)})
    patch = Client.patch
    raced: list[str] = []

    async def race(self: Client, resource: Any, name: str, namespace: str, body: Any, **more: Any) -> Any:
        if not raced:
            raced.append(name)
            await patch(self, resource, name, namespace, MergePatch({"spec": {"parallelism": 7}}))
        return await patch(self, resource, name, namespace, body, **more)

    monkeypatch.setattr(Client, "patch", race)
    said(await told.run("maintenance", "pause", "monday"))
    found = await told.get()
    assert (found.spec.paused, found.spec.parallelism, len(raced)) == (True, 7, 1)


# abort, retry


async def test_abort_and_retry_name_the_run_that_is_meant(told: Told) -> None:
    await told.maintenance(
        status={"run": {**GOING, "stoppedAt": ago(minutes=1)}, "hosts": counts(3, failed=1)}
    )
    assert said(await told.run("maintenance", "retry", "monday")) == (
        f"run {RUN} of monday goes on; 1 host that failed will be tried again\n"
    )
    assert unstamped(await told.get()) == {ANNOTATION_RETRY: RUN}
    assert "already" in said(await told.run("maintenance", "retry", "monday"))
    assert (
        said(await told.run("maintenance", "abort", "monday"))
        == f"run {RUN} of monday ends; no host is in work\n"
    )
    assert (await told.get()).metadata.annotations[ANNOTATION_ABORT] == RUN
    assert "already" in said(await told.run("maintenance", "abort", "monday"))


async def test_what_cannot_be_aborted_or_retried_says_why(told: Told) -> None:
    await told.maintenance("idle", status={"history": [{"id": "old", "outcome": "Failed"}]})
    await told.maintenance("well", status={"run": GOING, "hosts": counts(3, succeeded=1)})
    abort = refused(await told.run("maintenance", "abort", "idle"))
    assert abort.startswith("error: cannot abort idle: no run is under way; ")
    retry = refused(await told.run("maintenance", "retry", "idle"))
    assert "cannot retry idle: no run is under way, the last one has ended (Failed); a cron" in retry
    well = refused(await told.run("maintenance", "retry", "well"))
    assert f"cannot retry well: no host of run {RUN} has failed; " in well


# list, history


async def test_list_is_for_people_and_for_programs(told: Told) -> None:
    await told.maintenance(
        status={"phase": "Running", "hosts": counts(10, succeeded=3, failed=1, running=1, waiting=5),
                "window": {"open": True, "closesAt": ago(hours=-2, minutes=-1)},
                "nextRun": ago(days=-7, minutes=-1)}
    )  # fmt: skip
    await told.maintenance("later")
    shown = said(await told.run("maintenance", "list")).splitlines()
    assert shown[0].split() == ["NAME", "PHASE", "HOSTS", "FAILED", "WINDOW", "NEXT"]
    assert shown[1].split() == ["later", "Pending", "-", "-", "-", "-"]
    assert shown[2].split() == ["monday", "Running", "3/10", "1", "open,", "120m", "left", "in", "7d"]
    whole = json.loads(said(await told.run("maintenance", "list", "-o", "json")))
    assert [one["kind"] for one in whole["items"]] == ["NodeMaintenance", "NodeMaintenance"]
    assert whole["items"][1]["status"]["hosts"]["failed"] == 1


async def test_an_empty_namespace_has_nothing_to_list(told: Told) -> None:
    ran = await told.run("maintenance", "list")
    assert (ran.code, ran.stdout) == (0, "")
    assert ran.stderr == f"No maintenances found in {told.api.namespace} namespace.\n"


async def test_history_tells_of_runs_and_hosts(told: Told) -> None:
    ended: dict[str, Any] = {
        "id": "aaaa000011112222", "operations": ["note"], "outcome": "Succeeded", "startedAt": ago(hours=3),
        "endedAt": ago(hours=2), "hosts": counts(2, succeeded=2),
    }  # fmt: skip
    made = await told.maintenance(
        status={
            "run": {**GOING, "startedAt": ago(minutes=9)},
            "history": [ended],
            "hosts": counts(2, failed=1),
        }
    )
    claim = {"agent": "a", "time": ago(minutes=8), "fencingToken": 1}
    await told.task("web1", made, RUN, phase="Failed", step="touch", message="no such folder\x1b[31m"[:14],
                    claim=claim, finishedAt=ago(minutes=7))  # fmt: skip
    await told.task("web2", made, RUN, phase="Running", step="touch", claim=claim)
    await told.task("web1", made, ended["id"], phase="Succeeded")
    shown = said(await told.run("maintenance", "history", "monday"))
    assert re.search(rf"{RUN} +under way +9m\S* ago +- +0/2, 1 failed +note", shown), shown
    assert re.search(r"aaaa000011112222 +Succeeded +3h ago +60m +2/2 +note", shown), shown
    assert re.search(r"web1 +Failed +touch +6[01]s +web1-0 +no such folder", shown), shown
    assert re.search(r"web2 +Running +touch +8m\S*", shown), shown
    assert max(map(len, shown.splitlines())) <= 80
    failed = json.loads(said(await told.run("maintenance", "history", "monday", "--failed", "-o", "json")))
    assert [one["host"] for one in failed["hosts"]["tasks"]] == ["web1"]
    older = said(await told.run("maintenance", "history", "monday", "--run", "aaaa"))
    assert "Hosts of run aaaa000011112222" in older
    unknown = refused(await told.run("maintenance", "history", "monday", "--run", "ffff"))
    assert (
        f"cannot tell of run ffff of monday: there is none, or it is not remembered any more; there are {RUN}"
        in unknown
    )


# plan


async def test_a_plan_says_who_comes_when_and_how_many_no_series_means(told: Told) -> None:
    for name in ("web1", "web2", "web3"):
        await told.host(name)
    await told.maintenance()
    shown = said(await told.run("maintenance", "plan", "monday"))
    assert re.search(
        rf"Hosts: +3 hosts: all of namespace\s+{told.api.namespace}, as\s+spec.series\s+is\s+omitted", shown
    ), shown
    rows = [line.split() for line in shown.splitlines() if re.match(r" +\d", line)]
    assert [(row[0], row[1], row[2], row[-1]) for row in rows] == [
        ("1", "web1", "none", "Begins"),
        ("2", "web2", "none", "BudgetSpent"),
        ("3", "web3", "none", "BudgetSpent"),
    ]  # fmt: skip
    assert max(map(len, shown.splitlines())) <= 80
    whole = json.loads(said(await told.run("maintenance", "plan", "monday", "-o", "json")))
    assert (whole["allHosts"], whole["atOnce"], len(whole["hash"])) == (True, 1, 64)
    first, second = whole["hosts"][:2]
    assert first["endsAt"] == second["startsAt"], "one after the other"
    assert second["remedy"].startswith("Nothing to do, unless")


async def test_a_plan_of_a_shut_window_says_when_it_opens(told: Told) -> None:
    await told.host("web1")
    opens = datetime.now(UTC) + timedelta(days=2)
    schedule = {"weekdays": [opens.strftime("%a")], "start": "06:00", "duration": "3h", "timeZone": "UTC"}
    await told.maintenance(window={"schedules": [schedule]})
    whole = json.loads(said(await told.run("maintenance", "plan", "monday", "-o", "json")))
    assert whole["hosts"][0]["reason"] == "WindowClosed"
    assert whole["nextRun"].startswith(opens.strftime("%Y-%m-%dT06:00"))
    assert whole["hosts"][0]["startsAt"] == whole["nextRun"]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"window": None, "windowRef": {"name": "nowhere"}},
            "WindowNotFound: there is no MaintenanceWindow nowhere",
        ),
        ({"seriesRef": {"name": "nobody"}}, "SeriesNotFound: there is no NodeSeries nobody"),
        ({"series": {"names": ["gone"]}}, "NoHosts: the series chooses no host"),
        (
            {"operations": [{"name": "x", "type": "one-shot", "templateRef": {"name": "none"}}]},
            "TemplateNotFound: there is no NodeOperationTemplate none",
        ),
    ],
)
async def test_a_plan_names_what_is_missing(told: Told, spec: dict[str, Any], problem: str) -> None:
    await told.host("web1")
    await told.maintenance(**spec)
    shown = " ".join(said(await told.run("maintenance", "plan", "monday")).split())
    assert f"Problem: {problem}" in shown


async def test_there_is_no_plan_of_nothing(told: Told) -> None:
    assert "cannot plan nobody: there is no such maintenance" in refused(
        await told.run("maintenance", "plan", "nobody")
    )


# approve


async def approvals(told: Told) -> list[tuple[str, str, str]]:
    found = (await told.api.client.list(MAINTENANCE_APPROVALS, Selection(told.api.namespace))).items
    return [(one.spec.maintenance, one.spec.plan_hash, one.spec.approver) for one in found]


async def test_approve_shows_the_plan_and_says_yes_to_it_alone(told: Told) -> None:
    await told.host("web1")
    going = {"run": {**GOING, "startedAt": ago(seconds=0)}, "plan": {"hash": HASH}}
    await told.maintenance(approval={"required": True}, status=going)
    assert (await why(told, "web1"))[0]["reason"] == "NotApproved"
    shown = said(await told.run("maintenance", "approve", "monday", "--yes", "--hash", HASH[:12]))
    assert f"Hash: {HASH}" in " ".join(shown.split())
    ((name, found, user),) = await approvals(told)
    assert (name, found) == ("monday", HASH)
    assert f"monday is approved by {user}: maintenanceapproval/monday-{HASH[:12]}-" in shown
    again = said(await told.run("maintenance", "approve", "monday", "--yes"))
    assert again == f"monday is approved already, by {user}\n"
    assert len(await approvals(told)) == 1
    # What the status shows is made up here: nobody said yes to what would really be done.
    assert (await why(told, "web1"))[0]["reason"] == "NotApproved"


async def test_what_is_planned_can_be_approved_before_it_begins(told: Told) -> None:
    """The hash follows from what will be: the operator finds the same one when the window opens."""
    await told.host("web1")
    opens = datetime.now(UTC) + timedelta(days=2)
    schedule = {"weekdays": [opens.strftime("%a")], "start": "06:00", "duration": "3h", "timeZone": "UTC"}
    await told.maintenance(window={"schedules": [schedule]}, approval={"required": True})
    plan = json.loads(said(await told.run("maintenance", "plan", "monday", "-o", "json")))
    said(await told.run("maintenance", "approve", "monday", "--yes", "--hash", plan["hash"]))
    assert [found for _, found, _ in await approvals(told)] == [plan["hash"]]


async def test_what_cannot_be_approved_says_why(told: Told) -> None:
    await told.host("web1")
    await told.maintenance("free")
    await told.maintenance("early", approval={"required": True}, operations=[{**ONCE, "suspend": True}])
    await told.maintenance("other", approval={"required": True})
    for name, why_not, *args in [
        ("free", "cannot approve free: it needs no approval; "),
        ("early", "cannot approve early: there is no plan yet; "),
        ("other", "not bbbbbbbbbbbb...: something has changed since; look at it", "--hash", "b" * 64),
    ]:
        assert why_not in refused(await told.run("maintenance", "approve", name, "-y", *args))
    assert await approvals(told) == []


# why


async def why(told: Told, host: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(said(await told.run("why", host, "-o", "json")))["reasons"]
    return found


async def test_why_tells_of_every_maintenance_and_of_what_else_keeps_a_host(told: Told) -> None:
    for name, alive in (("web1", "True"), ("web2", "True"), ("web3", "False")):
        await told.host(name, alive)
    made = await told.maintenance(
        status={
            "phase": "Running",
            "run": {**GOING, "startedAt": ago(seconds=0)},
            "hosts": counts(3, running=1),
        }
    )
    await told.maintenance("paused", paused=True)
    await told.claim("web1", made, RUN, State.WORKING)
    first = {one["maintenance"]: one for one in await why(told, "web1")}
    assert first["monday"]["reason"] == "Working"
    assert first["monday"]["object"] == "nodetask/web1-task"
    assert "nodemanager describe nodetask web1-task" in first["monday"]["remedy"]
    assert first["paused"]["reason"] == "Paused"
    assert "nodemanager maintenance resume paused" in first["paused"]["remedy"]
    second = {one["maintenance"]: one["reason"] for one in await why(told, "web2")}
    assert second == {"monday": "BudgetSpent", "paused": "Paused"}
    third = await why(told, "web3")
    assert [one["reason"] for one in third] == ["HostSilent", "HostSilent", "Paused"]
    assert third[0]["message"] == "as the test says"
    text = said(await told.run("why", "web1"))
    for label in ("Maintenance:", "Reason:", "Object:", "Since:", "Next check:", "What to do:"):
        assert label in text
    assert max(map(len, text.splitlines())) <= 80


async def test_why_of_a_claim_that_nobody_can_read(told: Told) -> None:
    await told.host("web1")
    await told.api.patch_node({"metadata": {"annotations": {ANNOTATION_VISIT: "{broken"}}})
    await told.maintenance()
    found = await why(told, "web1")
    assert [one["reason"] for one in found] == ["ClaimUnreadable", "ClaimUnreadable"]
    assert "remove the annotation maintenance.nodemanager/visit" in found[0]["remedy"]


async def test_why_of_a_host_that_waits_for_nothing_and_of_one_that_is_not_there(told: Told) -> None:
    await told.host("web1")
    assert said(await told.run("why", "web1")).startswith("web1 waits for nothing")
    assert "cannot tell why web9 waits: there is no such host" in refused(await told.run("why", "web9"))


# run


async def test_run_refuses_before_it_writes_anything(told: Told) -> None:
    await told.host("web1", role="web")
    await told.template("upgrade", parameters=[{"name": "to", "required": True, "pattern": "v[0-9]+"}])
    await told.template(
        "keep", steps=None, configSet={"files": [{"path": "/x", "ensure": "file", "content": "y"}]}
    )
    web = ("--on", "role=web", "--now")
    for args, why_not in [
        (("nope", *web), "cannot run nope: there is no such NodeOperationTemplate in namespace"),
        (("keep", *web), "cannot run keep: it declares what shall hold (type realtime)"),
        (("upgrade", *web), "cannot run upgrade: cannot do without parameter 'to': the template requires it"),
        (("upgrade", *web, "--set", "to=x"), "cannot use 'x' for parameter 'to': it does not match v[0-9]+"),
        (("upgrade", *web, "--set", "of=v1"), "cannot use parameter 'of': the template has to"),
        (("upgrade", "--on", "role=db", "--now", "--set", "to=v1"), "there is no host with role=db"),
        (("upgrade", "--host", "web9", "--now", "--set", "to=v1"), "there is no host web9"),
        (
            ("upgrade", "--on", "role=web", "--window", "w", "--set", "to=v1"),
            "there is no MaintenanceWindow w",
        ),
    ]:
        assert why_not in refused(await told.run("run", *args)), args
    assert (await told.api.client.list(NODE_MAINTENANCES, Selection(told.api.namespace))).items == []


async def test_a_dry_run_prints_what_it_would_make(told: Told) -> None:
    await told.host("web1", role="web")
    await told.template("upgrade", parameters=[{"name": "to"}])
    args = ("--on", "role in (web,db)", "--now", "--set", "to=v2", "--max-unavailable", "10%",
            "--stop-after", "2",
            "--no-drain", "--dry-run")  # fmt: skip
    whole = yaml.safe_load(said(await told.run("run", "upgrade", *args)))
    assert whole["metadata"] == {"generateName": "upgrade-", "namespace": told.api.namespace}
    assert whole["spec"] == {
        "window": {"always": True},
        "series": {
            "selector": {"matchExpressions": [{"key": "role", "operator": "In", "values": ["web", "db"]}]}
        },
        "operations": [
            {
                "name": "run",
                "type": "one-shot",
                "templateRef": {"name": "upgrade"},
                "parameters": {"to": "v2"},
            }
        ],
        "budget": {"maxUnavailable": "10%"},
        "stopAfter": 2,
        "disruption": {"cordon": False},
        "ttlSecondsAfterFinished": 86400,
    }
    kept = yaml.safe_load(said(await told.run("run", "upgrade", *args, "--keep")))
    assert "ttlSecondsAfterFinished" not in kept["spec"]


async def made_by_run(told: Told) -> str:
    """Return the name of the maintenance that `nodemanager run` makes."""
    async with asyncio.timeout(90):
        while True:
            found = (await told.api.client.list(NODE_MAINTENANCES, Selection(told.api.namespace))).items
            if found:
                return found[0].metadata.name
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("phase", "ends", "code"),
    [
        ("Succeeded", counts(2, succeeded=2), 0),
        ("Succeeded", counts(2, succeeded=1, skipped=1), 1),
        ("Stopped", counts(2, failed=1, waiting=1), 1),
        ("Failed", counts(2, succeeded=1, failed=1), 1),
    ],
)
async def test_run_follows_every_host_to_the_end(
    told: Told, monkeypatch: pytest.MonkeyPatch, phase: str, ends: dict[str, Any], code: int
) -> None:
    monkeypatch.setattr(following, "POLL_SECONDS", 0.05)
    for name in ("web1", "web2"):
        await told.host(name, role="web")
    await told.template("upgrade")
    running = asyncio.create_task(told.run("run", "upgrade", "--on", "role=web", "--now", "--timeout", "40s"))
    name = await made_by_run(told)
    assert name.startswith("upgrade-")
    made = await told.get(name)
    bad = ends["failed"] > 0
    await told.task(
        "web1", made, RUN, phase="Failed" if bad else "Succeeded", message="exit 7" if bad else ""
    )
    wait = {"reason": "BudgetSpent", "hosts": 1, "first": ["web2"]}
    await told.status(
        NODE_MAINTENANCES, name, {"phase": "Running", "hosts": counts(2, running=1), "waiting": [wait]}
    )
    await told.status(NODE_MAINTENANCES, name, {"phase": phase, "hosts": ends, "waiting": []})
    ran = await running
    assert ran.code == code, ran
    lines = ran.stdout.splitlines()
    assert lines[0] == f"{name}: upgrade on 2 hosts"
    assert f"web1: {'Failed: exit 7' if bad else 'Succeeded'}" in lines
    assert f"{name}: {phase}: " in ran.stdout
    assert ("\x1b" in ran.stdout, f"nodemanager maintenance history {name}" in ran.stderr) == (
        False,
        code == 1,
    )
    assert (f"nodemanager maintenance retry {name}" in ran.stderr) is (phase == "Stopped")


async def test_run_that_takes_too_long_goes_on_without_us(told: Told) -> None:
    await told.host("web1")
    await told.template("upgrade")
    ran = await told.run("run", "upgrade", "--all-hosts", "--now", "--timeout", "1s")
    assert ran.code == 3
    name = await made_by_run(told)
    assert (
        f"{name} has not ended within 1 s, and goes on. To look: nodemanager maintenance history {name}"
        in ran.stderr
    )
    assert f"nodemanager maintenance abort {name}" in ran.stderr
    assert (await told.get(name)).spec.series is None
    quick = said(await told.run("run", "upgrade", "--host", "web1", "--now", "--no-wait"))
    assert "upgrade on 1 host\n" in quick
    assert "To look: " in quick
    assert ONCE["type"] == (await told.get(quick.split(":")[0])).spec.operations[0].type
