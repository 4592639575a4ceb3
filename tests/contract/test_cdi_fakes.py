"""What the fake CDI of tests/support/virt does with DataVolumes and their claims, before both servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support import foreign_kinds
from support.agent_process import Api
from support.either import Place
from support.virt import running
from support.virt.cluster import VirtCluster
from support.virt.kinds import DATA_VOLUMES, DEFINED, INSTANCES, MACHINES, data_volume, machine, phase_of
from support.virt.volumes import WAITS

pytestmark = [pytest.mark.usefixtures("place"), pytest.mark.timeout(120)]


@pytest.fixture(name="cluster")
async def _cluster(place: Place, api: Api) -> AsyncIterator[VirtCluster]:
    with foreign_kinds.defined(place, DEFINED):
        cluster = VirtCluster(api.client, api.namespace)
        yield cluster
        await cluster.clear()


async def filled(cluster: VirtCluster, name: str) -> list[tuple[str, str]]:
    """Step until nothing moves; returns phases and progress of a volume, each once."""
    told: list[tuple[str, str]] = []
    for _ in range(20):
        if not await running.step(cluster):
            break
        status = (await cluster.get(DATA_VOLUMES, name))["status"]
        told.append((status["phase"], status["progress"]))
    return list(dict.fromkeys(told))


async def bound(cluster: VirtCluster, name: str) -> str:
    claim = (await cluster.claims.all())[name]
    assert claim["metadata"]["ownerReferences"][0]["kind"] == "DataVolume"
    return str(claim["status"]["phase"])


async def test_an_import_makes_a_claim_and_fills_it(cluster: VirtCluster) -> None:
    await cluster.create(DATA_VOLUMES, data_volume("disk"))
    await running.step(cluster)
    assert await bound(cluster, "disk") == "Pending"
    assert await filled(cluster, "disk") == [
        ("ImportScheduled", "N/A"), ("ImportInProgress", "10.00%"), ("ImportInProgress", "60.00%"),
        ("Succeeded", "100.0%"),
    ]  # fmt: skip
    assert await bound(cluster, "disk") == "Bound"
    said = (await cluster.get(DATA_VOLUMES, "disk"))["status"]["conditions"]
    assert {one["type"]: one["status"] for one in said} == {
        "Bound": "True",
        "Running": "False",
        "Ready": "True",
    }


async def test_an_import_that_fails(cluster: VirtCluster) -> None:
    cluster.faults.imports_fail = True
    await cluster.create(MACHINES, machine("db", templates=[data_volume("disk")]))
    await running.settle(cluster)
    assert phase_of(await cluster.get(DATA_VOLUMES, "disk")) == "Failed"
    assert (await cluster.get(MACHINES, "db"))["status"]["printableStatus"] == "DataVolumeError"
    assert await cluster.all_of(INSTANCES) == []


async def test_a_machine_waits_for_its_volumes(cluster: VirtCluster) -> None:
    await cluster.create(MACHINES, machine("db", "Manual", templates=[data_volume("disk")]))
    await cluster.patch(MACHINES, await cluster.get(MACHINES, "db"), status={"startRequested": True})
    words = []
    for _ in range(6):
        await running.step(cluster)
        words.append((await cluster.get(MACHINES, "db"))["status"]["printableStatus"])
    assert set(words[1:-1]) == {"Provisioning"}, words
    assert phase_of(await cluster.get(DATA_VOLUMES, "disk")) == "Succeeded"


async def test_a_volume_that_waits_for_its_first_user(cluster: VirtCluster) -> None:
    cluster.binding = WAITS
    await cluster.create(DATA_VOLUMES, data_volume("disk"))
    await running.settle(cluster)
    assert phase_of(await cluster.get(DATA_VOLUMES, "disk")) == WAITS
    assert await bound(cluster, "disk") == "Pending"
    await cluster.create(MACHINES, machine("db", volumes=["disk"]))
    words, phases = [], []
    for _ in range(4):
        await running.step(cluster)
        words.append((await cluster.get(MACHINES, "db"))["status"]["printableStatus"])
        phases.append(phase_of(await cluster.get(INSTANCES, "db")))
    assert "WaitingForVolumeBinding" in words
    assert phases[-1] == "Pending", "the instance is there, so that somebody uses the volume"
    assert await bound(cluster, "disk") == "Bound"
    await running.settle(cluster)
    assert phase_of(await cluster.get(INSTANCES, "db")) == "Running"


@pytest.mark.parametrize(
    ("strategy", "used", "mode", "first"),
    [
        pytest.param("copy", False, "Block", "CloneScheduled", id="it copies"),
        pytest.param("snapshot", False, "Block", "SnapshotForSmartCloneInProgress", id="by a snapshot"),
        pytest.param("csi-clone", False, "Block", "CSICloneInProgress", id="by csi"),
        pytest.param("csi-clone", True, "Block", "CloneScheduled", id="somebody uses the source"),
        pytest.param("csi-clone", False, "Filesystem", "CloneScheduled", id="another mode"),
    ],
)
async def test_how_a_clone_is_made(
    cluster: VirtCluster, strategy: str, used: bool, mode: str, first: str
) -> None:
    cluster.clone_strategy = strategy
    await cluster.create(DATA_VOLUMES, data_volume("source"))
    await running.settle(cluster)
    if used:
        await cluster.create(MACHINES, machine("db", volumes=["source"]))
        await running.settle(cluster)
    copy: dict[str, Any] = data_volume("copy", pvc={"name": "source", "namespace": cluster.namespace})
    copy["spec"]["pvc"]["volumeMode"] = mode
    await cluster.create(DATA_VOLUMES, copy)
    await running.step(cluster)
    phases = [phase for phase, _ in await filled(cluster, "copy")]
    assert phases[0] == first
    assert (phases[-1], "CloneInProgress" in phases) == ("Succeeded", first == "CloneScheduled")
