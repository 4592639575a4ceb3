"""A story of several people, a host and an operator, told by the audit log alone; on both servers.

`pytest -rP` prints the log of it, of which docs/audit.md has some lines.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from support import cli
from support.agent_process import PATIENCE, Agent, Api, Starts, owned
from support.editors import editor
from support.either import Place
from support.folder_host import furnish
from support.joined_host import guard, join, succeeds
from support.node_tasks import shell
from support.operator_process import operator
from support.root_tree import needs_root

MOTD = "/etc/motd"
STAGED = {"strategy": "Staged", "stages": ["100%"], "soak": "0"}
Found = dict[str, Any]


async def log(place: Place, *args: str) -> list[Found]:
    """Return what `nodemanager audit log` says."""
    where = ("--kubeconfig", str(place.kubeconfig), "-n", place.namespace, "-o", "json")
    done = await asyncio.to_thread(cli.run, "audit", "log", *args, *where)
    return list(json.loads(done.stdout)) if done.code == 0 else []  # there is none yet


async def found(place: Place, *args: str, **wanted: Any) -> Found:
    """Wait for a record; of several, the last. It says who, and how that is known."""
    listed: list[Found] = []
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                listed = await log(place, *args)
                fits = [one for one in listed if all(one.get(name) == wanted[name] for name in wanted)]
                if fits:
                    return fits[-1]
                await asyncio.sleep(0.2)
    except TimeoutError:
        brief = [(one["verb"], one.get("aspect"), one.get("to"), one.get("reason")) for one in listed]
        raise AssertionError(f"nothing of {wanted} in {brief}") from None


def who(record: Found) -> tuple[str, str]:
    return record["actor"]["name"].rpartition(":")[2], record["actor"]["known"]


async def approve(client: Client, place: Place, name: str, plan_hash: str) -> None:
    approver = f"system:serviceaccount:{place.namespace}:{name}"
    spec = {"maintenance": "kernel", "planHash": plan_hash, "approver": approver}
    await client.create(
        MAINTENANCE_APPROVALS, {"metadata": {"name": f"by-{name}"}, "spec": spec}, place.namespace
    )


async def until(api: Api, holds: Callable[[NodeMaintenance], object]) -> NodeMaintenance:
    one = NodeMaintenance()
    try:
        async with asyncio.timeout(PATIENCE):
            while not holds(one):
                one = await api.client.get(NODE_MAINTENANCES, "kernel", api.namespace)
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"never came true: {one.status}") from None
    return one


async def maintained(place: Place, api: Api, ada: Client, bob: Client) -> None:
    """Ada wants a maintenance, and may not approve it herself; Bob does."""
    requester = f"system:serviceaccount:{place.namespace}:ada"
    steps = [shell("note", "echo done > /noted")]
    spec = {
        "window": {"always": True},
        "operations": [{"name": "note", "type": "one-shot", "steps": steps}],
        "approval": {"required": True, "differentUser": True, "requester": requester},
    }
    await ada.create(NODE_MAINTENANCES, {"metadata": {"name": "kernel"}, "spec": spec}, place.namespace)
    waits = await until(api, lambda one: one.status.plan is not None and one.status.plan.hash)
    assert waits.status.plan is not None
    plan_hash = waits.status.plan.hash
    await approve(ada, place, "ada", plan_hash)
    about = ("--object", "nodemaintenance/kernel")
    refused = await found(place, *about, verb="refuse", approval="by-ada", reason="OwnRequest")
    assert who(refused) == ("nodemanager-operator", "operator")
    await approve(bob, place, "bob", plan_hash)
    await until(api, lambda one: one.status.history)
    assert who(await found(place, *about, verb="create")) == ("ada", "admission")
    said = {name: await found(place, "--verb", "approve", approval=f"by-{name}") for name in ("ada", "bob")}
    assert {name: who(one) for name, one in said.items()} == {
        name: (name, "admission") for name in ("ada", "bob")
    }
    started = await found(place, *about, verb="start", aspect="run", planHash=plan_hash)
    assert started["gates"][0]["reason"] == "WindowOpen"
    ended = await found(place, "--host", "web1", verb="step", aspect="step/note-note", planHash=plan_hash)
    assert (who(ended), ended["step"]["exitCode"]) == (("web1", "host"), 0)
    visited = await found(place, "--host", "web1", verb="start", aspect="visit")
    order = [started, said["ada"], refused, said["bob"], visited, ended]
    assert sorted(one["sequence"] for one in order) == [one["sequence"] for one in order]


async def drifted(place: Place, agent: Agent) -> None:
    """Somebody changes a file behind our back, and then puts an older one back by hand."""
    agent.at(MOTD).write_text("drift\n")
    await agent.reads(MOTD, "two\n")
    repaired = await found(place, "--host", "web1", verb="repair", aspect=f"file:{MOTD}")
    assert who(repaired) == ("web1", "host")
    restore = ("restore", MOTD, "--hold", "--for", "1h", "--reason", "comparing", "--root", str(agent.root))
    await asyncio.to_thread(succeeds, *restore)
    by_hand = await found(place, "--host", "web1", verb="restore", aspect=MOTD)
    assert who(by_hand) == ("root", "host")
    assert by_hand["files"][0]["path"] == MOTD
    held = await found(place, "--host", "web1", verb="hold")
    assert (who(held), held["message"]) == (("root", "host"), "comparing")
    assert repaired["chain"]["index"] < held["chain"]["index"] < by_hand["chain"]["index"]
    await asyncio.to_thread(succeeds, "unhold", "--root", str(agent.root))
    await found(place, "--host", "web1", verb="unhold")
    await agent.reads(MOTD, "two\n")


async def undone(place: Place, agent: Agent, bob: Client) -> None:
    """Bob rolls out what cannot be, and it is taken back."""
    impossible = [owned(MOTD, content="three\n"), owned(f"{MOTD}/below", content="no\n")]
    await bob.patch(CONFIG_SETS, "web", place.namespace, MergePatch({"spec": {"files": impossible}}))
    about = ("--object", "configset/web")
    undo = await found(place, *about, verb="undo", aspect="refused")
    assert who(undo) == ("nodemanager-operator", "operator")
    assert who(await found(place, *about, verb="update")) == ("bob", "admission")
    await found(place, *about, aspect="rollout", to="Undone")
    await agent.reads(MOTD, "two\n")


@needs_root
async def test_who_did_what_is_told_by_the_log_alone(
    place: Place, api: Api, start: Starts, tmp_path: Path
) -> None:
    await guard(place, tmp_path)
    async with editor(place, "ada") as ada, editor(place, "bob") as bob, operator(place, api, tmp_path):
        await found(place, verb="begin", aspect="log")
        joined = await join(place, tmp_path / "joined", "web1")
        agent = start("web1", kubeconfig=joined.kubeconfig)
        furnish(agent.root)
        spec = {"nodeSelector": {}, "rollout": STAGED, "files": [owned(MOTD, content="one\n")]}
        await ada.create(CONFIG_SETS, {"metadata": {"name": "web"}, "spec": spec}, place.namespace)
        await agent.reads(MOTD, "one\n")
        changed = MergePatch({"spec": {"files": [owned(MOTD, content="two\n")]}})
        await found(place, "--object", "configset/web", aspect="rollout", to="Stable")
        await ada.patch(CONFIG_SETS, "web", place.namespace, changed)
        await agent.reads(MOTD, "two\n")

        await maintained(place, api, ada, bob)
        await drifted(place, agent)
        await undone(place, agent, bob)

        revoked = succeeds("rbac", "--hostname", "web1", "-n", place.namespace, "--revoke")
        await asyncio.to_thread(
            place.kubectl, "delete", "--ignore-not-found", "-f", "-", stdin=revoked.stdout
        )
        account = ("--object", "serviceaccount/nodemanager-web1")
        await found(place, *account, verb="revoke")
        assert who(await found(place, *account, verb="admit"))[1] == "fieldManager"
        issued = await found(place, *account, verb="issue")
        assert issued["actor"]["claimed"], "the administrator, by the word of the command"
        where = ("--kubeconfig", str(place.kubeconfig), "-n", place.namespace)
        checked = await asyncio.to_thread(succeeds, "audit", "verify", *where)
        shown = await asyncio.to_thread(succeeds, "audit", "log", *where)
        print(shown.stdout, checked.stdout)  # noqa: T201
