"""The operator is killed at each of its writes while a host is upgraded: the end is the same."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta

import pytest

from nodemanager.controllers.disruption import forgotten
from nodemanager.controllers.node_maintenances import reconciling
from nodemanager.fleet.maintenance.claims import Claim, State
from support.maintenance_site import PATIENCE, Mortal, Site
from support.upgrade_site import ask, holder, scheduled, until_over

MOST_WRITES = 30


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "BUSY_SECONDS", 0.05)
    monkeypatch.setattr(forgotten, "SETTLE_SECONDS", 0.05)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_every_write_a_host_is_upgraded_once_and_given_back(
    site: Site, *, after: bool
) -> None:
    """All hosts are of one group: none of them would go if the Lease were left behind."""
    slot, deaths = datetime.now(UTC).replace(microsecond=0), []
    for at in range(1, MOST_WRITES):
        host = await scheduled(site, f"{at}", node=True)
        slot += timedelta(seconds=1)
        async with site.operator(at, after=after) as mortal:
            ended = await _ends(site, host, slot, mortal)
        if not mortal.dead.is_set():
            assert ended is not None
            break
        deaths.append(mortal.writes[-1])
        async with site.operator():
            ended = await until_over(site, host, await ask(site, host, slot))
        assert (ended.state, ended.group) == (State.DONE, ""), deaths[-1]
        assert site.agents.hosts == [*site.agents.hosts[: len(deaths) - 1], host], deaths[-1]
        assert await holder(site) == "", deaths[-1]
        await site.nothing_is_left()
    assert len(deaths) >= 10, deaths
    assert any("/leases/web" in one for one in deaths)
    assert site.agents.refused == []
    assert site.agents.most == 1


async def _ends(site: Site, host: str, slot: datetime, mortal: Mortal) -> Claim | None:
    """Return how an upgrade ended, or None if the operator died before."""

    async def upgraded() -> Claim:
        return await until_over(site, host, await ask(site, host, slot))

    done, dead = asyncio.create_task(upgraded()), asyncio.create_task(mortal.dead.wait())
    try:
        await asyncio.wait({done, dead}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
        return done.result() if done.done() else None
    finally:
        for one in (done, dead):
            one.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await one
