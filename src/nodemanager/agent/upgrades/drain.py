"""The Kubernetes Node of the same name as the host: cordoned, drained and given back by its own agent.

`client/node_draining.py` has the single requests, and `kube/pods.py` says which pods leave; here is how
long and how often, and what it means that we may not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from nodemanager.api.maintenance.nodetask import UPGRADES
from nodemanager.api.rights import host_bounds
from nodemanager.client import node_draining
from nodemanager.client.node_draining import CordonMark, Eviction
from nodemanager.client.verbs import Client
from nodemanager.kube import core, errors, pods
from nodemanager.kube.objects import Untyped

log = logging.getLogger(__name__)
ANNOTATION_CORDONED: Final = host_bounds.CORDONED
"""Annotation of a Node: the agent that cordoned it and will uncordon it."""
DRAIN_SECONDS: Final = 300.0
POLL_SECONDS: Final = 5.0
MAX_PAUSE: Final = 30.0
"""Longest wait that a server may ask for with Retry-After."""


class DrainFailed(errors.KubeError):
    """Pods are still on the host, or may not be evicted."""


class KubernetesNode:
    """The Node of a host, if there is one and we may read it."""

    def __init__(
        self, client: Client, name: str, owner: str, was_drained: Callable[[], bool] = lambda: False
    ) -> None:
        """`was_drained` tells whether an operator has drained it until now, so that there is a Node."""
        self.name = name
        self._was_drained = was_drained
        self._client = client
        self._mark = CordonMark(ANNOTATION_CORDONED, owner, lambda value: value == owner)
        """The namespace and name of our ManagedNode."""
        self._warned = False
        self._forbidden = ""
        """Why we may not read it, as far as is known."""

    async def cordon(self) -> bool:
        """Keep new pods away; tell whether that is our doing. False: no Node, or cordoned by others."""
        if await self._get() is None:
            if self._forbidden and self._was_drained():
                raise DrainFailed(
                    f"cannot drain Node {self.name}, as the operator did until now: {self._forbidden};"
                    " have the operator run again, or allow the host to do it (`nodemanager rbac"
                    f" --kubernetes-node`), or remove the annotation {UPGRADES} of its ManagedNode to upgrade"
                    " without a drain"
                )
            return False
        try:
            return await node_draining.cordon(self._client, self.name, self._mark)
        except errors.NotFound:
            return False
        except errors.Conflict as error:
            raise DrainFailed(str(error)) from error
        except errors.Forbidden as error:
            raise DrainFailed(
                f"cannot cordon Node {self.name}: {error}; allow the host to patch nodes, create"
                " pods/eviction and list pods, or take away its right to get nodes to upgrade without a"
                " drain"
            ) from error

    async def uncordon(self) -> bool:
        """Undo our own cordon, nobody else's; tell whether there was one."""
        if await self._get() is None:
            return False
        return await node_draining.uncordon(self._client, self.name, self._mark)

    async def ready(self, not_in: str = "") -> bool:
        """Tell whether the kubelet says that the Node is ready; True where there is nobody to say so.

        What it said in the boot `not_in` does not count.
        """
        node = await self._get()
        return node is None or node_draining.is_ready(node, not_in)

    async def drain(self, timeout: float = DRAIN_SECONDS) -> None:
        """Evict what has to leave and wait until it is gone for good; raise DrainFailed if it is not."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        told: set[str] = set()
        if await self._get() is None:
            return
        while True:
            try:
                asked = await self._ask(told)
            except errors.Forbidden as error:
                raise DrainFailed(f"cannot drain Node {self.name}: {error}") from error
            if asked is None:
                return
            if loop.time() >= deadline:
                raise DrainFailed(f"cannot drain Node {self.name} within {timeout:g} s: {asked}")
            pause = max(POLL_SECONDS, min(asked.pause, MAX_PAUSE))
            await asyncio.sleep(min(pause, max(deadline - loop.time(), 0.0)))

    async def _ask(self, told: set[str]) -> Eviction | None:
        """Ask pods to leave, once; None if there is none that has to."""
        try:
            found = await node_draining.pods_of(self._client, self.name)
        except errors.Forbidden:
            raise
        except errors.KubeError as error:
            return Eviction({"the list of pods": str(error)})
        self._tell_left(found, told)
        leaving = [pod for pod in found if pods.has_to_leave(pod)]
        return await node_draining.evict(self._client, leaving) if leaving else None

    def _tell_left(self, found: Iterable[Untyped], told: set[str]) -> None:
        for pod in found:
            name = pods.full_name(pod)
            if name not in told and pods.stays_unmanaged(pod):
                told.add(name)
                log.warning("pod %s has no controller and stays: it restarts together with the host", name)

    async def _get(self) -> Untyped | None:
        self._forbidden = ""
        try:
            return await self._client.get(core.NODES, self.name)
        except errors.NotFound:
            return None
        except errors.Forbidden as error:
            self._forbidden = str(error)
            if not self._warned:
                self._warned = True
                log.warning("going on as if this host were no Kubernetes Node: %s", error)
            return None
