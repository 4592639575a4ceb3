"""CDI: a DataVolume gets a claim, waits for whoever uses it where the class wants that, and is filled.

    Pending -> (WaitForFirstConsumer) -> ImportScheduled -> ImportInProgress -> Succeeded | Failed
                                         CloneScheduled -> CloneInProgress
                                         CSICloneInProgress, SnapshotForSmartCloneInProgress

A clone by CSI needs a source that nobody uses, and the same mode of the volume; else CDI copies, silently.
"""

from __future__ import annotations

from nodemanager.kube.objects import Untyped
from support.virt.cluster import Seen, VirtCluster
from support.virt.kinds import DATA_VOLUMES, FINAL, named, owned_by, phase_of

WAITS = "WaitForFirstConsumer"
PROGRESS = ("10.00%", "60.00%")
"""What it says while it is filled, one after the other."""
AT_WORK = {"ImportScheduled": "ImportInProgress", "CloneScheduled": "CloneInProgress"}
FILLING = (*AT_WORK.values(), "CSICloneInProgress", "SnapshotForSmartCloneInProgress")


async def step(cluster: VirtCluster, seen: Seen) -> list[str]:
    """Move every DataVolume on."""
    return [named(one) for one in seen.volumes if await _move(cluster, seen, one)]


async def _move(cluster: VirtCluster, seen: Seen, one: Untyped) -> bool:
    phase, progress = phase_of(one), one.get("status", {}).get("progress", "N/A")
    if phase in FINAL:
        return False
    if not phase:
        meta = {"name": named(one), "ownerReferences": owned_by(DATA_VOLUMES, one)}
        kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        await cluster.claims.create({**kind, "metadata": meta, "spec": one["spec"]["pvc"]})
        return await _say(cluster, one, "Pending")
    if phase in ("Pending", WAITS):
        if cluster.binding == WAITS and not users(seen, named(one)):
            return await _say(cluster, one, WAITS)
        await cluster.claims.bind(named(one))
        return await _say(cluster, one, _begins(cluster, seen, one))
    if phase in AT_WORK:
        return await _say(cluster, one, AT_WORK[phase], PROGRESS[0])
    if cluster.faults.imports_fail:
        return await _say(cluster, one, "Failed", progress)
    if progress != PROGRESS[-1]:
        return await _say(cluster, one, phase, PROGRESS[-1])
    return await _say(cluster, one, "Succeeded", "100.0%")


def _begins(cluster: VirtCluster, seen: Seen, one: Untyped) -> str:
    """Return how it is filled."""
    source = one["spec"]["source"].get("pvc")
    if source is None:
        return "ImportScheduled"
    if cluster.clone_strategy == "snapshot":
        return "SnapshotForSmartCloneInProgress"
    claim = seen.claims.get(source["name"], {}).get("spec", {})
    alike = claim.get("volumeMode", "Filesystem") == one["spec"]["pvc"].get("volumeMode", "Filesystem")
    if cluster.clone_strategy == "csi-clone" and alike and not users(seen, source["name"]):
        return "CSICloneInProgress"
    return "CloneScheduled"


async def _say(cluster: VirtCluster, one: Untyped, phase: str, progress: str = "N/A") -> bool:
    bound = phase not in ("Pending", WAITS)
    said = {"Bound": bound, "Running": phase in FILLING, "Ready": phase == "Succeeded"}
    conditions = [{"type": kind, "status": str(true)} for kind, true in said.items()]
    status = {"phase": phase, "progress": progress, "claimName": named(one), "conditions": conditions}
    return await cluster.say(DATA_VOLUMES, one, status)


def users(seen: Seen, name: str) -> list[str]:
    """Return the instances that use a volume, or want to: until they have ended."""
    return [
        named(one)
        for one in seen.instances
        if phase_of(one) not in FINAL
        and any(each.get("dataVolume", {}).get("name") == name for each in one["spec"].get("volumes", ()))
    ]
