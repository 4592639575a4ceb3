"""A maintenance waits for hosts that are on their way to a change by stages, and says whose change it is."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.common.rollout import SCALE
from nodemanager.client.patches import MergePatch
from nodemanager.controllers.node_maintenances import reconciling
from nodemanager.fleet.maintenance.reasons import Reason
from support.either import Place
from support.maintenance_site import Site, site_at

LABELS = {"role": "web"}
OLD, NEW = ({"name": f"web-{n}", "revision": n, "digest": f"{n}" * 64, "labels": LABELS} for n in (1, 2))


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "BUSY_SECONDS", 0.1)


async def has(site: Site, host: str, revision: Mapping[str, object]) -> None:
    """Have a host say which revision it has."""
    said = {"name": "web", "observedGeneration": 1} | {one: revision[one] for one in ("revision", "digest")}
    body = MergePatch({"status": {"configsets": [said]}})
    await site.client.patch(MANAGED_NODES, host, site.namespace, body, subresource="status")


async def test_hosts_on_their_way_to_a_change_take_room_of_a_maintenance(place: Place) -> None:
    async with site_at(place) as site:
        changing, other = await site.host("a", role="web"), await site.host("b")
        for host in (changing, other):
            await has(site, host, OLD)
        spec = {"rollout": {"strategy": "Staged", "paused": True}}
        body = {"metadata": {"name": "web", "labels": LABELS}, "spec": spec}
        await site.client.create(CONFIG_SETS, body, site.namespace)
        rollout = {"observedGeneration": 1, "phase": "Paused", "stable": OLD, "next": NEW, "threshold": SCALE}
        patch = MergePatch({"status": {"rollout": rollout}})
        await site.client.patch(CONFIG_SETS, "web", site.namespace, patch, subresource="status")
        async with site.operator():
            await site.maintenance(budget={"maxUnavailable": 1})
            found = await site.until(lambda one: len(one.status.waiting) == 2)
            told = {one.reason: (one.first, one.object) for one in found.status.waiting}
            assert told == {
                Reason.HOST_CHANGING: ([changing], "configset/web"),
                Reason.BUDGET_SPENT: ([other], "configset/web"),
            }
            await has(site, changing, NEW)  # and is healthy with it
            await site.until_phase("Succeeded")
        await site.nothing_is_left()
