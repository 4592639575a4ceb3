"""The Kubernetes Node of the same name as the host: cordoned, drained and given back.

A cordon is ours if the Node says so in an annotation that is written together with it, so that neither
a crash nor a lost answer makes us forget it, and nobody else's cordon is ever undone.

What stays on the host while it is drained: pods of DaemonSets and static pods, which would come back at
once; pods that have finished; and pods without a controller, which nobody would start again elsewhere.
All others are evicted, also those with an emptyDir; a disruption budget is waited for, never overruled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final

from nodemanager.api.rights import host_bounds
from nodemanager.client import subresources
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import core, errors
from nodemanager.kube.objects import Untyped

log = logging.getLogger(__name__)
ANNOTATION_CORDONED: Final = host_bounds.CORDONED
"""On a Node: the agent that cordoned it and will uncordon it."""
MIRROR: Final = "kubernetes.io/config.mirror"
DRAIN_SECONDS: Final = 300.0
POLL_SECONDS: Final = 5.0
MAX_PAUSE: Final = 30.0
"""Longest wait that a server may ask for with Retry-After."""
_TRIES: Final = 5
_SHOWN: Final = 5
_FINISHED: Final = ("Succeeded", "Failed")


class DrainFailed(errors.KubeError):
    """Pods are still on the host, or may not be evicted."""


class KubernetesNode:
    """The Node of a host, if it has one and we may look at it."""

    def __init__(self, client: Client, name: str, owner: str) -> None:
        self.name = name
        self._client = client
        self._owner = owner
        """What the annotation says: namespace and name of our ManagedNode."""
        self._warned = False

    async def cordon(self) -> bool:
        """Keep new pods away; tell whether that is our doing. False: no Node, or cordoned by others."""
        for _ in range(_TRIES):
            node = await self._get()
            if node is None:
                return False
            if node.get("spec", {}).get("unschedulable"):
                return self._is_ours(node)
            try:
                await self._patch(node, unschedulable=True, mark=self._owner)
            except errors.Conflict:
                continue
            except errors.Forbidden as error:
                raise DrainFailed(
                    f"cannot cordon Node {self.name}: {error}; allow the host to patch nodes, create"
                    " pods/eviction and list pods, or take away its right to get nodes to upgrade without a"
                    " drain"
                ) from error
            return True
        raise DrainFailed(f"cannot cordon Node {self.name}: somebody else changes it all the time")

    async def uncordon(self) -> bool:
        """Undo our own cordon, nobody else's; tell whether there was one."""
        for _ in range(_TRIES):
            node = await self._get()
            if node is None or not self._is_ours(node):
                return False
            try:
                await self._patch(node, unschedulable=None, mark=None)
            except errors.Conflict:
                continue
            except errors.NotFound:
                return False
            return True
        raise errors.Conflict(f"cannot uncordon Node {self.name}: somebody else changes it all the time")

    async def ready(self, not_in: str = "") -> bool:
        """Tell whether the kubelet says that the Node is ready; True where there is nobody to say so.

        What it said in the boot `not_in` does not count.
        """
        node = await self._get()
        if node is None:
            return True
        status = node.get("status", {})
        if not_in and (status.get("nodeInfo") or {}).get("bootID") == not_in:
            return False
        said = status.get("conditions") or []
        return all(one.get("status") == "True" for one in said if one.get("type") == "Ready")

    async def drain(self, timeout: float = DRAIN_SECONDS) -> None:
        """Evict what has to leave and wait until it is gone for good; raise DrainFailed if it is not."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        told: set[str] = set()
        if await self._get() is None:
            return
        while True:
            blocked: dict[str, str] = {}
            pause = POLL_SECONDS
            try:
                pods = await self._pods()
            except errors.Forbidden as error:
                raise DrainFailed(f"cannot drain Node {self.name}: {error}") from error
            except errors.KubeError as error:
                pods, blocked = None, {"the list of pods": str(error)}
            if pods is not None:
                self._tell_left(pods, told)
                leaving = [pod for pod in pods if has_to_leave(pod)]
                if not leaving:
                    return
                blocked, asked = await self._evict(leaving)
                pause = max(pause, min(asked, MAX_PAUSE))
            if loop.time() >= deadline:
                raise DrainFailed(f"cannot drain Node {self.name} within {timeout:g} s: {_shown(blocked)}")
            await asyncio.sleep(min(pause, max(deadline - loop.time(), 0.0)))

    async def _evict(self, pods: Iterable[Untyped]) -> tuple[dict[str, str], float]:
        """Ask each pod to leave; return why some are still there, and for how long we shall not ask again."""
        why: dict[str, str] = {}
        pause = 0.0
        for pod in pods:
            meta = pod["metadata"]
            name = f"{meta.get('namespace', '')}/{meta['name']}"
            if "deletionTimestamp" in meta:
                why[name] = "it is still terminating"
                continue
            try:
                await subresources.evict(self._client, meta["name"], meta.get("namespace", ""))
                why[name] = "it is still terminating"
            except errors.NotFound:
                continue
            except errors.Forbidden as error:
                raise DrainFailed(f"cannot drain Node {self.name}: {error}") from error
            except errors.TooManyRequests as error:
                why[name] = error.message
                pause = max(pause, error.retry_after or 0.0)
            except errors.KubeError as error:
                why[name] = str(error)
        return why, pause

    async def _pods(self) -> list[Untyped]:
        selection = Selection(fields=f"spec.nodeName={self.name}")
        return (await self._client.list(core.PODS, selection)).items

    def _tell_left(self, pods: Iterable[Untyped], told: set[str]) -> None:
        for pod in pods:
            name = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
            if name not in told and is_unmanaged(pod) and not is_finished(pod):
                told.add(name)
                log.warning("pod %s has no controller and stays: it restarts together with the host", name)

    async def _get(self) -> Untyped | None:
        try:
            return await self._client.get(core.NODES, self.name)
        except errors.NotFound:
            return None
        except errors.Forbidden as error:
            if not self._warned:
                self._warned = True
                log.warning("going on as if this host were no Kubernetes Node: %s", error)
            return None

    def _is_ours(self, node: Untyped) -> bool:
        annotations = node.get("metadata", {}).get("annotations") or {}
        return bool(annotations.get(ANNOTATION_CORDONED) == self._owner)

    async def _patch(self, node: Untyped, *, unschedulable: bool | None, mark: str | None) -> None:
        meta: dict[str, Any] = {
            "resourceVersion": node["metadata"]["resourceVersion"],
            "annotations": {ANNOTATION_CORDONED: mark},
        }
        body = MergePatch({"metadata": meta, "spec": {"unschedulable": unschedulable}})
        await self._client.patch(core.NODES, self.name, "", body)


def has_to_leave(pod: Untyped) -> bool:
    """Tell whether a pod has to be gone before its host goes down."""
    annotations = pod["metadata"].get("annotations") or {}
    return not (MIRROR in annotations or is_finished(pod) or is_unmanaged(pod) or _is_of_daemon_set(pod))


def is_finished(pod: Untyped) -> bool:
    """Tell whether nothing of a pod runs any more."""
    return pod.get("status", {}).get("phase") in _FINISHED


def is_unmanaged(pod: Untyped) -> bool:
    """Tell whether nobody would start a pod again elsewhere."""
    return _controller(pod) is None and MIRROR not in (pod["metadata"].get("annotations") or {})


def _is_of_daemon_set(pod: Untyped) -> bool:
    owner = _controller(pod)
    return owner is not None and owner.get("kind") == "DaemonSet"


def _controller(pod: Untyped) -> Untyped | None:
    owners: list[Untyped] = pod["metadata"].get("ownerReferences") or []
    return next((one for one in owners if one.get("controller")), None)


def _shown(blocked: dict[str, str]) -> str:
    shown = [f"{name}: {why}" for name, why in list(blocked.items())[:_SHOWN]]
    if len(blocked) > _SHOWN:
        shown.append(f"and {len(blocked) - _SHOWN} more")
    return "; ".join(shown) or "pods came back"
