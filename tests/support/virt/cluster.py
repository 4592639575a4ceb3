"""The cluster that the controllers of KubeVirt and CDI work in: its nodes, and what is wrong with it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from nodemanager.client.calls import Selection
from nodemanager.client.patches import JsonPatch, MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import core, errors, times
from nodemanager.kube.objects import Resource, Untyped
from support.virt.claims import Claims
from support.virt.kinds import (
    CREATED_BY,
    DATA_VOLUMES,
    INSTANCES,
    KUBEVIRTS,
    MACHINES,
    MIGRATIONS,
    named,
)

PARALLEL = 5
"""Of KubeVirt, where its configuration is silent."""


@dataclass
class KubeNode:
    """A node as the scheduler and the kubelet have it."""

    cordoned: bool = False
    lost: bool = False
    """Neither kubelet nor virt-handler is there: what they would write stays as it is."""


@dataclass
class Faults:
    """What is wrong with the controllers."""

    down: bool = False
    """None of them runs: nothing moves, and all that is written stays."""
    migrations_hang: bool = False
    migrations_fail: str = ""
    """Why they do."""
    imports_fail: bool = False


@dataclass(frozen=True)
class Seen:
    """What one pass of all controllers acts on: all of them see the same, so no object moves twice."""

    machines: list[Untyped]
    instances: list[Untyped]
    migrations: list[Untyped]
    volumes: list[Untyped]
    pods: list[Untyped]
    claims: dict[str, Untyped]
    settings: Untyped

    def instance(self, name: str) -> Untyped | None:
        """Return an instance."""
        return next((one for one in self.instances if named(one) == name), None)

    def volume(self, name: str) -> Untyped | None:
        """Return a DataVolume."""
        return next((one for one in self.volumes if named(one) == name), None)

    def launchers(self, instance: Untyped) -> list[Untyped]:
        """Return the pods of an instance: one, and a second one while it moves."""
        uid = instance["metadata"]["uid"]
        return [one for one in self.pods if one["metadata"].get("labels", {}).get(CREATED_BY) == uid]


@dataclass
class VirtCluster:
    """One namespace with virtual machines, and the controllers that look after them."""

    client: Client
    namespace: str
    nodes: dict[str, KubeNode] = field(default_factory=lambda: {"a": KubeNode(), "b": KubeNode()})
    faults: Faults = field(default_factory=Faults)
    binding: str = "Immediate"
    """Of the storage class: Immediate or WaitForFirstConsumer."""
    clone_strategy: str = "copy"
    """Of the StorageProfile: copy, snapshot or csi-clone."""
    paused: set[str] = field(default_factory=set)
    """Instances whose guest somebody has paused."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    claims: Claims = field(init=False)

    def __post_init__(self) -> None:
        self.claims = Claims(self.client, self.namespace)

    @property
    def stamp(self) -> str:
        """The time, as it is written."""
        return times.rfc3339(self.now())

    async def look(self) -> Seen:
        """Read all that there is."""
        settings = await self.all_of(KUBEVIRTS)
        return Seen(
            await self.all_of(MACHINES), await self.all_of(INSTANCES), await self.all_of(MIGRATIONS),
            await self.all_of(DATA_VOLUMES), await self.all_of(core.PODS), await self.claims.all(),
            settings[0].get("spec", {}).get("configuration", {}) if settings else {},
        )  # fmt: skip

    async def create(self, kind: Resource[Untyped], obj: Untyped) -> Untyped:
        """Create an object in the namespace."""
        return await self.client.create(kind, obj, self.namespace)

    async def get(self, kind: Resource[Untyped], name: str) -> Untyped:
        """Return an object of the namespace."""
        return await self.client.get(kind, name, self.namespace)

    async def patch(self, kind: Resource[Untyped], obj: Untyped, **parts: Any) -> None:
        """Merge into an object, which may be gone by now."""
        subresource = "status" if kind is core.PODS else ""
        with contextlib.suppress(errors.NotFound):
            await self.client.patch(
                kind, named(obj), self.namespace, MergePatch(parts), subresource=subresource
            )

    async def say(self, kind: Resource[Untyped], obj: Untyped, status: Mapping[str, Any]) -> bool:
        """Put into a status what is news in it, None for what is gone; tells whether anything is.

        By a patch that leaves null in lists, as a merge patch does not: conditions of KubeVirt have them.
        """
        before, wanted = obj.get("status", {}), {key: _present(value) for key, value in status.items()}
        news = {key: value for key, value in wanted.items() if before.get(key) != value}
        if not news:
            return False
        steps: list[dict[str, Any]] = [
            {"op": "remove", "path": f"/status/{key}"}
            if value is None
            else {"op": "add", "path": f"/status/{key}", "value": value}
            for key, value in news.items()
        ]
        if "status" not in obj:
            steps = [{"op": "add", "path": "/status", "value": news}]
        with contextlib.suppress(errors.NotFound):
            await self.client.patch(kind, named(obj), self.namespace, JsonPatch(steps))
        return True

    async def delete(self, kind: Resource[Untyped], obj: Untyped) -> None:
        """Delete an object, which may be gone by now."""
        with contextlib.suppress(errors.NotFound):
            await self.client.delete(kind, named(obj), self.namespace)

    async def clear(self) -> None:
        """Let go what finalizers hold: else the definitions of these kinds could not be taken away."""
        for kind in (INSTANCES, MIGRATIONS):
            for one in await self.all_of(kind):
                await self.patch(kind, one, metadata={"finalizers": None})

    def free(self, *others: str) -> str:
        """Return the first node that takes pods and is none of these; empty if there is none."""
        good = (name for name, one in self.nodes.items() if not (one.cordoned or one.lost))
        return next((name for name in good if name not in others), "")

    async def all_of(self, kind: Resource[Untyped]) -> list[Untyped]:
        """Return all objects of a kind, by their names."""
        found = await self.client.list(kind, Selection(self.namespace))
        return sorted(found.items, key=named)


def _present(value: Any) -> Any:
    """Return a value without what is None in it; in lists it means something."""
    if isinstance(value, dict):
        return {key: _present(one) for key, one in value.items() if one is not None}
    return value
