"""The operator carries out maintenances, with pretend agents, on both servers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from nodemanager.controllers.node_maintenances import reconciling
from support.either import Place
from support.maintenance_site import REBOOT, Site, site_at


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "BUSY_SECONDS", 0.1)


@pytest.fixture(name="site")
async def _site(place: Place) -> AsyncIterator[Site]:
    async with site_at(place) as site:
        yield site


async def test_a_one_shot_is_done_once_on_every_host(site: Site) -> None:
    hosts = [await site.host(name) for name in ("a", "b", "c")]
    await site.maintenance()
    async with site.operator():
        done = await site.until_phase("Succeeded")
        assert site.agents.hosts == hosts
        assert (site.agents.most, site.agents.refused) == (1, [])
        assert done.status.hosts is not None
        assert done.status.hosts.text == "3/3"
        await site.change(paused=True)
        await site.until(lambda found: found.status.observed_generation == found.metadata.generation)
        assert site.agents.hosts == hosts
    await site.nothing_is_left()


async def test_a_host_with_a_node_is_cordoned_while_it_is_worked_on(site: Site) -> None:
    host = await site.host("a", node=True)
    cordoned: list[bool] = []
    await site.maintenance(operations=[{"name": "boot", "type": "one-shot", "steps": REBOOT}])
    async with site.operator():
        await site.until_phase("Succeeded")
    assert site.agents.hosts == [host]
    assert cordoned == []
    await site.nothing_is_left()
