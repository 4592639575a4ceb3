"""`nodemanager rollout` against an API, with the operator at work and hosts that only report."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.rollout import STABLE, UNDONE
from nodemanager.cli import rollout_objects
from nodemanager.cli.commands.rollout import changing
from nodemanager.client.patches import MergePatch
from nodemanager.controllers.rollouts import reconciling, waking
from nodemanager.fleet.rollout import grouping
from nodemanager.server.http import app
from support import cli
from support.rollout_site import LABELS, NAMESPACE, RolloutSite, rollout_site


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(reconciling, "AGAIN_SECONDS", 0.01)


async def ran(site: RolloutSite, *args: str) -> cli.Ran:
    """Run the command as an administrator, in a process of its own thread: the API is in this one."""
    flags = ("--kubeconfig", str(site.kubeconfig), "-n", NAMESPACE)
    return await asyncio.to_thread(cli.run, "rollout", *args, *flags)


async def test_a_change_is_seen_compared_taken_back_and_tried_again(tmp_path: Path) -> None:
    async with rollout_site(tmp_path) as site, site.operator():
        await site.join("a", "b")
        await site.declare("web", "one", stages=["1"], soak="0")
        await site.until("web", lambda status: status.phase == STABLE)
        done = await ran(site, "status", "web")
        assert (done.code, done.stdout.strip()) == (0, "web: Stable (RolledOut)")
        site.broken = {2}
        await site.declare("web", "two")
        await site.until("web", lambda status: status.phase == UNDONE)
        failed = await ran(site, "status", "web")
        assert failed.code == 1
        assert "Undone (HostsFailed): revision 2 failed on" in failed.stdout

        listed = await ran(site, "history", "web")
        rows = [line.split() for line in listed.stdout.splitlines()]
        assert [(row[0], row[3]) for row in rows[1:]] == [("1", "stable"), ("2", "undone")]
        shown = await ran(site, "history", "web", "--revision", "1", "-o", "json")
        assert json.loads(shown.stdout)["spec"]["files"] == [{"path": "/motd", "content": "one"}]
        compared = await ran(site, "diff", "web")
        lines = compared.stdout.splitlines()
        assert lines[:2] == ["--- web revision 1", "+++ web revision 2"]
        assert [line.split()[-1] for line in lines[2:] if line[0] in "-+"] == ["one", "two"]
        missing = await ran(site, "diff", "web", "--from", "7")
        assert (missing.code, "it has no revision 7; there are 1, 2" in missing.stderr) == (1, True)

        site.broken = set()
        assert (await ran(site, "restart", "web")).stdout == "web is tried again\n"
        status = await site.until("web", lambda status: status.phase == STABLE)
        assert status.stable is not None
        assert status.stable.revision == 2

        undone = await ran(site, "undo", "web")
        assert "says again what revision 1 said" in undone.stdout
        status = await site.until(
            "web", lambda status: status.phase == STABLE and status.observed_generation == 3
        )
        assert status.stable is not None
        assert (status.stable.revision, len(await site.revisions("web"))) == (3, 3)
        config_set = await site.config_set("web")
        assert config_set.spec.files[0].content == "one"
        assert config_set.spec.rollout is not None
        again = await ran(site, "undo", "web", "--to-revision", "1")
        assert again.stdout == "web says already what revision 1 said\n"


async def test_pause_and_resume(tmp_path: Path) -> None:
    async with rollout_site(tmp_path) as site, site.operator():
        await site.join("a")
        await site.declare("web", "one", stages=["1"], soak="0", paused=True)
        await site.until("web", lambda status: status.phase == "Paused")
        assert (await ran(site, "pause", "web")).stdout == "web is paused already\n"
        told = await ran(site, "status", "web", "--no-watch")
        assert "Run `nodemanager rollout resume NAME`" in told.stdout
        assert site.seen == {"a": []}
        assert (await ran(site, "resume", "web")).stdout == "web goes on\n"
        await site.until("web", lambda status: status.phase == STABLE)
        assert site.seen == {"a": [1]}
        missing = await ran(site, "pause", "nothing")
        assert (missing.code, "there is no such ConfigSet" in missing.stderr) == (1, True)


async def test_commands_about_one_set_of_a_group_are_about_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouping, "SETTLE_SECONDS", 0.2)
    async with rollout_site(tmp_path) as site, site.operator():
        for name in ("app", "web"):
            await site.declare(name, "one", stages=["1"], soak="0", group="shop")
        await site.until("web", lambda status: status.phase == STABLE)  # there is no host
        paused = await ran(site, "pause", "web")
        assert "web is paused; to go on: nodemanager rollout resume web" in paused.stdout
        assert "and with it group shop (app)" in paused.stdout
        for name in ("app", "web"):
            await site.declare(name, "two")
        for name in ("app", "web"):
            await site.until(name, lambda status: status.phase == "Paused" and status.next is not None)
        told = await ran(site, "status", "app", "--no-watch")
        assert "app: Paused (Paused), together with group shop (web)" in told.stdout
        resumed = await ran(site, "resume", "app")  # although the other one is paused
        assert resumed.stdout == "app goes on, and with it group shop (web)\n"
        for name in ("app", "web"):
            await site.until(name, lambda status: status.phase == STABLE)
        undone = await ran(site, "undo", "app")
        assert undone.stdout.count("says again what revision 1 said") == 2
        assert [(await site.config_set(one)).spec.files[0].content for one in ("app", "web")] == ["one"] * 2
        one = await ran(site, "undo", "app", "--to-revision", "2")
        assert one.stdout.count("says again what revision 2 said") == 1


async def test_undo_is_about_what_the_set_says_although_no_operator_has_seen_it(tmp_path: Path) -> None:
    async with rollout_site(tmp_path) as site:
        async with site.operator():
            for content in ("zero", "one"):
                await site.declare("web", content, **({"strategy": "AllAtOnce"} if content == "zero" else {}))
                await site.until("web", lambda status: status.phase == STABLE)
            await site.until("web", lambda status: status.observed_generation == 2)
        await site.declare("web", "two")  # which all hosts have at once
        patch = MergePatch({"metadata": {"labels": {"argocd.argoproj.io/instance": "site"}}})
        await site.client.patch(CONFIG_SETS, "web", NAMESPACE, patch)
        undone = await ran(site, "undo", "web")
        assert "says again what revision 2 said" in undone.stdout
        found = await site.config_set("web")
        assert found.spec.files[0].content == "one"
        # What GitOps knows the set by stays: it came after that revision.
        assert found.metadata.labels == {**LABELS, "argocd.argoproj.io/instance": "site"}
        await site.declare("web", "three")
        undone = await ran(site, "undo", "web", "--to-revision", "2")
        assert "says again what revision 2 said" in undone.stdout
        assert (await site.config_set("web")).spec.files[0].content == "one"
        again = await ran(site, "undo", "web", "--to-revision", "2")
        assert again.stdout == "web says already what revision 2 said\n"


async def test_undo_does_not_overwrite_what_others_write_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels have no generation, and are part of what a set says."""
    async with rollout_site(tmp_path) as site:
        async with site.operator():
            await site.declare("web", "one", strategy="AllAtOnce")
            await site.until("web", lambda status: status.phase == STABLE)
        await site.declare("web", "two")
        known, later = rollout_objects.known, [{"tier": "a"}]

        async def slowly(*args: Any) -> rollout_objects.KnownSet:
            found = await known(*args)
            for labels in later:
                await args[0].patch(
                    CONFIG_SETS, "web", NAMESPACE, MergePatch({"metadata": {"labels": labels}})
                )
            later.clear()
            return found

        monkeypatch.setattr(rollout_objects, "known", slowly)
        assert "says again what revision 1 said" in (await ran(site, "undo", "web")).stdout
        assert (
            await site.config_set("web")
        ).metadata.labels == LABELS  # it was read again, and undone with it
        later.extend({"tier": str(each)} for each in range(20))
        monkeypatch.setattr(changing, "ATTEMPTS", 1)
        await site.declare("web", "two")
        refused = await ran(site, "undo", "web")
        assert (refused.code, "change it at the same time" in refused.stderr) == (1, True), refused
        assert (await site.config_set("web")).metadata.labels["tier"] == "19"


async def test_a_set_of_which_no_revision_can_be_kept_says_so_and_reaches_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 50_000
    monkeypatch.setattr(app, "MAX_BODY", limit)
    async with rollout_site(tmp_path) as site, site.operator():
        await site.join("a")
        await site.declare("web", "one", stages=["1"], soak="0")
        await site.until("web", lambda status: status.phase == STABLE)
        # The request for the set fits, that for its revision does not.
        patch = MergePatch({"spec": {"files": [{"path": "/motd", "content": "x" * (limit - 100)}]}})
        await site.client.patch(CONFIG_SETS, "web", NAMESPACE, patch)
        status = await site.until("web", lambda status: status.reason == "RevisionTooLarge")
        assert "cannot be kept as a revision" in status.message
        said = (await ran(site, "status", "web", "--no-watch")).stdout
        assert "web: Waiting (RevisionTooLarge)" in said
        assert "Make the set smaller" in said
        await site.declare("web", "two")
        await site.until("web", lambda status: status.phase == STABLE)
        assert site.seen["a"] == [1, 2]
