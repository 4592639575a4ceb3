"""EdgeClusters before both servers: what the bridge sees of a DaemonSet, and that it never writes there."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.edge.edgecluster import EDGE_CLUSTERS
from nodemanager.client.patches import MergePatch
from nodemanager.controllers.edge_clusters import reading
from nodemanager.kube import manifests
from nodemanager.kube.core import LEASES
from support import cli, edge_profiles, edge_site, operator_process
from support.agent_process import Api
from support.edge_site import EdgeSite
from support.either import Place
from support.scripted_server import until

pytestmark = [pytest.mark.usefixtures("place"), pytest.mark.timeout(120)]


@pytest.fixture(name="site")
async def _site(place: Place, api: Api) -> AsyncIterator[EdgeSite]:
    trust: dict[str, Any] = {"signature": {"policy": "require", "keys": [edge_profiles.public_key()]}}
    async with edge_site.standing(place, api, **trust) as site:
        yield site


async def deployed(site: EdgeSite, *nodes: str) -> None:
    """Have the DaemonSet do nothing on some nodes, of which all were seen to live."""
    await site.daemon_set.deploy()
    await site.daemon_set.begin(*nodes)
    await site.look()
    await site.daemon_set.live(*nodes)


async def test_it_is_seen_to_begin_and_people_can_wait_for_it(site: EdgeSite) -> None:
    assert (await site.look()).phase == "Bootstrap"
    await deployed(site, "a")
    status = await site.look()
    assert (status.phase, status.nodes_text, status.source) == ("SingleNode", "1/1", "bridge")
    assert status.profile is not None
    assert status.profile.signed_by == edge_profiles.KEY_ID[::-1].hex().upper()
    for _ in range(2):
        await site.daemon_set.live("a", "b")
        status = await site.look()
    assert status.phase == "MultiNode"
    wrote = {one for one in site.asked if not one.startswith(("GET ", "WATCH "))}
    ours = f"/namespaces/{site.place.namespace}/"
    assert {one.partition(ours)[2].partition("/")[0] for one in wrote} <= {"edgeclusters", "events"}
    assert wrote
    columns = site.place.kubectl("get", "ecl").splitlines()
    assert columns[0].split() == ["NAME", "PHASE", "NODES", "STATE", "REASON", "LOOKED", "AGE"]
    assert columns[1].split()[:5] == ["site", "MultiNode", "2/2", "Idle", "AsObserved"]
    site.place.kubectl("wait", "--for=condition=Healthy", "ecl/site", "--timeout=10s")


async def test_a_silent_node_and_a_warning(site: EdgeSite) -> None:
    await deployed(site, "a", "b")
    assert (await site.look()).phase == "MultiNode"
    await site.daemon_set.warn("BondFlapping", "slave eth1 went down")
    for _ in range(10):
        await site.daemon_set.live("a")
        status = await site.look()
    assert (status.phase, status.reason, status.nodes_text) == ("Degraded", "HeartbeatStale", "1/2")
    assert status.message.startswith("b: no new sign of life since 2026-03-01T04:00:")
    assert [(one.reason, one.message) for one in status.events] == [("BondFlapping", "slave eth1 went down")]
    where = ("-n", site.place.namespace, "--kubeconfig", str(site.place.kubeconfig))
    described = await asyncio.to_thread(cli.run, "describe", "ecl", "site", *where)
    assert "HeartbeatStale" in described.stdout, described.stderr
    assert "not known: it was Degraded when somebody last looked" in " ".join(described.stdout.split())
    assert "BondFlapping" in described.stdout
    assert 'nodemanager_edge_cluster_phase{name="site",phase="Degraded"} 1\n' in site.registry.render()
    assert 'nodemanager_edge_cluster_nodes{name="site",heartbeat="Stale"} 1\n' in site.registry.render()
    await site.api.client.delete(EDGE_CLUSTERS, "site", site.place.namespace)


async def test_a_storm_of_warnings_is_not_read_to_its_end_and_says_so(
    site: EdgeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "EVENTS_PAGE", 2)
    await deployed(site, "a")
    for number in range(5):
        await site.daemon_set.warn("BondFlapping", f"slave eth{number} went down")
    name = f"Events of {site.daemon_set.bridge.component}"

    async def seen() -> tuple[str, str, str]:
        await site.daemon_set.live("a")
        status = await site.look()
        found = next(one for one in status.inputs if one.name == name)
        assert [one.reason for one in status.events] == ["BondFlapping"]
        assert status.events[0].at
        return status.phase, found.state, found.message

    assert await seen() == ("SingleNode", "Fresh", "")
    monkeypatch.setattr(reading, "MOST_EVENTS", 4)
    phase, state, message = await seen()
    assert (phase, state) == ("SingleNode", "Stale")
    assert message == "there are more than 4 warnings, and the newest may be among the others"


async def test_of_what_it_observes_it_may_write_nothing(site: EdgeSite) -> None:
    where = site.daemon_set.bridge.namespace
    who = f"--as=system:serviceaccount:{site.place.namespace}:nodemanager-operator"
    listed = site.place.kubectl("auth", "can-i", "--list", "-n", where, who, "--no-headers").splitlines()
    rights = {
        line.split()[0]: line.rpartition("[")[2].rstrip("]").split()
        for line in listed
        if not line.startswith((" ", "self", "["))
    }
    wanted = {"configmaps": ["get"], "events": ["list"]}
    if site.daemon_set.bridge.daemon_set is not None:
        wanted["daemonsets.apps"] = ["list"]
    shared = {"edgeprofiles.edge.nodemanager": ["get", "list", "watch"]}
    assert rights == wanted | shared, "\n".join(listed)
    names = sorted(line.split("[")[2].split("]")[0] for line in listed if line.startswith("configmaps"))
    assert names == ["vx-rail-heartbeats", "vx-rail-upgrade-state"]
    at_home = site.place.kubectl("auth", "can-i", "--list", "-n", site.place.namespace, who, "--no-headers")
    writes = {
        (line.split()[0], verb)
        for line in at_home.splitlines()
        if not line.startswith((" ", "self", "["))
        for verb in line.rpartition("[")[2].rstrip("]").split()
        if verb not in ("get", "list", "watch")
    }
    assert writes == {
        ("edgeclusters.edge.nodemanager/status", "patch"),
        ("events", "create"),
        ("events", "patch"),
    }
    refused = site.place.run("auth", "can-i", "get", "configmap/other", "-n", where, who)
    assert refused.stdout.startswith("no")


async def test_what_it_may_not_read_is_unknown_and_says_what_to_do(site: EdgeSite) -> None:
    await deployed(site, "a", "b")
    assert (await site.look()).phase == "MultiNode"
    where = site.daemon_set.bridge.namespace
    name = f"nodemanager-operator-edge-{site.profile['metadata']['name']}.{site.place.namespace}"
    site.place.kubectl("delete", "rolebinding", name, "-n", where)
    status = await site.look()
    while status.phase != "Unknown":  # kube-apiserver hears of it a moment later
        await site.daemon_set.live("a", "b")
        status = await site.look(1)
    assert status.reason == "Refused"
    assert "see nodemanager edge rbac" in status.message
    assert {one.heartbeat for one in status.nodes} == {"Unproven"}


async def test_the_operator_looks_where_it_is_asked_to(place: Place, api: Api, tmp_path: Path) -> None:
    name = f"plain-of-{place.namespace}"
    profile = edge_profiles.shipped("ubuntu-local-path", name)
    place.kubectl("apply", "-f", "-", stdin=manifests.dump([profile]))
    cluster = {"metadata": {"name": "plain"}, "spec": {"profile": name}}
    await api.client.create(EDGE_CLUSTERS, cluster, place.namespace)
    try:
        async with operator_process.operator(place, api, tmp_path, edge=True):
            place.kubectl("wait", "--for=jsonpath={.status.phase}=Bootstrap", "ecl/plain", "--timeout=40s")
            reasons = ("get", "events", "--field-selector", "reason=PhaseChanged", "-o", "name")
            await until(lambda: bool(place.kubectl(*reasons)))
            recorded = ("get", "auditsegments", "-o", "jsonpath={.items[*].spec.lines}")
            await until(lambda: {"EdgeCluster", "EdgeProfile"} <= _kinds(place.kubectl(*recorded)))
    finally:
        place.kubectl("delete", "edgeprofile", name, "--wait=false")


async def test_the_last_sign_of_life_of_an_agent_is_seen_by_its_lease(
    place: Place, api: Api, tmp_path: Path
) -> None:
    name, space = f"quick-of-{place.namespace}", place.namespace
    quick = {"rates": {"lookEvery": "1s"}, "thresholds": {"heartbeatAge": "4s"}}
    place.kubectl(
        "apply", "-f", "-", stdin=manifests.dump([edge_profiles.shipped("ubuntu-local-path", name, quick)])
    )
    await api.client.create(MANAGED_NODES, {"metadata": {"name": "a"}}, space)
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 40}
    await api.client.create(LEASES, {"metadata": {"name": "nodemanager-a"}, "spec": spec}, space)
    cluster = {"metadata": {"name": "site"}, "spec": {"profile": name}}
    await api.client.create(EDGE_CLUSTERS, cluster, space)
    try:
        async with operator_process.operator(place, api, tmp_path, edge=True), asyncio.timeout(60):
            for number in itertools.count():
                renewed = MergePatch({"spec": {"renewTime": f"2001-01-01T00:00:00.{number:06}Z"}})
                await api.client.patch(LEASES, "nodemanager-a", space, renewed)
                status = (await api.client.get(EDGE_CLUSTERS, "site", space)).status
                if status.nodes and status.nodes[0].changed_at:
                    break
                await asyncio.sleep(0.2)
            node, (agents,) = status.nodes[0], status.inputs
            assert (node.heartbeat, agents.state, agents.changed_at) == ("Fresh", "Fresh", node.changed_at)
            assert (node.changed_at or "") > "2001-01-02", "by the clock of the operator"
    finally:
        place.kubectl("delete", "edgeprofile", name, "--wait=false")


def _kinds(lines: str) -> set[str]:
    """Return the kinds that records are about."""
    return set(re.findall('"kind":"([A-Za-z]+)"', lines))


async def test_a_profile_that_nobody_signed_is_not_used(site: EdgeSite) -> None:
    await deployed(site, "a")
    assert (await site.look()).phase == "SingleNode"
    before = len(site.asked)
    profile = site.profile["metadata"]["name"]
    site.place.kubectl("annotate", "edgeprofile", profile, "edge.nodemanager/signature-")
    status = await site.look()
    while status.phase != "Unknown":
        status = await site.look(1)
        before = len(site.asked)
    assert (status.reason, status.nodes_text) == ("ProfileUntrusted", "0/1")
    assert status.observed is not None
    assert (status.observed.state, status.observed.raw_state) == ("", "")
    await site.look()
    assert not [one for one in site.asked[before:] if "/configmaps/" in one]
