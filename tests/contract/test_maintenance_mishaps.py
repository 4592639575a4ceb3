"""What a maintenance needs is gone, or says what nobody expects: it tells, and goes on afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from nodemanager.api.maintenance.nodeseries import NODE_SERIES
from nodemanager.controllers.node_maintenances import reconciling
from nodemanager.kube import conditions
from support.either import Place
from support.maintenance_site import Site, site_at


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "BUSY_SECONDS", 0.1)
    monkeypatch.setattr(reconciling, "LOOK_SECONDS", 0.5)


@pytest.fixture(name="site")
async def _site(place: Place) -> AsyncIterator[Site]:
    async with site_at(place) as site:
        yield site


async def test_a_run_whose_series_is_gone_waits_for_it(site: Site) -> None:
    """Nobody is chosen then, which is not the same as everybody being done."""
    host = await site.host("a")
    body = {"metadata": {"name": "all"}, "spec": {}}
    await site.client.create(NODE_SERIES, body, site.namespace)
    await site.maintenance(seriesRef={"name": "all"}, paused=True)
    async with site.operator():
        await site.until_phase("Paused")
        await site.client.delete(NODE_SERIES, "all", site.namespace)
        gone = await site.until(lambda one: not conditions.is_true(one.status.conditions, "Valid"))
        assert (gone.status.run is not None, gone.status.history) == (True, [])
        await site.client.create(NODE_SERIES, body, site.namespace)
        await site.change(paused=False)
        await site.until_phase("Succeeded")
    assert site.agents.hosts == [host]
