"""LINSTOR under Piraeus: the reports of its operator, and those of the controller if that is asked, too.

Its objects know satellites and not replicas, so alone they never say that the storage is well. All that is
done, the controller does: Piraeus has no objects for it, and deleting a LinstorSatellite would empty the
node.
"""

from __future__ import annotations

import asyncio
import dataclasses

from nodemanager.backends.asking import ask, ask_all
from nodemanager.backends.errors import NoSuchThing
from nodemanager.backends.storage.linstor.backend import NAME, LinstorBackend
from nodemanager.backends.storage.linstor.rest import LinstorRest
from nodemanager.backends.storage.piraeus import objects
from nodemanager.backends.storage.piraeus.objects import (
    LINSTOR_CLUSTERS,
    LINSTOR_SATELLITES,
    SETTINGS,
    PiraeusObject,
    Said,
)
from nodemanager.client.verbs import Client
from nodemanager.fleet.edge.decoding import printable
from nodemanager.fleet.edge.storage.facts import StorageFacts, StorageNode
from nodemanager.kube import conditions
from nodemanager.kube.objects import Resource


class PiraeusObjects:
    """The objects alone: satellites, their configuration, the paths between them, and their conditions."""

    name = NAME
    capabilities: frozenset[str] = frozenset()

    def __init__(self, client: Client, cluster: str) -> None:
        self._client, self._cluster = client, cluster

    async def close(self) -> None:
        """Do nothing: the caller owns the client."""

    async def observe(self) -> StorageFacts:
        """Look at the LinstorCluster, all satellites, and what people have set for them."""
        found = self._client.get(LINSTOR_CLUSTERS, self._cluster)
        cluster = await ask(f"look at the LinstorCluster {self._cluster}", found)
        satellites = await ask_all("list LinstorSatellites", self._client, LINSTOR_SATELLITES)
        said = list(objects.findings(cluster, LINSTOR_CLUSTERS.kind))
        for one in satellites:
            said += objects.findings(one, LINSTOR_SATELLITES.kind)
        for kind, condition in SETTINGS:
            for one in await self._any(kind):
                said += objects.stated(one, kind.kind, (condition,))
        return StorageFacts(
            tuple(_node(one) for one in satellites),
            faults=_words(said, known=True),
            unknown=_words(said, known=False),
            sees_replicas=False,
        )

    async def _any(self, kind: Resource[PiraeusObject]) -> list[PiraeusObject]:
        """Return all objects of a kind; a cluster that does not know it has none."""
        try:
            return await ask_all(f"list {kind.kind}s", self._client, kind)
        except NoSuchThing:
            return []


class PiraeusBackend(LinstorBackend):
    """The controller, and the reports of Piraeus' operator."""

    def __init__(self, controller: LinstorRest, stated: PiraeusObjects) -> None:
        super().__init__(controller)
        self._objects = stated

    async def observe(self) -> StorageFacts:
        """Look at both; what one of them says is wrong is wrong."""
        seen, said = await asyncio.gather(super().observe(), self._objects.observe())
        known = {one.name for one in seen.nodes}
        strangers = tuple(
            f"LinstorSatellite {one.name} is no node of the controller"
            for one in said.nodes
            if one.name not in known
        )
        return dataclasses.replace(
            seen,
            faults=(*seen.faults, *said.faults, *strangers),
            unknown=(*seen.unknown, *said.unknown),
        )


def _node(one: PiraeusObject) -> StorageNode:
    said = objects.judge(one.status.conditions, objects.AVAILABLE, one.metadata.generation)
    leaving = bool(one.metadata.deletion_timestamp)
    # That it is away is a fault by its condition already, and not known is not away.
    online = said is None or not said.known
    state = conditions.get(one.status.conditions, objects.AVAILABLE)
    return StorageNode(
        printable(one.metadata.name), online, f"Available={state.status if state else '?'}", leaving
    )


def _words(said: list[Said], *, known: bool) -> tuple[str, ...]:
    return tuple(one.words for one in said if one.known is known)
