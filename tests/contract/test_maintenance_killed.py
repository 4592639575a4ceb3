"""The operator is killed at each of its writes, before it leaves or after it arrived: the end is the same."""

from __future__ import annotations

import asyncio

import pytest

from nodemanager.controllers.disruption import forgotten
from nodemanager.controllers.node_maintenances import reconciling
from support.maintenance_site import PATIENCE, REBOOT, Site

MOST_WRITES = 60
PARTS = 3


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "BUSY_SECONDS", 0.05)
    monkeypatch.setattr(forgotten, "SETTLE_SECONDS", 0.05)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_claim_1_killed_at_every_write_it_ends_the_same(site: Site, *, after: bool, part: int) -> None:
    """A host with a Node is cordoned, drained, rebooted and given back; one without is worked on after it.

    Another Node is cordoned by somebody else all the time.
    """
    foreign = await site.host("foreign", node=True)
    await site.cordon(foreign)
    deaths = []
    for at in range(1 + part, MOST_WRITES, PARTS):
        name = f"m{at}"
        hosts = [await site.host(f"{at}a", node=True), await site.host(f"{at}b")]
        await site.pod(f"web{at}", hosts[0])
        await site.maintenance(
            name, series={"names": hosts}, operations=[{"name": "o", "type": "one-shot", "steps": REBOOT}]
        )
        kubelet = asyncio.create_task(_bury(site))
        try:
            async with site.operator(at, after=after) as mortal:
                done = asyncio.create_task(site.until_phase("Succeeded", "Failed", name=name))
                dead = asyncio.create_task(mortal.dead.wait())
                await asyncio.wait({done, dead}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
                dead.cancel()
                done.cancel()
                await asyncio.gather(dead, done, return_exceptions=True)
            if not mortal.dead.is_set():
                break
            deaths.append(mortal.writes[-1])
            async with site.operator():
                await site.until_phase("Succeeded", name=name)
        finally:
            kubelet.cancel()
            await asyncio.gather(kubelet, return_exceptions=True)
        assert site.agents.hosts[-2:] == hosts, deaths[-1]
        assert len(site.agents.taken) == 2 * len(deaths), deaths[-1]
        assert site.agents.refused == [], deaths[-1]
        await site.nothing_is_left(foreign)
    assert len(deaths) >= 5, deaths
    assert site.agents.most == 1
    await site.nothing_is_left(foreign)


async def _bury(site: Site) -> None:
    while True:
        await site.bury()
        await asyncio.sleep(0.05)
