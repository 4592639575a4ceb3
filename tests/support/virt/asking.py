"""What virt-api does when somebody asks it for something, and what a drain does: here, by functions.

The subresources of KubeVirt are served by an API of its own, which a test does not have.
"""

from __future__ import annotations

from nodemanager.client import subresources
from nodemanager.kube import core, errors
from support.virt import draining, instances
from support.virt.cluster import VirtCluster
from support.virt.kinds import CREATED_BY, INSTANCES, MACHINES, MIGRATIONS, migration, named, phase_of


class Denied(Exception):
    """It is refused, and why."""


async def stop(cluster: VirtCluster, name: str) -> None:
    """Stop a machine: its strategy is another one then, and nothing says which it was."""
    one = await cluster.get(MACHINES, name)
    if one["spec"]["runStrategy"] == "Manual":
        await cluster.patch(MACHINES, one, status={"stopRequested": True, "startRequested": None})
    else:
        await cluster.patch(MACHINES, one, spec={"runStrategy": "Halted"})


async def start(cluster: VirtCluster, name: str) -> None:
    """Start a machine."""
    one = await cluster.get(MACHINES, name)
    if one["spec"]["runStrategy"] == "Halted":
        await cluster.patch(MACHINES, one, spec={"runStrategy": "Always"})
    else:
        await cluster.patch(MACHINES, one, status={"startRequested": True, "stopRequested": None})


async def migrate(cluster: VirtCluster, name: str, called: str = "") -> None:
    """Have an instance moved; one that cannot be is refused by its own words."""
    one = await cluster.get(INSTANCES, name)
    said = {each["type"]: each for each in one.get("status", {}).get("conditions") or ()}
    movable = said.get("LiveMigratable", {"status": "False", "reason": "NotRunning"})
    if phase_of(one) != "Running" or movable["status"] != "True":
        raise Denied(f"Cannot migrate VMI, Reason: {movable.get('reason', '')}")
    await cluster.create(MIGRATIONS, migration(called or f"move-{name}", name))


async def drain(cluster: VirtCluster, node: str) -> dict[str, str]:
    """Drain a node once: cordon it, and evict what is on it. Returns what became of each instance there.

    The webhook of virt-api sees each eviction first: it notes that the instance has to leave, and refuses.
    All else is for the server, and for the budgets there.
    """
    cluster.nodes[node].cordoned = True
    seen, answers = await cluster.look(), dict[str, str]()
    for one in seen.instances:
        if one.get("status", {}).get("nodeName") != node or phase_of(one) != "Running":
            continue
        kind, why = draining.strategy(seen, one), instances.immovable(seen, one)
        wants = kind == draining.EXTERNAL or (kind in (draining.LIVE, draining.IF_POSSIBLE) and not why)
        if wants:
            await cluster.say(INSTANCES, one, {"evacuationNodeName": node})
            answers[named(one)] = "evacuates"
            continue
        answers[named(one)] = await evict(cluster, one["metadata"]["uid"], node)
    return answers


async def evict(cluster: VirtCluster, uid: str, node: str) -> str:
    """Evict the pods of an instance on a node, as anybody may try; the server says whether."""
    for pod in await cluster.all_of(core.PODS):
        labels = pod["metadata"].get("labels", {})
        if labels.get(CREATED_BY) == uid and pod["spec"].get("nodeName") == node:
            try:
                await subresources.evict(cluster.client, named(pod), cluster.namespace)
            except errors.TooManyRequests:
                return "refused"
    return "evicted"


async def not_ready(cluster: VirtCluster, node: str) -> None:
    """Have the cluster notice that a node is lost: its pods are not ready any more."""
    gone = [{"type": "Ready", "status": "False", "reason": "NodeNotReady"}]
    for pod in await cluster.all_of(core.PODS):
        if pod["spec"].get("nodeName") == node:
            await cluster.patch(core.PODS, pod, status={"conditions": gone})


async def give_up(cluster: VirtCluster, node: str) -> None:
    """Have somebody who knows that a node will not be back delete what is there, without asking it."""
    for pod in await cluster.all_of(core.PODS):
        if pod["spec"].get("nodeName") == node:
            await cluster.patch(core.PODS, pod, status={"phase": "Failed"})
            await cluster.delete(core.PODS, pod)
