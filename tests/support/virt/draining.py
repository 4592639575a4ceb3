"""KubeVirt: what keeps a drain from ending virtual machines: budgets for their pods, and migrations."""

from __future__ import annotations

from nodemanager.kube.objects import Untyped
from support.virt import instances, migrations
from support.virt.cluster import Seen, VirtCluster
from support.virt.kinds import (
    BUDGETS,
    CREATED_BY,
    FINAL,
    FINALIZER,
    INSTANCES,
    MIGRATIONS,
    named,
    owned_by,
    phase_of,
)

LIVE, IF_POSSIBLE, EXTERNAL = "LiveMigrate", "LiveMigrateIfPossible", "External"
PREFIX = "kubevirt-evacuation-"


def strategy(seen: Seen, one: Untyped) -> str:
    """Return what becomes of an instance when its node is drained: its own word, or the cluster's."""
    return str(one["spec"].get("evictionStrategy") or seen.settings.get("evictionStrategy") or "None")


def protected(seen: Seen, one: Untyped) -> bool:
    """Tell whether the pod of an instance must not be evicted, movable or not."""
    kind = strategy(seen, one)
    return kind in (LIVE, EXTERNAL) or (kind == IF_POSSIBLE and not instances.immovable(seen, one))


async def step(cluster: VirtCluster, seen: Seen) -> list[str]:
    """Have a budget for every instance that must not be evicted, and move those that have to leave."""
    moved, kept = [], {named(each) for each in await cluster.all_of(BUDGETS)}
    for one in seen.instances:
        if phase_of(one) == "Running" and protected(seen, one) and _budget(one) not in kept:
            await cluster.create(BUDGETS, {
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": _budget(one), "ownerReferences": owned_by(INSTANCES, one)},
                "spec": {"minAvailable": 1,
                         "selector": {"matchLabels": {CREATED_BY: one["metadata"]["uid"]}}},
            })  # fmt: skip
            moved.append(_budget(one))
    return moved + await _evacuate(cluster, seen)


async def _evacuate(cluster: VirtCluster, seen: Seen) -> list[str]:
    under_way = [one for one in seen.migrations if phase_of(one) not in FINAL]
    moving = {one["spec"]["vmiName"] for one in under_way}
    room, moved = migrations.limit(seen) - len(under_way), []
    for one in seen.instances:
        status = one.get("status", {})
        asked = status.get("evacuationNodeName") and status["evacuationNodeName"] == status.get("nodeName")
        wants = strategy(seen, one) in (LIVE, IF_POSSIBLE) and not instances.immovable(seen, one)
        if room > 0 and asked and wants and phase_of(one) == "Running" and named(one) not in moving:
            meta = {
                "generateName": PREFIX,
                "finalizers": [FINALIZER],
                "annotations": {"kubevirt.io/evacuationMigration": status["nodeName"]},
            }
            kind = {"apiVersion": "kubevirt.io/v1", "kind": MIGRATIONS.kind}
            await cluster.create(MIGRATIONS, {**kind, "metadata": meta, "spec": {"vmiName": named(one)}})
            room -= 1
            moved.append(named(one))
    return moved


def _budget(one: Untyped) -> str:
    return f"kubevirt-disruption-budget-{named(one)}"
