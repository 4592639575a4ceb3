"""KubeVirt: a migration brings an instance to another node, and not more of them at once than is allowed.

    Pending -> Scheduling -> Scheduled -> PreparingTarget -> TargetReady -> Running -> Succeeded | Failed

The instance says so in `migrationState`: it begins when data begins to move, and ends with the migration.
Who deletes a migration asks for its end; the instance stays where it is.
"""

from __future__ import annotations

from nodemanager.kube.objects import Untyped
from support.virt import instances
from support.virt.cluster import PARALLEL, Seen, VirtCluster
from support.virt.kinds import FINAL, INSTANCES, MIGRATIONS, is_going, named, phase_of

NEXT = {"Scheduled": "PreparingTarget", "PreparingTarget": "TargetReady"}
WAITING = ("", "Pending")


def limit(seen: Seen) -> int:
    """Return how many may run at once; zero is not taken for absent."""
    return int(seen.settings.get("migrations", {}).get("parallelMigrationsPerCluster", PARALLEL))


async def step(cluster: VirtCluster, seen: Seen) -> list[str]:
    """Move every migration on."""
    moved, at_work = [], [one for one in seen.migrations if phase_of(one) not in (*WAITING, *FINAL)]
    room = limit(seen) - len(at_work)
    for one in seen.migrations:
        instance = seen.instance(one["spec"]["vmiName"])
        begins = phase_of(one) == "Pending" and not is_going(one)
        if begins and room <= 0:
            continue
        if await _move(cluster, seen, one, instance):
            room -= begins
            moved.append(named(one))
    return moved


async def _move(cluster: VirtCluster, seen: Seen, one: Untyped, instance: Untyped | None) -> bool:
    phase = phase_of(one)
    if is_going(one):
        return await _aborted(cluster, seen, one, instance)
    if phase in FINAL:
        return False
    if not phase:
        return await cluster.say(MIGRATIONS, one, {"phase": "Pending"})
    if instance is None or phase_of(instance) != "Running":
        return await _ended(cluster, seen, one, instance, "the instance is gone")
    if phase == "Pending":
        if instances.immovable(seen, instance):
            return await _ended(cluster, seen, one, instance, "the instance cannot be moved")
        return await cluster.say(MIGRATIONS, one, {"phase": "Scheduling"})
    if phase == "Scheduling":
        return await _placed(cluster, one, instance)
    if phase == "TargetReady":
        state = {**instance["status"]["migrationState"], "startTimestamp": cluster.stamp}
        await cluster.say(INSTANCES, instance, {"migrationState": state})
        return await cluster.say(MIGRATIONS, one, {"phase": "Running"})
    if phase == "Running":
        return await _arrives(cluster, seen, one, instance)
    return await cluster.say(MIGRATIONS, one, {"phase": NEXT[phase]})


async def _placed(cluster: VirtCluster, one: Untyped, instance: Untyped) -> bool:
    """Find another node; with one alone, none is ever found."""
    source = instance["status"]["nodeName"]
    target = cluster.free(source)
    if not target:
        return False
    await instances.launch(cluster, instance, target, one["metadata"]["uid"])
    state = {"migrationUid": one["metadata"]["uid"], "sourceNode": source, "targetNode": target,
             "mode": "PreCopy",
             "startTimestamp": None, "endTimestamp": None, "completed": None, "failed": None,
             "failureReason": None, "abortStatus": None}  # fmt: skip
    await cluster.say(INSTANCES, instance, {"migrationState": state})
    return await cluster.say(MIGRATIONS, one, {"phase": "Scheduled"})


async def _arrives(cluster: VirtCluster, seen: Seen, one: Untyped, instance: Untyped) -> bool:
    state = instance["status"]["migrationState"]
    lost = [name for name in (state["sourceNode"], state["targetNode"]) if cluster.nodes[name].lost]
    if cluster.faults.migrations_hang or lost:  # who would say that it has ended is not there
        return False
    if cluster.faults.migrations_fail:
        return await _ended(cluster, seen, one, instance, cluster.faults.migrations_fail)
    over = {**state, "endTimestamp": cluster.stamp, "completed": True}
    status = {"migrationState": over, "nodeName": state["targetNode"], "evacuationNodeName": None}
    await cluster.say(INSTANCES, instance, status)
    await instances.remove_from(cluster, seen, instance, state["sourceNode"])
    return await cluster.say(MIGRATIONS, one, {"phase": "Succeeded"})


async def _ended(
    cluster: VirtCluster,
    seen: Seen,
    one: Untyped,
    instance: Untyped | None,
    why: str,
    *,
    aborted: bool = False,
) -> bool:
    """Fail: the instance stays, and the pod that it would have moved to goes."""
    state = (instance or {}).get("status", {}).get("migrationState") or {}
    if instance is not None and state.get("migrationUid") == one["metadata"]["uid"]:
        over = {
            **state,
            "endTimestamp": cluster.stamp,
            "completed": True,
            "failed": True,
            "failureReason": why,
        }
        over |= {"abortStatus": "Succeeded"} if aborted else {}
        await cluster.say(INSTANCES, instance, {"migrationState": over})
        await instances.remove_from(cluster, seen, instance, state["targetNode"])
    return await cluster.say(MIGRATIONS, one, {"phase": "Failed"})


async def _aborted(cluster: VirtCluster, seen: Seen, one: Untyped, instance: Untyped | None) -> bool:
    if phase_of(one) not in FINAL:
        return await _ended(cluster, seen, one, instance, "it was asked to end", aborted=True)
    await cluster.patch(MIGRATIONS, one, metadata={"finalizers": None})
    return True
