"""The default of a namespace for rollouts: agents with the rights of hosts wait for their turn."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from nodemanager.agent.declared import default_rollout
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.common.rollout import SOAKING, STABLE, UNDONE
from nodemanager.api.common.rolloutpolicy import DEFAULT, ROLLOUT_POLICIES
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.controllers.rollouts import reconciling, waking
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.kube import errors
from nodemanager.kube.core import CRDS, ROLES
from support import cli, running
from support.agent_process import Api
from support.either import Place
from support.joined_host import join
from support.rollout_site import LABELS, PATIENCE, Folders, RolloutSite, rollout_site, rollout_site_at
from support.root_tree import needs_root

HOSTS = ("a", "b", "c")
BAD = {"path": "/motd/below", "content": "a file has nothing below it"}


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(reconciling, "AGAIN_SECONDS", 0.01)


async def decree(site: RolloutSite, **spec: Any) -> None:
    """Give the namespace a default."""
    body = {"metadata": {"name": DEFAULT}, "spec": {"strategy": "Staged", **spec}}
    await site.client.create(ROLLOUT_POLICIES, body, site.namespace)


async def declare(site: RolloutSite, content: str, *more: dict[str, str], name: str = "web") -> None:
    """Make a set that says nothing of how it is rolled out, or change it."""
    spec = {"files": [{"path": "/motd", "content": content}, *more]}
    body = {"metadata": {"name": name, "labels": LABELS}, "spec": spec}
    try:
        await site.client.create(CONFIG_SETS, body, site.namespace)
    except errors.AlreadyExists:
        await site.client.patch(CONFIG_SETS, name, site.namespace, MergePatch({"spec": spec}))


@contextlib.asynccontextmanager
async def agents(site: RolloutSite, folders: Folders, place: Place, folder: Path) -> AsyncIterator[None]:
    """Agents that may do what hosts may, and no more."""
    async with contextlib.AsyncExitStack() as stack:
        for host, root in folders.roots.items():
            body = {"metadata": {"name": host, "labels": LABELS}}
            await site.client.create(MANAGED_NODES, body, site.namespace)
            client = await stack.enter_async_context((await join(place, folder, host)).client())
            await stack.enter_async_context(running.agent(client, site.namespace, root, host))
        yield


async def when(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def having(folders: Folders, content: str) -> int:
    return sum(one == content for one in folders.said().values())


@needs_root
async def test_a_set_that_says_nothing_goes_by_stages_and_a_bad_change_reaches_one_host(
    place: Place, tmp_path: Path
) -> None:
    folders = Folders(tmp_path, HOSTS)
    async with (
        rollout_site_at(place) as site,
        agents(site, folders, place, tmp_path / "joined"),
    ):
        await decree(site, stages=["1", "100%"], soak="1s")
        await declare(site, "one")
        # No operator has seen it: nobody takes it, and hosts say why.
        async with asyncio.timeout(PATIENCE):
            while not await says(site, "a", "RevisionUndecided"):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert having(folders, "") == len(HOSTS)
        async with site.operator():
            await site.until("web", lambda status: status.phase == SOAKING and status.stage == 1)
            assert (having(folders, "one"), having(folders, "")) == (1, 2)
            status = await site.until("web", lambda status: status.phase == STABLE)
            assert status.policy is not None
            await when(lambda: having(folders, "one") == len(HOSTS))
            await declare(site, "two", BAD)
            await site.until("web", lambda status: status.refused is not None)
            assert having(folders, "one") >= len(HOSTS) - 1
            undone = await site.until("web", lambda status: status.phase == UNDONE)
            assert sum(f"failed on {host}" in undone.message for host in HOSTS) == 1
            await when(lambda: having(folders, "one") == len(HOSTS))
            # The default goes, and what was undone does not come.
            await site.client.delete(ROLLOUT_POLICIES, DEFAULT, site.namespace)
            await declare(site, "other", name="other")
            await site.until("other", lambda status: status.reason == RolloutReason.ALL_AT_ONCE)
            still = (await site.config_set("web")).status.rollout
            assert still is not None
            assert (still.phase, still.policy) == (UNDONE, status.policy)
            # What is said from then on reaches all of them.
            await site.client.delete(CONFIG_SETS, "other", site.namespace)
            await declare(site, "three")
            await when(lambda: having(folders, "three") == len(HOSTS))
            ended = await site.until("web", lambda status: status.reason == RolloutReason.ALL_AT_ONCE)
            assert (ended.phase, ended.policy) == (STABLE, None)


async def says(site: RolloutSite, host: str, reason: str) -> bool:
    return reason in [one.reason for one in (await site.node(host)).status.conditions]


async def test_deleting_or_editing_the_default_in_the_middle_sends_nothing_to_further_hosts(
    tmp_path: Path,
) -> None:
    async with rollout_site(tmp_path) as site, site.operator():
        await site.join("a", "b", "c")
        await decree(site, stages=["1", "100%"], soak="1h")
        await declare(site, "one")
        begun = await site.until("web", lambda status: status.phase == SOAKING)
        assert sum(map(len, site.seen.values())) == 1
        await site.client.delete(ROLLOUT_POLICIES, DEFAULT, site.namespace)
        await declare(site, "x", name="later")  # the operator has seen it by then
        await site.until("later", lambda status: status.reason == RolloutReason.ALL_AT_ONCE)
        asked = ("rollout", "status", "web", "--no-watch", "-n", site.namespace)
        found = await asyncio.to_thread(cli.run, *asked, "--kubeconfig", str(site.kubeconfig))
        assert "web: Soaking (Soaking), by the default of the namespace" in found.stdout
        # A shorter soak is no reason to skip what was not proven, nor is AllAtOnce one to skip the rest.
        await decree(site, strategy="AllAtOnce")
        await declare(site, "y", name="later")
        status = await site.until("later", lambda status: status.current.endswith("-2"))
        assert status.reason == RolloutReason.ALL_AT_ONCE
        web = (await site.config_set("web")).status.rollout
        assert web is not None
        assert (web.threshold, web.next, web.policy) == (begun.threshold, begun.next, begun.policy)
        patch = MergePatch({"spec": {"strategy": "Staged", "soak": "1s", "stages": ["2", "100%"]}})
        await site.client.patch(ROLLOUT_POLICIES, DEFAULT, site.namespace, patch)
        await site.until("web", lambda status: status.phase == STABLE)
        assert [one for one in site.seen.values() if one != [1]] == []


async def test_commands_say_where_a_rollout_comes_from_and_approve_what_the_default_asks_for(
    tmp_path: Path,
) -> None:
    async with rollout_site(tmp_path) as site, site.operator():
        await site.join("a")
        await decree(site, soak="0", approval={"required": True}, paused=True)
        await declare(site, "one")

        async def run(*args: str) -> cli.Ran:
            where = ("-n", site.namespace, "--kubeconfig", str(site.kubeconfig))
            return await asyncio.to_thread(cli.run, *args, *where)

        await site.until("web", lambda status: status.reason == RolloutReason.PAUSED)
        described = await run("describe", "cs", "web")
        assert "web: Paused (Paused), by the default of the namespace" in described.stdout
        for doing in ("pause", "resume"):
            refused = await run("rollout", doing, "web")
            assert f"cannot {doing} web: it is rolled out by the default of its namespace" in refused.stderr
        resumed = MergePatch({"spec": {"paused": None}})
        await site.client.patch(ROLLOUT_POLICIES, DEFAULT, site.namespace, resumed)
        await site.until("web", lambda status: status.reason == RolloutReason.NOT_APPROVED)
        assert "Waits for: an approval" in " ".join((await run("describe", "rp", "default")).stdout.split())
        assert (await run("rollout", "approve", "web", "--yes")).code == 0
        await site.until("web", lambda status: status.phase == STABLE)
        assert site.seen == {"a": [1]}


@pytest.mark.parametrize(
    ("name", "spec", "why"),
    [
        ("other", {"strategy": "Staged"}, "metadata.name must be default: a namespace has one RolloutPolicy"),
        ("default", {"strategy": "Staged", "approval": {"required": True, "differentUser": True}},
         "must be said in spec.rollout of each ConfigSet, which names its requester"),
        ("default", {"strategy": "AllAtOnce", "approval": {"required": True}}, "AllAtOnce waits for nothing"),
        ("default", {"stages": ["1"]}, "strategy"),
    ],
)  # fmt: skip
async def test_what_can_be_no_default_is_refused(
    place: Place, api: Api, name: str, spec: dict[str, Any], why: str
) -> None:
    with pytest.raises(errors.Invalid, match=why):
        await api.client.create(ROLLOUT_POLICIES, {"metadata": {"name": name}, "spec": spec}, place.namespace)


async def test_a_host_may_read_the_one_default_and_knows_when_there_can_be_none(
    place: Place, api: Api, tmp_path: Path
) -> None:
    async with (await join(place, tmp_path, "a")).client() as host:
        assert not await default_rollout.is_staged(host, place.namespace)
        body = {"metadata": {"name": DEFAULT}, "spec": {"strategy": "AllAtOnce"}}
        await api.client.create(ROLLOUT_POLICIES, body, place.namespace)
        assert not await default_rollout.is_staged(host, place.namespace)
        staged = MergePatch({"spec": {"strategy": "Staged"}})
        await api.client.patch(ROLLOUT_POLICIES, DEFAULT, place.namespace, staged)
        assert await default_rollout.is_staged(host, place.namespace)
        for doing in (
            host.get(ROLLOUT_POLICIES, "other", place.namespace),
            host.patch(ROLLOUT_POLICIES, DEFAULT, place.namespace, staged),
            host.list(ROLLOUT_POLICIES),
        ):
            with pytest.raises(errors.Forbidden):
                await doing
        # The rights of an older version say nothing of it, where the kind is there: nobody knows then.
        role = await api.client.get(ROLES, "nodemanager-a", place.namespace)
        rules = [one for one in role.rules or [] if ROLLOUT_POLICIES.plural not in one["resources"]]
        await api.client.patch(ROLES, "nodemanager-a", place.namespace, MergePatch({"rules": rules}))
        async with asyncio.timeout(PATIENCE):
            while not await is_forbidden(host, place.namespace):  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def is_forbidden(host: Client, namespace: str) -> bool:
    try:
        assert await default_rollout.is_staged(host, namespace)  # rights last for a moment
    except errors.Forbidden:
        return True
    return False


async def test_definitions_of_an_older_version_have_no_default(tmp_path: Path) -> None:
    async with rollout_site(tmp_path) as site:
        await site.client.delete(CRDS, ROLLOUT_POLICIES.qualified_name)
        async with asyncio.timeout(PATIENCE):
            while await served(site):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert not await default_rollout.is_staged(site.client, site.namespace)


async def served(site: RolloutSite) -> bool:
    try:
        await site.client.list(ROLLOUT_POLICIES)
    except errors.NotFound:
        return False
    return True
