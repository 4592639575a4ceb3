"""What agents tell of edge hosts, in the status of their site, on both servers; of silent ones, nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from nodemanager.agent.edge.edge_watch import EdgeWatch
from nodemanager.agent.report.contributions import NoEdge
from nodemanager.agent.report.status_writer import EarlyPart
from nodemanager.api.common.edge_state import BootState, EdgeState
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.client.auth import kubeconfig
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.patches import MergePatch
from nodemanager.fleet.edge.hosts import reports
from nodemanager.host.process import runner
from nodemanager.kube import conditions
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import InstallPackage
from support import edge_site
from support.agent_process import Api
from support.edge_reports import SILENT, ToldHost
from support.either import Place
from support.reporting_host import WHO, ReportingHost

pytestmark = [pytest.mark.usefixtures("place"), pytest.mark.timeout(120)]


async def test_what_agents_tell_is_in_the_status_and_of_a_silent_one_nothing(place: Place, api: Api) -> None:
    async with edge_site.standing(place, api) as site:
        await site.daemon_set.deploy()
        await site.daemon_set.begin("a", "b")
        for name, host in {"a": ToldHost(), "b": ToldHost(mode="active-backup")}.items():
            await edge_site.tell(site, name, host)
        for _ in range(2):  # the first sign of life that is seen proves nothing
            await site.daemon_set.live("a", "b")
            await edge_site.renew(site, "a", "b")
            await site.look()
        await site.daemon_set.live("a", "b")
        status = await site.look()
        while not all(node.report and node.report.state == "Fresh" for node in status.nodes):
            status = await site.look(1)  # it is on its way to the cache
        assert (status.phase, status.reason, status.source) == ("Degraded", "PartUnhealthy", "bridge")
        assert "half-flipped: balance-rr on a, active-backup on b" in status.message
        bonds = [node.report.bond for node in status.nodes if node.report]
        assert [one.mode for one in bonds if one] == ["balance-rr", "active-backup"]
        await edge_site.tell(site, "b", SILENT)
        while (silent := status.nodes[1].report) is None or silent.state != "Stale":
            status = await site.look(1)
        assert (status.phase, status.reason, silent.bond) == ("Degraded", "AgentSilent", None)
        assert status.network is not None
        assert status.network.state == "Unknown"


BOOTED = EdgeState(boot=BootState(entry="passive"))
"""A host that fell back: before, it had booted its active image."""
JQ = InstallPackage(id=ResourceId("package", "jq"), sources=("web",), reason="is not installed", name="jq")


@contextlib.asynccontextmanager
async def restarted(api: Api, place: Place, folder: Path, early: EarlyPart) -> AsyncIterator[ReportingHost]:
    """Run what reports of an agent whose host said something before; its first pass is not over."""
    meta = {"name": "web1", "namespace": place.namespace, "labels": WHO.labels()}
    await api.client.create(MANAGED_NODES, {"metadata": meta}, place.namespace)
    patch = MergePatch({"status": msgspec.to_builtins(ToldHost(ready="AgentSilent").node("web1").status)})
    await api.client.patch(MANAGED_NODES, "web1", place.namespace, patch, subresource="status")
    config = kubeconfig.load(path=str(place.kubeconfig), environ={}, run=runner.run)
    host = ReportingHost(folder, HttpTransport(config), early=early, namespace=place.namespace)
    host.machine.converger.underway.seconds = 0
    try:
        yield host
    finally:
        await host.close()


def shown(node: ManagedNode) -> EdgeState | None:
    """Return what of a host is taken for how it is now, but for since when."""
    found = reports.current(node)
    return found and msgspec.structs.replace(found, changed_at=None)


@pytest.mark.parametrize("how", ["long", "failing"])
@pytest.mark.parametrize("looked", [True, False])
async def test_what_a_host_said_before_it_booted_is_not_shown_while_its_first_pass_is_not_over(
    place: Place, api: Api, tmp_path: Path, how: str, looked: bool
) -> None:
    watch = EdgeWatch(lambda: asyncio.sleep(0, BOOTED), lambda: None)
    async with restarted(api, place, tmp_path, watch) as host:
        assert shown(await api.node()) is None, "it is back, and has told nothing"
        if looked:
            watch.take(BOOTED)
        underway = host.machine.converger.underway
        with underway.passing() if how == "long" else contextlib.nullcontext():
            await asyncio.sleep(0.01)
            if how == "long":
                underway.doing([JQ])
            else:
                host.report.broke_off("cannot read /etc", 1)
            await host.writer.write()
        node = await api.node()
        ready = conditions.get(node.status.conditions, conditions.READY)
        assert ready is not None
        assert ready.reason != "AgentSilent", "it has spoken"
        assert shown(node) == (BOOTED if looked else None)


async def test_what_is_seen_is_told_before_the_first_pass_has_anything_to_say(
    place: Place, api: Api, tmp_path: Path
) -> None:
    """An agent that was restarted was never called silent: nothing says that the status is of before."""
    watch = EdgeWatch(lambda: asyncio.sleep(0, BOOTED), lambda: None)
    async with restarted(api, place, tmp_path, watch) as host:
        await host.writer.write()
        assert (await api.node()).status.edge == ToldHost().told(), "nobody has looked"
        watch.take(BOOTED)
        await host.writer.write()
        assert (await api.node()).status.edge == watch.told


async def test_an_agent_without_edge_takes_back_what_it_said_with_its_first_word(
    place: Place, api: Api, tmp_path: Path
) -> None:
    async with restarted(api, place, tmp_path, NoEdge()) as host:
        host.report.broke_off("cannot read /etc", 1)
        await host.writer.write()
        assert (await api.node()).status.edge is None
