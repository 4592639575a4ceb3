"""Pods and budgets in a store, and evictions without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from nodemanager.kube.objects import Untyped
from nodemanager.server.http.negotiation import Form
from nodemanager.server.http.routing import RequestInfo
from nodemanager.server.hub import ApiCall, Hub
from nodemanager.server.kinds import disruption
from nodemanager.server.kinds.builtin_kinds import BUDGETS, BUILTIN, PODS
from nodemanager.server.kinds.eviction import Evictions
from nodemanager.server.kinds.resources import Catalogue, ServedKind
from nodemanager.server.verbs import stored
from nodemanager.server.verbs.internal_requests import SELF
from nodemanager.store.base import StoreRecord
from support.memory_store import MemoryStore

NAMESPACE = "ns"


class HesitantStore(MemoryStore):
    """A store whose writes let others go first, as often as it is told."""

    def __init__(self, pauses: Iterator[int]) -> None:
        super().__init__()
        self._pauses = pauses

    async def update(self, key: str, value: bytes, expected: int) -> StoreRecord:
        await self._hesitate()
        return await super().update(key, value, expected)

    async def delete(self, key: str, expected: int) -> StoreRecord:
        await self._hesitate()
        return await super().delete(key, expected)

    async def _hesitate(self) -> None:
        for _ in range(next(self._pauses, 0)):
            await asyncio.sleep(0)


class World:
    """A hub, a clock that is set by hand, and what can happen to pods."""

    def __init__(self, store: MemoryStore | None = None, *, refresh: bool = True) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.hub = Hub(store or MemoryStore(), Catalogue(BUILTIN), now=lambda: self.now)
        self._evictions = Evictions(disruption.refresh if refresh else None)

    async def put(self, kind: ServedKind, obj: Untyped) -> None:
        """Store an object as it is, over an older one if there is one."""
        key = kind.key(NAMESPACE, obj["metadata"]["name"])
        value, record = stored.dump(kind, obj), self.hub.store.get(key)
        if record is None:
            await self.hub.store.create(key, value)
        else:
            await self.hub.store.update(key, value, record.revision)

    async def pod(self, name: str, *, ready: bool = True, phase: str = "Running", **meta: Any) -> None:
        await self.put(PODS, pod(name, ready=ready, phase=phase, **meta))

    async def budget(self, name: str = "b", generation: int = 1, **spec: Any) -> None:
        meta = {"name": name, "namespace": NAMESPACE, "uid": name, "generation": generation}
        await self.put(BUDGETS, {"metadata": meta, "spec": {"selector": {}, **spec}, "status": {}})

    def get(self, kind: ServedKind, name: str) -> Untyped | None:
        record = self.hub.store.get(kind.key(NAMESPACE, name))
        return None if record is None else stored.load(kind, record)

    def status(self, name: str = "b") -> Untyped:
        found = self.get(BUDGETS, name)
        assert found is not None
        status: Untyped = found["status"]
        return status

    def pods(self) -> list[Untyped]:
        return [stored.load(PODS, record) for record in self.hub.store.list(PODS.prefix()).records]

    async def evict(self, name: str, **options: Any) -> None:
        """Evict a pod; raise what the client would be told."""
        body = {"metadata": {"name": name}, "deleteOptions": options}
        info = RequestInfo("create", "", "", "v1", NAMESPACE, "pods", name, "eviction")
        await self._evictions(
            self.hub, ApiCall(info, PODS, {}, SELF, Form(), msgspec.json.encode(body), "application/json")
        )

    async def bury(self, name: str) -> None:
        """Remove a pod that is being terminated, as its node would."""
        record = self.hub.store.get(PODS.key(NAMESPACE, name))
        if record is not None and "deletionTimestamp" in stored.load(PODS, record)["metadata"]:
            await self.hub.store.delete(record.key, record.revision)


def pod(name: str, *, ready: bool = True, phase: str = "Running", **meta: Any) -> Untyped:
    """Return a pod that runs on a node."""
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "labels": {"app": "web"}, **meta},
        "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }
