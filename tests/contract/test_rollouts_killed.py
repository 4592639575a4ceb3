"""The operator is killed at each write while a change is rolled out and undone: the end is the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.rollout import STABLE, UNDONE
from nodemanager.controllers.rollouts import reconciling, waking
from nodemanager.kube import errors
from support.exposure import Moves
from support.rollout_site import NAMESPACE, PATIENCE, RolloutSite, rollout_site

MOST_WRITES = 40


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(reconciling, "AGAIN_SECONDS", 0.01)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_every_write_it_ends_the_same(tmp_path: Path, *, after: bool) -> None:
    """A set reaches three hosts in stages; then a change of it fails on the first, and is undone there."""
    async with rollout_site(tmp_path) as site:
        await site.join("a", "b", "c")
        deaths: list[str] = []
        for at in range(1, MOST_WRITES):
            name = f"s{at}"
            site.broken = {2}
            site.moves = Moves()
            async with site.operator(at, after=after) as mortal:
                done = asyncio.create_task(story(site, name))
                dead = asyncio.create_task(mortal.dead.wait())
                await asyncio.wait({done, dead}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
                if not mortal.dead.is_set():
                    await done
                    break
                deaths.append(mortal.writes[-1])
                done.cancel()
                await asyncio.gather(done, return_exceptions=True)
            async with site.operator():
                await story(site, name)
            await site.client.delete(CONFIG_SETS, name, NAMESPACE)
        assert len(deaths) >= 8, deaths


async def story(site: RolloutSite, name: str) -> None:
    """Go on with what is to happen, from wherever it is."""
    try:
        config_set = await site.config_set(name)
    except errors.NotFound:
        await site.declare(name, "one", stages=["1"], soak="0")
        config_set = await site.config_set(name)
    if config_set.metadata.generation == 1:
        await site.until(name, lambda status: status.phase == STABLE)
        await site.declare(name, "two")
    status = await site.until(name, lambda status: status.phase == UNDONE)
    found = [(one.spec.revision, one.metadata.name) for one in await site.revisions(name)]
    assert [number for number, _ in found] == [1, 2]
    assert (status.stable and status.stable.name, status.refused and status.refused.name) == (
        found[0][1],
        found[1][1],
    )
    assert (status.next, status.threshold) == (None, 0)
    assert len(site.exposure(2).hosts) == 1
    for host in site.seen:
        node = await site.node(host)
        assert [(one.revision, one.error) for one in node.status.configsets] == [(1, "")]
