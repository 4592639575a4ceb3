"""`plan --fleet` where hosts, the operator or rights do not play along; agents only pretend."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodemanager.api.common import configsetpreview
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.configsetpreview import CONFIG_SET_PREVIEWS, ConfigSetPreview, ProposedSet
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.cli import fleet_preview
from nodemanager.client.calls import Selection
from nodemanager.controllers import previews
from nodemanager.controllers.previews import reconciling
from nodemanager.fleet.previews import asking
from nodemanager.kube import core, errors, manifests
from support import cli, kubeconfigs
from support.accounts import RBAC
from support.either import Place
from support.joined_host import ask
from support.maintenance_site import Site
from support.pretend_agents import IGNORE

OPERATOR = (previews.REGISTRATION,)
MOTD = {
    "apiVersion": CONFIG_SETS.api_version,
    "kind": CONFIG_SETS.kind,
    "metadata": {"name": "motd"},
    "spec": {"nodeSelector": {}, "files": [{"path": "/etc/motd", "content": "hello\n"}]},
}

SAME = "No ConfigSet differs from what the API has; rollout and enforcement do not count.\n"


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(fleet_preview, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(fleet_preview, "TAKEN_SECONDS", 1.0)
    (tmp_path / "motd.yaml").write_text(manifests.dump([MOTD]))
    return tmp_path / "motd.yaml"


async def plan(place: Place, folder: Path, *args: str, kubeconfig: str = "") -> cli.Ran:
    return await asyncio.to_thread(
        cli.run, "plan", "--fleet", "-f", str(folder), "-n", place.namespace, "--kubeconfig",
        kubeconfig or str(place.kubeconfig), *args,
    )  # fmt: skip


async def left(site: Site) -> list[str]:
    found = (await site.client.list(CONFIG_SET_PREVIEWS, Selection(site.namespace))).items
    return [one.metadata.name for one in found]


async def test_hosts_that_say_nothing_are_named_with_the_reason(
    site: Site, place: Place, folder: Path
) -> None:
    """Here all agents that answer are older than proposals."""
    hosts = {name: await site.host(name) for name in ("held", "late", "old", "refused", "silent")}
    await site.say(hosts["silent"], Alive="False")
    await site.say(hosts["held"], Alive="True", Held="True")
    ends = {hosts["late"]: IGNORE, hosts["refused"]: "Refused"}
    site.agents.behave = lambda task: ends.get(task.spec.node_name, "Succeeded")
    async with site.operator(entries=OPERATOR):
        ran = await plan(place, folder, "--all", "-o", "json", "--timeout", "3s")
        sampled = await plan(place, folder, "--sample", "1", "-l", "none=such")
    assert ran.code == 1, ran
    said = {one["host"]: (one["state"], one["message"]) for one in json.loads(ran.stdout)["silent"]}
    assert {host: state for host, (state, _) in said.items()} == {
        hosts["held"]: "HostHeld", hosts["late"]: "Unanswered", hosts["old"]: "TooOld",
        hosts["refused"]: "Refused", hosts["silent"]: "HostSilent",
    }  # fmt: skip
    assert all(message for _, message in said.values()), said
    assert (site.agents.refused, await site.visits(), await left(site)) == ([], {}, [])
    assert sampled.code == 1, "nobody was asked, so nobody can say no"
    assert "has no ManagedNode with labels none=such; see" in " ".join(sampled.stderr.split())


async def test_without_an_operator_it_says_so_within_seconds_and_leaves_nothing(
    site: Site, place: Place, folder: Path
) -> None:
    await site.host("a")
    ran = await plan(place, folder)
    assert (ran.code, ran.stdout) == (1, "")
    assert "no operator took the request within 1 s; it does not run, or is older" in ran.stderr
    assert await left(site) == []


@pytest.mark.parametrize("refusal", [errors.Forbidden, errors.Invalid])
async def test_an_operator_that_can_make_no_tasks_says_so(
    site: Site, place: Place, folder: Path, monkeypatch: pytest.MonkeyPatch, refusal: type[errors.KubeError]
) -> None:
    async def full(*_args: object) -> None:
        raise refusal("exceeded quota: tasks")

    monkeypatch.setattr(reconciling.Previews, "_ask_one", full)
    await site.host("a")
    async with site.operator(entries=OPERATOR):
        ran = await plan(place, folder)
    assert (ran.code, await left(site)) == (1, [])
    assert "the operator refuses: cannot make tasks: exceeded quota: tasks" in " ".join(ran.stderr.split())


async def test_what_is_as_it_is_asks_nobody(site: Site, place: Place, folder: Path) -> None:
    await site.host("a")
    await site.client.create(CONFIG_SETS, {key: MOTD[key] for key in ("metadata", "spec")}, site.namespace)
    ran = await plan(place, folder)
    assert (ran.code, ran.stdout) == (0, SAME), ran
    node = {"apiVersion": MANAGED_NODES.api_version, "kind": MANAGED_NODES.kind, "metadata": {"name": "a"}}
    await asyncio.to_thread(folder.write_text, manifests.dump([MOTD, node]))
    ran = await plan(place, folder)
    assert (ran.code, "ManagedNode a of the manifests: hosts use what the API has" in ran.stderr) == (0, True)


async def test_only_who_may_write_config_sets_may_ask(site: Site, place: Place, folder: Path) -> None:
    """Also where another role gives the right to ConfigSetPreviews."""
    await site.host("a")
    await asyncio.to_thread(cli.run, "crds", "--install", "--kubeconfig", str(place.kubeconfig))
    look = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    make = {"apiGroups": ["common.nodemanager"], "resources": ["configsetpreviews"], "verbs": ["create"]}
    for name, rules in (("jane", [look]), ("joe", [look, make])):
        await site.client.create(
            core.ROLES.untyped(), {"metadata": {"name": name}, "rules": rules}, site.namespace
        )
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": name}],
        }
        await site.client.create(core.ROLE_BINDINGS.untyped(), binding, site.namespace)
    ran = await plan(place, folder, kubeconfig=_as(place, "jane"))
    assert (ran.code, "as with the role nodemanager-editor" in " ".join(ran.stderr.split())) == (1, True), ran
    async with asyncio.timeout(90):  # a kube-apiserver takes a moment for its policies
        while "joe may not propose ConfigSets" not in ran.stderr:
            ran = await plan(place, folder, kubeconfig=_as(place, "joe"))
    assert ran.code == 1


def _as(place: Place, user: str) -> str:
    config = yaml.safe_load(place.kubeconfig.read_text())
    for one in config["users"]:
        one["user"]["as"] = user
    return str(kubeconfigs.write(Path(f"{place.kubeconfig}.{user}"), config))


def proposal(*hosts: str, **spec: Any) -> dict[str, Any]:
    sets = [ProposedSet(name="motd", content={"files": [{"path": "/etc/motd", "content": "x"}]})]
    said = {
        "sets": [{"name": "motd", "content": sets[0].content}], "hosts": list(hosts),
        "digest": configsetpreview.digest_of(sets, []),
    }  # fmt: skip
    return {"metadata": {"name": "asked"}, "spec": {**said, **spec}}


async def test_few_are_asked_at_once_and_what_is_forgotten_goes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "AT_ONCE", 2)
    hosts = [await site.host(f"h{number}") for number in range(5)]
    site.agents.behave = lambda _task: IGNORE
    await site.client.create(CONFIG_SET_PREVIEWS, proposal(*hosts, "nobody"), site.namespace)
    async with site.operator(entries=OPERATOR):
        await _seen(site, lambda one: one.status.asked == 2)
        assert len(await site.tasks()) == 2
        site.agents.behave = lambda _task: "Succeeded"
        site.agents.look()
        found = await _seen(site, lambda one: one.status.asked == 5)
        assert [(one.name, one.reason) for one in found.status.unasked] == [("nobody", "HostGone")]
        assert site.agents.refused == []
    site.shift = datetime.now(UTC) + asking.KEPT + timedelta(seconds=1)
    async with site.operator(entries=OPERATOR), asyncio.timeout(90):
        while await left(site) or await site.tasks():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def _seen(site: Site, holds: Callable[[ConfigSetPreview], object]) -> ConfigSetPreview:
    async with asyncio.timeout(90):
        while not holds(  # noqa: ASYNC110
            found := await site.client.get(CONFIG_SET_PREVIEWS, "asked", site.namespace)
        ):
            await asyncio.sleep(0.05)
    return found


@pytest.mark.parametrize("kill_at", [1, 2, 3, 5])
async def test_an_operator_that_is_killed_while_it_asks_leaves_it_to_the_next_one(
    site: Site, kill_at: int
) -> None:
    hosts = [await site.host(name) for name in ("a", "b")]
    await site.client.create(CONFIG_SET_PREVIEWS, proposal(*hosts), site.namespace)
    async with site.operator(kill_at, entries=OPERATOR) as first, asyncio.timeout(90):
        await first.dead.wait()
    async with site.operator(entries=OPERATOR):
        await _seen(site, lambda one: one.status.phase == "Asked")
    assert sorted(task.spec.node_name for task in await site.tasks()) == hosts
    assert site.agents.refused == []


async def test_a_proposal_is_not_changed_and_a_wrong_one_is_refused(site: Site) -> None:
    host = await site.host("a")
    await site.client.create(CONFIG_SET_PREVIEWS, proposal(host, digest="0" * 64), site.namespace)
    one = f"{CONFIG_SET_PREVIEWS.path(site.namespace)}/asked"
    refused = await ask(site.client, "PATCH", one, {"spec": {"hosts": ["b"]}})
    assert (refused.code, "hosts may have answered" in refused.message) == (422, True), refused
    async with site.operator(entries=OPERATOR):
        found = await _seen(site, lambda one: one.status.phase)
    assert (found.status.phase, await site.tasks()) == ("Refused", [])
