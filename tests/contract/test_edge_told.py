"""What agents tell of edge hosts, in the status of their site, on both servers; of silent ones, nothing."""

from __future__ import annotations

import msgspec
import pytest

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.client.patches import MergePatch
from support import edge_site
from support.agent_process import Api
from support.edge_reports import SILENT, ToldHost
from support.edge_site import EdgeSite
from support.either import Place

pytestmark = [pytest.mark.usefixtures("place"), pytest.mark.timeout(120)]


async def tell(site: EdgeSite, name: str, host: ToldHost) -> None:
    """Have an agent, and the operator that judges its life, write the status of a host."""
    patch = MergePatch({"status": msgspec.to_builtins(host.node(name).status)})
    await site.api.client.patch(MANAGED_NODES, name, site.place.namespace, patch, subresource="status")


async def test_what_agents_tell_is_in_the_status_and_of_a_silent_one_nothing(place: Place, api: Api) -> None:
    async with edge_site.standing(place, api) as site:
        await site.daemon_set.deploy()
        await site.daemon_set.begin("a", "b")
        for name, host in {"a": ToldHost(), "b": ToldHost(mode="active-backup")}.items():
            await api.client.create(MANAGED_NODES, {"metadata": {"name": name}}, place.namespace)
            await tell(site, name, host)
        await site.daemon_set.live("a", "b")
        await site.look()
        await site.daemon_set.live("a", "b")
        status = await site.look()
        while not all(node.report and node.report.state == "Fresh" for node in status.nodes):
            status = await site.look(1)  # it is on its way to the cache
        assert (status.phase, status.reason, status.source) == ("Degraded", "PartUnhealthy", "bridge")
        assert "half-flipped: balance-rr on a, active-backup on b" in status.message
        bonds = [node.report.bond for node in status.nodes if node.report]
        assert [one.mode for one in bonds if one] == ["balance-rr", "active-backup"]
        await tell(site, "b", SILENT)
        while (silent := status.nodes[1].report) is None or silent.state != "Stale":
            status = await site.look(1)
        assert (status.phase, status.reason, silent.bond) == ("Degraded", "AgentSilent", None)
        assert status.network is not None
        assert status.network.state == "Unknown"
