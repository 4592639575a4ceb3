"""KubeVirt: a VirtualMachine has an instance or has none, by its run strategy, and says so in one word.

The word is what people see (`printableStatus`). A machine whose volumes are not filled has no instance yet,
unless they wait for their first user: then its instance is there, and Pending.
"""

from __future__ import annotations

from nodemanager.kube.objects import Untyped
from support.virt.cluster import Seen, VirtCluster
from support.virt.kinds import DATA_VOLUMES, FINAL, INSTANCES, MACHINES, is_going, named, owned_by, phase_of
from support.virt.volumes import WAITS

FINALIZER = "kubevirt.io/foregroundDeleteVirtualMachine"
STARTING = ("", "Pending", "Scheduling", "Scheduled")


async def step(cluster: VirtCluster, seen: Seen) -> list[str]:
    """Give every machine the instance that it wants, and say how it is."""
    return [named(one) for one in seen.machines if await _move(cluster, seen, one)]


async def _move(cluster: VirtCluster, seen: Seen, one: Untyped) -> bool:
    instance, moved = seen.instance(named(one)), False
    for each in one["spec"].get("dataVolumeTemplates") or ():
        if seen.volume(named(each)) is None:
            meta = {**each["metadata"], "ownerReferences": owned_by(MACHINES, one)}
            kind = {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume"}
            await cluster.create(DATA_VOLUMES, {**kind, "metadata": meta, "spec": each["spec"]})
            moved = True
    if instance is None and _wanted(one) and not moved and _volumes(seen, one) in ("", WAITS):
        meta = {"name": named(one), "finalizers": [FINALIZER], "ownerReferences": owned_by(MACHINES, one)}
        await cluster.create(INSTANCES, {
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": meta,
            "spec": one["spec"]["template"]["spec"],
        })  # fmt: skip
        await cluster.say(MACHINES, one, {"hasRun": True})
        moved = True
    elif instance is not None and not is_going(instance) and _unwanted(one, instance):
        await cluster.delete(INSTANCES, instance)
        moved = True
    ready = instance is not None and _condition(instance, "Ready") == "True"
    status = {
        "created": instance is not None, "ready": ready, "printableStatus": printable(seen, one, instance),
        "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": None}],
    }  # fmt: skip
    return await cluster.say(MACHINES, one, status) or moved


def _wanted(one: Untyped) -> bool:
    """Tell whether a machine without an instance shall have one."""
    strategy, status = one["spec"]["runStrategy"], one.get("status", {})
    if strategy == "Manual":
        return bool(status.get("startRequested"))
    if strategy == "Once":
        return not status.get("hasRun")
    return strategy in ("Always", "RerunOnFailure")


def _unwanted(one: Untyped, instance: Untyped) -> bool:
    """Tell whether an instance shall go: because nobody wants it, or for another one in its place."""
    strategy, phase = one["spec"]["runStrategy"], phase_of(instance)
    if strategy == "Halted" or one.get("status", {}).get("stopRequested"):
        return True
    return (strategy == "Always" and phase in FINAL) or (strategy == "RerunOnFailure" and phase == "Failed")


def _volumes(seen: Seen, one: Untyped) -> str:
    """Return in which phase the volumes are that a machine waits for; empty: all are filled."""
    names = [each["dataVolume"]["name"] for each in one["spec"]["template"]["spec"]["volumes"]]
    # One that is new has no phase yet, which is not that it is filled.
    found = [phase_of(volume) or "Pending" if (volume := seen.volume(name)) else "Missing" for name in names]
    lacking = [phase for phase in found if phase != "Succeeded"]
    return min(lacking, key=lambda phase: (phase != "Failed", phase == WAITS), default="")


def printable(seen: Seen, one: Untyped, instance: Untyped | None) -> str:
    """Return the one word."""
    if instance is None:
        return _without(seen, one)
    phase = phase_of(instance)
    if is_going(instance):
        return "Stopping"
    if phase in FINAL:
        return "Stopped"
    if _condition(instance, "PodScheduled") == "False":
        return "ErrorUnschedulable"
    if phase in STARTING:
        return "WaitingForVolumeBinding" if phase != "Scheduled" and _volumes(seen, one) else "Starting"
    state = instance["status"].get("migrationState") or {}
    if state.get("startTimestamp") and not state.get("endTimestamp"):
        return "Migrating"
    return "Paused" if _condition(instance, "Paused") == "True" else "Running"


def _without(seen: Seen, one: Untyped) -> str:
    waits = _volumes(seen, one)
    if not _wanted(one) or not waits:
        return "Stopped"
    return {"Failed": "DataVolumeError", WAITS: "WaitingForVolumeBinding"}.get(waits, "Provisioning")


def _condition(instance: Untyped, kind: str) -> str:
    said = instance.get("status", {}).get("conditions") or ()
    return next((each["status"] for each in said if each["type"] == kind), "")
