"""What the operator looks at through backends: what a profile names, with the rights that it asks for."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from nodemanager.api.edge.edgeprofile import EdgeProfile
from nodemanager.backends import asking
from nodemanager.controllers import assembly
from nodemanager.controllers.edge_clusters import part_reading, reading
from nodemanager.fleet.edge.parts import SitePartFacts
from support import edge_profiles, objects_api, storage_labs, virtual_time
from support.linstor import server
from support.linstor.server import Fault, Tls
from support.objects_api import ObjectsApi

SECRETS = "/api/v1/namespaces/edge/secrets"


def profile(name: str = "vx-rail", **patch: Any) -> EdgeProfile:
    return edge_profiles.typed(edge_profiles.shipped(name, "", patch))


def secret(tls: Tls, **changed: bytes) -> dict[str, Any]:
    identity = tls.client()
    data = {"tls.crt": identity.certificate, "tls.key": identity.key, "ca.crt": identity.ca, **changed}
    return {
        "metadata": {"name": "own"},
        "data": {key: base64.b64encode(one).decode() for key, one in data.items()},
    }


async def read(api: ObjectsApi, found: EdgeProfile) -> SitePartFacts:
    async with objects_api.serve(api) as client:
        return await part_reading.read(client, found.spec, "edge")


@pytest.mark.parametrize("name", ["vx-rail", "k3s-linstor", "ubuntu-local-path"])
async def test_a_profile_that_names_nothing_has_nobody_asked(name: str) -> None:
    api = ObjectsApi()
    assert await read(api, profile(name)) == SitePartFacts()
    assert api.asked == []
    assert part_reading.rights(profile(name).spec) == []


async def test_a_controller_with_tls_is_asked_with_the_certificate_of_the_secret() -> None:
    tls = Tls()
    async with server.serve(storage_labs.world(), tls) as controller:
        found = profile(storage={"linstor": {"url": controller.url, "secret": "own"}})
        api = ObjectsApi({SECRETS: [secret(tls)]})
        seen = await read(api, found)
        assert seen.storage is not None
        assert seen.storage.storage is not None
        assert [one.name for one in seen.storage.storage.nodes] == ["a", "b"]
        assert seen.storage.name == f"LINSTOR {controller.url}"
        assert api.asked == [f"GET {SECRETS}/own"]
        assert {one.split()[0] for one in controller.asked} == {"GET"}
        for wrong, answer in (([secret(tls, **{"tls.key": b""})], "Unreadable"), ([], "Missing"),
                              ([secret(tls, **{"tls.key": b"hush"})], "Refused")):  # fmt: skip
            seen = await read(ObjectsApi({SECRETS: wrong}), found)
            assert seen.storage is not None
            assert (seen.storage.read.answer, seen.storage.storage) == (answer, None)
            assert "hush" not in seen.storage.read.message


INSTANCES = "/apis/kubevirt.io/v1/namespaces/{}/virtualmachineinstances"
MIGRATIONS = "/apis/kubevirt.io/v1/namespaces/{}/virtualmachineinstancemigrations"


@pytest.mark.parametrize(
    ("lists", "most", "said"),
    [
        ({"/api/v1/persistentvolumes": 3}, 2, "list PersistentVolumes: there are more than 2"),
        ({"/api/v1/persistentvolumes": 2}, 2, ""),
        ({INSTANCES.format("a"): 3}, 2, "list virtual machines in a: there are more than 2"),
        (
            {INSTANCES.format("a"): 2, INSTANCES.format("b"): 1},
            2,
            "list virtual machines in b: there are more",
        ),
        ({MIGRATIONS.format("a"): 3}, 2, "list migrations in a: there are more than 2"),
        ({INSTANCES.format("a"): 1, INSTANCES.format("b"): 1, MIGRATIONS.format("b"): 1}, 2, ""),
    ],
)
async def test_of_far_too_many_objects_no_more_is_read_than_tells_so(
    monkeypatch: pytest.MonkeyPatch, lists: dict[str, int], most: int, said: str
) -> None:
    """A backend that is not the one of a site must not keep the operator from everything else."""
    monkeypatch.setattr(asking, "MAX_LISTED", most)
    empty = {one.format(space): 0 for one in (INSTANCES, MIGRATIONS) for space in "ab"}
    served = {
        path: [{"metadata": {"name": f"x{one}", "namespace": "a"}} for one in range(many)]
        for path, many in {"/api/v1/persistentvolumes": 0, **empty, **lists}.items()
    }
    found = profile("ubuntu-local-path", storage={"observeVolumes": True}, virtualisation="kubevirt",
                    kubevirt={"namespaces": ["a", "b"]})  # fmt: skip
    seen = await read(ObjectsApi(served), found)
    wrong = [one.read for one in (seen.storage, seen.virtualisation) if one and one.read.answer != "Fresh"]
    assert [one.answer for one in wrong] == (["Unreadable"] if said else [])
    assert all(said in one.message for one in wrong)


async def test_of_far_too_many_daemon_sets_no_more_is_read_than_tells_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "MAX_LISTED", 2)
    bridge = profile().spec.bridge
    assert bridge is not None
    path = f"/apis/apps/v1/namespaces/{bridge.namespace}/daemonsets"
    for many, answer in ((2, "Fresh"), (3, "Unanswered")):
        api = ObjectsApi({path: [{"metadata": {"name": f"x{one}"}} for one in range(many)]})
        async with objects_api.serve(api) as client:
            found = await reading.read(client, bridge)
        assert found.daemon_sets_read.answer == answer
        assert many == 2 or "cannot list daemonsets" in found.daemon_sets_read.message
        assert many == 2 or "more than 2" in found.daemon_sets_read.message


async def test_piraeus_and_the_controller_are_looked_at_together() -> None:
    async with server.serve(storage_labs.world()) as controller:
        found = profile(storage={"linstor": {"url": controller.url}, "piraeus": "linstorcluster"})
        api = storage_labs.piraeus_api()
        seen = await read(api, found)
        assert seen.storage is not None
        assert seen.storage.name == f"LINSTOR {controller.url} and LinstorCluster linstorcluster"
        assert seen.storage.storage is not None
        assert seen.storage.storage.sees_replicas
        api.refuses = True
        seen = await read(api, found)
        assert seen.storage is not None
        assert seen.storage.read.answer == "Refused"
        assert "see nodemanager edge rbac" in seen.storage.read.message


async def test_piraeus_alone_folders_and_virtual_machines() -> None:
    seen = await read(storage_labs.piraeus_api(), profile(storage={"piraeus": "linstorcluster"}))
    assert seen.storage is not None
    assert seen.storage.storage is not None
    assert not seen.storage.storage.sees_replicas
    api = ObjectsApi({storage_labs.VOLUMES_PATH: [storage_labs.persistent_volume("v", "a")]})
    seen = await read(api, profile("ubuntu-local-path", storage={"observeVolumes": True}))
    assert seen.storage is not None
    assert seen.storage.name == "PersistentVolumes"
    path = "/apis/kubevirt.io/v1/namespaces/vms"
    api = ObjectsApi({f"{path}/virtualmachineinstances": [], f"{path}/virtualmachineinstancemigrations": []})
    seen = await read(api, profile(kubevirt={"namespaces": ["vms"]}))
    assert seen.virtualisation is not None
    assert (seen.virtualisation.read.answer, seen.virtualisation.name) == ("Fresh", "KubeVirt in vms")


@pytest.mark.parametrize("url", ["https://a:99999", "http://[...]"])  # no schema knows which are none
async def test_an_address_that_is_none_is_told_and_ends_no_look(url: str) -> None:
    seen = await read(ObjectsApi(), profile(storage={"linstor": {"url": url}}))
    assert seen.storage is not None
    assert seen.storage.read.answer == "Unreadable"
    assert seen.storage.read.message.startswith(f"cannot ask LINSTOR: cannot use server '{url}': ")


def test_who_does_not_answer_holds_up_nothing_for_long() -> None:
    async def scenario() -> None:
        async with server.serve(storage_labs.world()) as controller:
            controller.faults.append(Fault(server.HANG_BEFORE, times=9))
            found = profile(storage={"linstor": {"url": controller.url}})
            seen = await read(ObjectsApi(), found)
            assert seen.storage is not None
            assert seen.storage.read.answer == "Unanswered"
            assert "no answer within 10 s" in seen.storage.read.message

    virtual_time.run(scenario())


def test_rights_are_what_is_asked_for_and_no_verb_writes() -> None:
    wanted = {"linstor": {"url": "https://linstor:3371", "secret": "own"}, "piraeus": "linstorcluster"}
    found = profile(storage=wanted, kubevirt={"namespaces": ["vms", "kube-system"]})
    made = assembly.site_manifests(found, "edge")
    rules = {
        (one["metadata"].get("namespace", ""), kind, *rule["verbs"], *sorted(rule.get("resourceNames", [])))
        for one in made
        for rule in one.get("rules", [])
        for kind in rule["resources"]
    }
    assert rules == {
        ("edge", "secrets", "get", "own"),
        ("", "linstorclusters", "get", "linstorcluster"),
        ("", "linstorsatellites", "list"),
        ("", "linstornodeconnections", "list"),
        ("", "linstorsatelliteconfigurations", "list"),
        ("vms", "virtualmachineinstances", "list"),
        ("vms", "virtualmachineinstancemigrations", "list"),
        ("kube-system", "virtualmachineinstances", "list"),
        ("kube-system", "virtualmachineinstancemigrations", "list"),
        ("kube-system", "configmaps", "get", "vx-rail-heartbeats", "vx-rail-upgrade-state"),
        ("kube-system", "daemonsets", "list"),
        ("kube-system", "events", "list"),
    }
    assert "persistentvolumes" not in json.dumps(made)
    names = [(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in made]
    assert len(names) == len(set(names))


def test_rights_to_volumes_only_where_they_are_looked_at() -> None:
    found = profile("ubuntu-local-path", storage={"observeVolumes": True})
    assert "persistentvolumes" in json.dumps(assembly.site_manifests(found, "edge"))
    assert assembly.site_manifests(profile("ubuntu-local-path"), "edge") == []
