"""KubeVirt: an instance goes from Pending to Running, by virt-controller, then by virt-handler of its node.

    "" -> Pending -> Scheduling -> Scheduled -> Running -> Succeeded | Failed

Whether it is ready is what its launcher pod says; whether it can be moved, what virt-handler says. On a node
that is lost nobody writes: such an instance is Running, and stays so, until no pod of it is left.
"""

from __future__ import annotations

from typing import Any

from nodemanager.kube import core
from nodemanager.kube.objects import Untyped
from support.virt.cluster import Seen, VirtCluster
from support.virt.kinds import CREATED_BY, FINAL, INSTANCES, is_going, named, owned_by, phase_of

UNRESPONSIVE = "NodeUnresponsive"
DISKS, INTERFACE = "DisksNotLiveMigratable", "InterfaceNotLiveMigratable"


async def step(cluster: VirtCluster, seen: Seen) -> list[str]:
    """Move every instance on."""
    moved = []
    for one in seen.instances:
        acts = _ends if is_going(one) else _BY_PHASE.get(phase_of(one), _stays)
        if await acts(cluster, seen, one):
            moved.append(named(one))
    return moved


async def _stays(_cluster: VirtCluster, _seen: Seen, _one: Untyped) -> bool:
    return False


async def _begins(cluster: VirtCluster, _seen: Seen, one: Untyped) -> bool:
    ready = condition("Ready", "False", "PodNotExists")
    return await cluster.say(INSTANCES, one, {"phase": "Pending", "conditions": [ready]})


async def _waits(cluster: VirtCluster, seen: Seen, one: Untyped) -> bool:
    """Wait until the volumes are filled."""
    found = [seen.volume(name) for name in volumes_of(one)]
    if any(volume is None or phase_of(volume) != "Succeeded" for volume in found):
        return False
    return await cluster.say(INSTANCES, one, {"phase": "Scheduling"})


async def _is_scheduled(cluster: VirtCluster, _seen: Seen, one: Untyped) -> bool:
    node, ready = cluster.free(), condition("Ready", "False", "GuestNotRunning")
    if not node:
        nowhere = condition("PodScheduled", "False", "Unschedulable")
        return await cluster.say(INSTANCES, one, {"conditions": [ready, nowhere]})
    await launch(cluster, one, node)
    return await cluster.say(INSTANCES, one, {"phase": "Scheduled", "nodeName": node, "conditions": [ready]})


async def _starts(cluster: VirtCluster, seen: Seen, one: Untyped) -> bool:
    if cluster.nodes[one["status"]["nodeName"]].lost:
        return False
    return await cluster.say(
        INSTANCES, one, {"phase": "Running", "conditions": _conditions(cluster, seen, one)}
    )


async def _runs(cluster: VirtCluster, seen: Seen, one: Untyped) -> bool:
    node = one["status"]["nodeName"]
    here = [pod for pod in seen.launchers(one) if pod["spec"].get("nodeName") == node]
    if cluster.nodes[node].lost:
        if not here:
            return await cluster.say(INSTANCES, one, {"phase": "Failed", "reason": UNRESPONSIVE})
    elif not here:
        return await cluster.say(INSTANCES, one, {"phase": "Failed"})
    elif all(is_going(pod) for pod in here):  # the guest is shut down, as somebody wants the pod to end
        await _remove(cluster, here)
        return await cluster.say(INSTANCES, one, {"phase": "Succeeded"})
    return await cluster.say(INSTANCES, one, {"conditions": _conditions(cluster, seen, one)})


async def _ends(cluster: VirtCluster, seen: Seen, one: Untyped) -> bool:
    """Shut down what is to be deleted, and then let it go; on a lost node there is nobody who could."""
    node = cluster.nodes.get(one.get("status", {}).get("nodeName", ""))
    if node is not None and node.lost and seen.launchers(one):
        return False
    if phase_of(one) not in FINAL:
        return await cluster.say(INSTANCES, one, {"phase": "Succeeded"})
    await _remove(cluster, seen.launchers(one))
    await cluster.patch(INSTANCES, one, metadata={"finalizers": None})
    return True


_BY_PHASE = {
    "": _begins, "Pending": _waits, "Scheduling": _is_scheduled, "Scheduled": _starts, "Running": _runs,
}  # fmt: skip


def condition(kind: str, status: str, reason: str = "") -> dict[str, Any]:
    """Return a condition as KubeVirt writes it: its times are often null."""
    found = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": None}
    return {**found, "reason": reason} if reason else found


def _conditions(cluster: VirtCluster, seen: Seen, one: Untyped) -> list[dict[str, Any]]:
    node = one["status"]["nodeName"]
    pods = [pod for pod in seen.launchers(one) if pod["spec"].get("nodeName") == node]
    said = [
        each
        for pod in pods
        for each in pod.get("status", {}).get("conditions", ())
        if each["type"] == "Ready"
    ]
    ready = said[0] if said else {"status": "True"}  # one that was created in this pass
    found = [condition("Ready", ready["status"], ready.get("reason", ""))]
    if cluster.nodes[node].lost:  # virt-handler says the rest, and is gone
        return [*found, *(each for each in one["status"].get("conditions", ()) if each["type"] != "Ready")]
    why = immovable(seen, one)
    found.append(condition("LiveMigratable", str(not why), why))
    found.append(condition("StorageLiveMigratable", "True"))
    return [*found, condition("Paused", "True", "PausedByUser")] if named(one) in cluster.paused else found


def volumes_of(one: Untyped) -> list[str]:
    """Return the names of its volumes."""
    return [each["dataVolume"]["name"] for each in one["spec"].get("volumes", ())]


def immovable(seen: Seen, one: Untyped) -> str:
    """Return why an instance cannot be moved: a disk that is not shared, or a bridge to the pod network."""
    claims = [seen.claims.get(name, {}).get("spec", {}).get("accessModes", []) for name in volumes_of(one)]
    if any("ReadWriteMany" not in modes for modes in claims):
        return DISKS
    pods = {each["name"] for each in one["spec"].get("networks", ()) if "pod" in each}
    cards = one["spec"].get("domain", {}).get("devices", {}).get("interfaces", ())
    return INTERFACE if any("bridge" in card and card["name"] in pods for card in cards) else ""


async def launch(cluster: VirtCluster, one: Untyped, node: str, migration: str = "") -> None:
    """Have a launcher pod of an instance run on a node; `migration` is what it is for."""
    labels = {"kubevirt.io": "virt-launcher", CREATED_BY: one["metadata"]["uid"]}
    labels |= {"kubevirt.io/migrationJobUID": migration} if migration else {}
    meta = {"generateName": f"virt-launcher-{named(one)}-", "labels": labels,
            "ownerReferences": owned_by(INSTANCES, one)}  # fmt: skip
    spec = {"nodeName": node, "containers": [{"name": "compute", "image": "virt-launcher"}],
            "automountServiceAccountToken": False}  # fmt: skip
    pod = await cluster.create(core.PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    await cluster.patch(
        core.PODS, pod, status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    )


async def _remove(cluster: VirtCluster, pods: list[Untyped]) -> None:
    """End pods as a kubelet does: one that has ended is deleted at once."""
    for one in pods:
        await cluster.patch(core.PODS, one, status={"phase": "Succeeded"})
        await cluster.delete(core.PODS, one)


async def remove_from(cluster: VirtCluster, seen: Seen, one: Untyped, node: str) -> None:
    """End the pods of an instance on one node."""
    await _remove(cluster, [pod for pod in seen.launchers(one) if pod["spec"].get("nodeName") == node])
