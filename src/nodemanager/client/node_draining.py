"""A Node cordoned, emptied and given back: single requests, each of which may be repeated.

A cordon is ours if the Node says so in an annotation that is written together with it, so that neither a
crash nor a lost answer makes us forget it, and nobody else's cordon is ever undone. Pods are asked to leave
by eviction: a disruption budget is waited for, never overruled. Who calls this decides how often, and for
how long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from nodemanager.client import subresources
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import core, errors, pods
from nodemanager.kube.objects import Untyped

TERMINATING: Final = "it is still terminating"
_TRIES: Final = 5
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class CordonMark:
    """Who keeps a Node cordoned, as an annotation of it."""

    annotation: str
    value: str
    is_ours: Callable[[str], bool]
    """Whether such a value was written by us, be it with other words."""

    def marks(self, node: Untyped) -> bool:
        """Tell whether a Node says that it is we who cordoned it."""
        found = (node.get("metadata", {}).get("annotations") or {}).get(self.annotation)
        return found is not None and self.is_ours(found)


@dataclass(frozen=True, slots=True)
class Eviction:
    """What became of asking pods to leave."""

    blocked: dict[str, str]
    """Why each pod that is still there is."""
    pause: float = 0.0
    """For how many seconds the server asked not to be asked again."""

    def __str__(self) -> str:
        shown = [f"{name}: {why}" for name, why in list(self.blocked.items())[:_SHOWN]]
        if len(self.blocked) > _SHOWN:
            shown.append(f"and {len(self.blocked) - _SHOWN} more")
        return "; ".join(shown) or "pods came back"


async def cordon(client: Client, name: str, mark: CordonMark) -> bool:
    """Keep new pods away from a Node; tell whether that is our doing. False: others did it before."""
    for _ in range(_TRIES):
        node = await client.get(core.NODES, name)
        if node.get("spec", {}).get("unschedulable"):
            return mark.marks(node)
        try:
            await _patch(client, node, unschedulable=True, annotation={mark.annotation: mark.value})
        except errors.Conflict:
            continue
        return True
    raise errors.Conflict(f"cannot cordon Node {name}: somebody else changes it all the time")


async def uncordon(client: Client, name: str, mark: CordonMark) -> bool:
    """Undo our own cordon, nobody else's; tell whether there was one."""
    for _ in range(_TRIES):
        try:
            node = await client.get(core.NODES, name)
            if not mark.marks(node):
                return False
            await _patch(client, node, unschedulable=None, annotation={mark.annotation: None})
        except errors.Conflict:
            continue
        except errors.NotFound:
            return False
        return True
    raise errors.Conflict(f"cannot uncordon Node {name}: somebody else changes it all the time")


async def pods_of(client: Client, node: str) -> list[Untyped]:
    """Return the pods on a Node, and of no other."""
    return (await client.list(core.PODS, Selection(fields=f"spec.nodeName={node}"))).items


async def evict(client: Client, leaving: Iterable[Untyped], grace_period: int | None = None) -> Eviction:
    """Ask each pod to leave that was not asked yet. A missing right is raised, all else is told."""
    why: dict[str, str] = {}
    pause = 0.0
    for pod in leaving:
        meta, name = pod["metadata"], pods.full_name(pod)
        if "deletionTimestamp" in meta:
            why[name] = TERMINATING
            continue
        try:
            await subresources.evict(
                client, meta["name"], meta.get("namespace", ""), grace_period=grace_period
            )
            why[name] = TERMINATING
        except errors.NotFound:
            continue
        except errors.Forbidden:
            raise
        except errors.TooManyRequests as error:
            why[name] = error.message
            pause = max(pause, error.retry_after or 0.0)
        except errors.KubeError as error:
            why[name] = str(error)
    return Eviction(why, pause)


def is_ready(node: Untyped, not_in: str = "") -> bool:
    """Tell whether the kubelet says that a Node is ready; in the boot `not_in` it does not count."""
    status = node.get("status", {})
    if not_in and (status.get("nodeInfo") or {}).get("bootID") == not_in:
        return False
    said = status.get("conditions") or []
    return all(one.get("status") == "True" for one in said if one.get("type") == "Ready")


async def _patch(
    client: Client, node: Untyped, *, unschedulable: bool | None, annotation: dict[str, Any]
) -> None:
    meta = {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": annotation}
    body = MergePatch({"metadata": meta, "spec": {"unschedulable": unschedulable}})
    await client.patch(core.NODES, node["metadata"]["name"], "", body)
