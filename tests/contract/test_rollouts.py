"""Changes of a ConfigSet reach agents of folders by stages, stop where they fail, and are undone there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.common.rollout import SOAKING, STABLE, UNDONE
from nodemanager.client.patches import MergePatch
from nodemanager.controllers.rollouts import reconciling, waking
from support.rollout_site import LABELS, NAMESPACE, PATIENCE, Folders, RolloutSite, rollout_site
from support.root_tree import needs_root

HOSTS = ("canary", "b", "c")
IMPOSSIBLE = {"path": "/motd/below", "content": "a file has nothing below it"}
DEAD = "http://127.0.0.1:1"


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(reconciling, "AGAIN_SECONDS", 0.01)


@contextlib.asynccontextmanager
async def agents(site: RolloutSite, folders: Folders, server: str = "") -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for host, root in folders.roots.items():
            await stack.enter_async_context(site.agent(root, host, server))
        yield


@needs_root
async def test_a_good_change_by_stages_a_bad_one_undone_and_nobody_there(tmp_path: Path) -> None:
    folders = Folders(tmp_path, HOSTS)
    async with rollout_site(tmp_path) as site:
        for host in HOSTS:
            labels = {**LABELS, **({"canary": "true"} if host == "canary" else {})}
            meta = {"name": host, "labels": labels}
            await site.client.create(MANAGED_NODES, {"metadata": meta}, NAMESPACE)
        canary = {"selector": {"matchLabels": {"canary": "true"}}}
        async with agents(site, folders):
            async with site.operator():
                await site.declare("web", "one", canary=canary, stages=["100%"], soak="2s")
                await folders.until("one", "", "")  # nobody has anything before the canary has proven it
                await site.until("web", lambda status: status.phase == SOAKING and status.stage == 1)
                assert folders.said() == {"canary": "one", "b": "", "c": ""}
                await site.until("web", lambda status: status.phase == STABLE)
                assert set(folders.said().values()) == {"one"}
                await site.declare("web", "two")
                await folders.until("two", "one", "one")
                status = await site.until("web", lambda status: status.phase == STABLE)
                assert status.stable is not None
                assert set(folders.said().values()) == {"two"}
                await bad_change(site, folders)
            # The operator is away: a change is held everywhere until it is back.
            await site.declare("web", "four")
            await passed(site)
            assert set(folders.said().values()) == {"two"}
            async with site.operator():
                await site.until("web", lambda status: status.phase == STABLE)
                assert set(folders.said().values()) == {"four"}
        # And without the API, from what they remember.
        for root in folders.roots.values():
            (root / "motd").write_text("somebody else")
        async with agents(site, folders, DEAD):
            await folders.until("four", "four", "four")


async def passed(site: RolloutSite) -> None:
    """Wait until every host has made a pass that began after now."""
    for host in HOSTS:
        patch = MergePatch({"spec": {"reconcilePeriod": "30m"}})
        node = await site.client.patch(MANAGED_NODES, host, NAMESPACE, patch)
        async with asyncio.timeout(PATIENCE):
            while (  # noqa: ASYNC110
                await site.node(host)
            ).status.observed_generation < node.metadata.generation:
                await asyncio.sleep(0.02)


async def bad_change(site: RolloutSite, folders: Folders) -> None:
    """The canary fails, and returns; nobody else ever has it."""
    await site.declare("web", "three", IMPOSSIBLE)
    await site.until("web", lambda status: status.refused is not None)
    assert list(folders.said().values())[1:] == ["two", "two"]
    status = await site.until("web", lambda status: status.phase == UNDONE)
    assert "failed on canary" in status.message
    await folders.until("two", "two", "two")
    assert status.stable is not None
    for host in HOSTS:
        (report,) = (await site.node(host)).status.configsets
        assert (report.revision, report.digest, report.error) == (2, status.stable.digest, "")
