"""A Node cordoned, emptied and given back: single requests, each of which may be repeated.

A cordon is ours if the Node says so in an annotation that is written together with it, so that neither a
crash nor a lost answer makes us forget it, and foreign cordons are never undone. Pods are asked to leave
by eviction: a disruption budget is waited for, never overruled. The caller decides how often, and for
how long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from nodemanager.client import subresources
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import core, errors, pods
from nodemanager.kube.objects import Untyped

TERMINATING: Final = "it is still terminating"
UNANSWERED: Final = "its eviction is not answered; see which webhook for pods/eviction hangs"
NOT_ASKED: Final = "it is not asked yet: evictions of others are not answered"
ANSWER_SECONDS: Final = 10.0
"""For how long answers are waited for, for all pods of a Node together."""
HASTY_SECONDS: Final = 1.0
"""The same while a webhook is known not to answer, because other pods wait."""
SPARED_SECONDS: Final = 60.0
"""For how long a pod is not asked again if its eviction had no answer."""
_AT_ONCE: Final = 8
_TRIES: Final = 5
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class CordonMark:
    """The work that keeps a Node cordoned, as an annotation of it."""

    annotation: str
    value: str
    is_ours: Callable[[str], bool]
    """Whether such a value was written by us, be it with other words."""

    def marks(self, node: Untyped) -> bool:
        """Tell whether a Node's annotation says that we cordoned it."""
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
    """Undo our own cordon, and no other; tell whether there was one."""
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


@dataclass(slots=True)
class Unanswered:
    """Evictions without an answer: they are not repeated for a while, so that each costs its time only once.

    A process that loses this memory, such as a new one, only waits once more.
    """

    _until: dict[str, float] = field(default_factory=dict)
    """By the uid of the pod, in the time of the loop."""

    def spares(self, pod: Untyped) -> bool:
        """Tell whether a pod is not asked for now."""
        return self._until.get(pod["metadata"].get("uid", ""), 0.0) > _now()

    def add(self, pod: Untyped) -> None:
        """Spare a pod from now on."""
        self._until = {uid: until for uid, until in self._until.items() if until > _now()}
        self._until[pod["metadata"].get("uid", "")] = _now() + SPARED_SECONDS

    @property
    def patience(self) -> float:
        """For how many seconds to wait for answers."""
        return HASTY_SECONDS if any(until > _now() for until in self._until.values()) else ANSWER_SECONDS


async def evict(
    client: Client,
    leaving: Iterable[Untyped],
    grace_period: int | None = None,
    unanswered: Unanswered | None = None,
) -> Eviction:
    """Ask each pod to leave that was not asked yet. A missing right is raised, other errors are returned.

    A webhook that hangs costs `ANSWER_SECONDS` and no more, however many pods there are.
    """
    unanswered = unanswered or Unanswered()
    why: dict[str, str] = {}
    pause = 0.0
    turn = _Turn()
    asked: dict[asyncio.Task[Eviction], Untyped] = {}
    for pod in leaving:
        name = pods.full_name(pod)
        if "deletionTimestamp" in pod["metadata"]:
            why[name] = TERMINATING
        elif unanswered.spares(pod):
            why[name] = UNANSWERED
        else:
            asked[asyncio.create_task(_ask(client, pod, grace_period, turn))] = pod
    try:
        done, _ = await asyncio.wait(asked, timeout=unanswered.patience) if asked else (set(), None)
    finally:
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
    for task, pod in asked.items():
        if task in done:
            why |= task.result().blocked
            pause = max(pause, task.result().pause)
        elif pods.full_name(pod) in turn.began:
            unanswered.add(pod)
            why[pods.full_name(pod)] = UNANSWERED
        else:  # at the next look, when those that hang are spared
            why[pods.full_name(pod)] = NOT_ASKED
    return Eviction(why, pause)


@dataclass(frozen=True, slots=True)
class _Turn:
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    began: set[str] = field(default_factory=set)


async def _ask(client: Client, pod: Untyped, grace_period: int | None, turn: _Turn) -> Eviction:
    meta, name = pod["metadata"], pods.full_name(pod)
    async with turn.room:
        turn.began.add(name)
        try:
            await subresources.evict(
                client, meta["name"], meta.get("namespace", ""), grace_period=grace_period
            )
        except errors.NotFound:
            return Eviction({})
        except errors.Forbidden:
            raise
        except errors.TooManyRequests as error:
            return Eviction({name: error.message}, error.retry_after or 0.0)
        except errors.KubeError as error:
            return Eviction({name: str(error)})
    return Eviction({name: TERMINATING})


def _now() -> float:
    return asyncio.get_running_loop().time()


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
