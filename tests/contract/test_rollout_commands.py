"""`nodemanager rollout` against an API, with the operator at work and hosts that only report."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from nodemanager.api.common.rollout import STABLE, UNDONE
from nodemanager.controllers.rollouts import reconciling, waking
from support import cli
from support.rollout_site import NAMESPACE, RolloutSite, rollout_site


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
