"""EdgeClusters before both servers whose profile has storage and virtual machines looked at."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from nodemanager.api.edge.edgecluster import EdgeClusterStatus
from nodemanager.backends.storage.piraeus.objects import LINSTOR_CLUSTERS, LINSTOR_SATELLITES, SETTINGS
from nodemanager.backends.virtualisation.kubevirt import INSTANCES
from nodemanager.fleet.edge import findings
from nodemanager.kube import conditions, manifests
from nodemanager.kube.objects import Resource
from support import edge_site, foreign_kinds
from support.agent_process import Api
from support.edge_site import EdgeSite
from support.either import Place
from support.foreign_kinds import obj
from support.linstor import server, sites, syncing
from support.linstor.server import Controller, Tls

pytestmark = [pytest.mark.usefixtures("place"), pytest.mark.timeout(120)]


@dataclass
class Whole:
    """A site with all that is looked at."""

    site: EdgeSite
    controller: Controller

    async def look(self) -> EdgeClusterStatus:
        await self.site.daemon_set.live("a", "b")
        return await self.site.look()

    def say(self, name: str, kind: str, status: str, reason: str) -> None:
        """Have the operator of Piraeus say something of a satellite."""
        good = {"status": "True", "reason": "AsExpected", "message": "", "observedGeneration": 99,
                "lastTransitionTime": "2026-03-01T04:00:00Z"}  # fmt: skip
        said = [{"type": one, **good, **({"status": status, "reason": reason} if one == kind else {})}
                for one in ("Applied", "Available", "Configured")]  # fmt: skip
        self.tell(LINSTOR_SATELLITES if len(name) == 1 else LINSTOR_CLUSTERS, name, said)

    def tell(self, which: Resource[Any], name: str, said: list[dict[str, Any]]) -> None:
        """Have an object of Piraeus be there with such conditions."""
        told = obj(which, name, status={"conditions": said})
        self.site.place.kubectl("apply", "-f", "-", stdin=manifests.dump([told]))


@pytest.fixture(name="known")
def _known(place: Place) -> Iterator[None]:
    with foreign_kinds.defined(place):
        yield


@pytest.fixture(name="whole")
async def _whole(place: Place, api: Api, known: None) -> AsyncIterator[Whole]:
    world = sites.cluster("a", "b")
    sites.volume(world, "vol-1", "a", "b")
    tls = Tls()
    identity = tls.client()
    data = {"tls.crt": identity.certificate, "tls.key": identity.key, "ca.crt": identity.ca}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "linstor-client-tls"},
              "data": {key: base64.b64encode(one).decode() for key, one in data.items()}}  # fmt: skip
    place.kubectl("apply", "-f", "-", stdin=manifests.dump([secret]))
    async with server.serve(world, tls) as controller:
        more = {
            "storage": {"linstor": {"url": controller.url, "secret": "linstor-client-tls"}, "piraeus": "lc",
                        "pools": [sites.POOL]},
            "kubevirt": {"namespaces": [place.namespace]},
        }  # fmt: skip
        async with edge_site.standing(place, api, more=more) as site:
            found = Whole(site, controller)
            for name in ("lc", "a", "b"):
                found.say(name, "", "", "")
            machine = {
                "phase": "Running",
                "nodeName": "a",
                "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": None}
                ],  # as KubeVirt does
            }
            told = obj(INSTANCES, "db", place.namespace, status=machine)
            place.kubectl("apply", "-f", "-", stdin=manifests.dump([told]))
            await site.daemon_set.deploy()
            await site.daemon_set.begin("a", "b")
            await found.look()
            yield found


async def test_storage_and_virtual_machines_are_seen_through_their_backends(whole: Whole) -> None:
    status = await whole.look()
    assert (status.phase, status.message) == ("MultiNode", "")
    assert status.storage is not None
    assert (status.storage.state, status.storage.said) == ("Healthy", "2/2 nodes, 1 volume, 2 copies")
    assert status.virtualisation is not None
    assert status.virtualisation.said == "1 run, 0 of them can be migrated live"
    assert conditions.is_true(status.conditions, findings.PARTS_SEEN)

    whole.controller.world.definitions["vol-1"].replicas["b"].forced = "Outdated"
    status = await whole.look()
    assert (status.phase, status.reason) == ("Degraded", "PartUnhealthy")
    assert "vol-1: the disk on b is Outdated" in status.message

    whole.controller.world.definitions["vol-1"].replicas["b"].forced = ""
    whole.controller.world.restart(5)
    status = await whole.look()
    assert (status.phase, status.reason) == ("Unknown", "PartUnknown")
    syncing.advance(whole.controller.world, 6)
    assert (await whole.look()).phase == "MultiNode"

    whole.say("b", "Configured", "Unknown", "NotObserved")
    status = await whole.look()
    assert (status.phase, status.reason) == ("Unknown", "PartUnknown")
    assert "LinstorSatellite b: Configured=Unknown (NotObserved)" in status.message
    whole.say("b", "", "", "")
    assert (await whole.look()).phase == "MultiNode"


async def test_paths_of_the_storage_and_configurations_are_looked_at_where_there_are_such_kinds(
    whole: Whole,
) -> None:
    assert (await whole.look()).phase == "MultiNode", "a cluster may lack both"
    with foreign_kinds.defined(whole.site.place, foreign_kinds.OPTIONAL):
        assert (await whole.look()).phase == "MultiNode", "there are none"
        for kind, condition in SETTINGS:
            good = {"type": condition, "status": "True", "reason": "AsExpected", "message": "",
                    "observedGeneration": 99, "lastTransitionTime": "2026-03-01T04:00:00Z"}  # fmt: skip
            whole.tell(kind, "bond", [good])
            assert (await whole.look()).phase == "MultiNode"
            whole.tell(kind, "bond", [{**good, "status": "False", "reason": "Error", "message": "no eth9"}])
            status = await whole.look()
            assert (status.phase, status.reason) == ("Degraded", "PartUnhealthy")
            assert f"{kind.kind} bond: {condition}=False (Error) no eth9" in status.message
            whole.tell(kind, "bond", [good])
    assert (await whole.look()).phase == "MultiNode"


async def test_of_all_that_nothing_is_written_and_a_right_that_is_gone_is_told(whole: Whole) -> None:
    site = whole.site
    await whole.look()
    ours = f"/namespaces/{site.place.namespace}/"
    wrote = {
        one.partition(ours)[2].partition("/")[0]
        for one in site.asked
        if not one.startswith(("GET ", "WATCH "))
    }
    assert wrote <= {"edgeclusters", "events"}
    assert {one.split()[0] for one in whole.controller.asked} == {"GET"}
    who = f"--as=system:serviceaccount:{site.place.namespace}:nodemanager-operator"
    for verb, what in (("delete", "linstorsatellites"), ("patch", "linstorclusters"), ("get", "secret/other"),
                       ("patch", "virtualmachineinstances"), ("list", "secrets")):  # fmt: skip
        assert site.place.run("auth", "can-i", verb, what, who).stdout.startswith("no"), (verb, what)
    name = f"nodemanager-operator-edge-{site.profile['metadata']['name']}"
    site.place.kubectl("delete", "clusterrole", name)
    status = await whole.look()
    while status.phase != "Unknown":  # kube-apiserver hears of it a moment later
        status = await whole.look()
    assert status.storage is not None
    assert "forbidden" in status.storage.said.lower()
    assert "see nodemanager edge rbac" in status.message
