"""Sites for the contract of storage backends: LINSTOR, with and without Piraeus, and folders of nodes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from nodemanager.api.edge.edgecluster import HEALTHY, NOT_OBSERVED
from nodemanager.backends.storage.linstor import connecting
from nodemanager.backends.storage.linstor.backend import LinstorBackend
from nodemanager.backends.storage.linstor.rest import LinstorRest
from nodemanager.backends.storage.local_path import LocalPathBackend
from nodemanager.backends.storage.piraeus.backend import PiraeusBackend, PiraeusObjects
from nodemanager.backends.storage.seam import StorageBackend
from support import objects_api
from support.linstor import server, sites, syncing
from support.linstor.server import Controller, Fault
from support.linstor.world import LinstorWorld
from support.objects_api import ObjectsApi
from support.storage_contract import NODES, VOLUMES

PIRAEUS = "/apis/piraeus.io/v1"
VOLUMES_PATH = "/api/v1/persistentvolumes"


NEVER_ASKED = ("/evacuate", "/lost", "/sync-status", "/adjust", "/spawn")
"""What destroys copies, lies about them, or places many at once."""


def harmless(controller: Controller) -> None:
    """Fail if any of that was asked for."""
    wrong = [one for one in controller.asked if any(end in one for end in NEVER_ASKED)]
    assert not wrong, f"{wrong} must never be asked of LINSTOR"


@dataclass
class LinstorLab:
    """A simulated controller."""

    controller: Controller
    backend: LinstorBackend
    api: ObjectsApi | None = None
    good: str = HEALTHY

    @property
    def world(self) -> LinstorWorld:
        return self.controller.world

    def settle(self) -> None:
        syncing.advance(self.world, 60)

    def silence(self, node: str) -> None:
        self.world.silence(node)
        if self.api is not None:
            set_condition(self.api, node, "Available", "False", "Error")

    def vanish(self) -> None:
        self.controller.faults.append(Fault(server.CUT_AFTER, times=1000))

    def lose_next_answer(self) -> None:
        self.controller.faults.append(Fault(server.CUT_AFTER, "POST"))

    def written(self) -> int:
        return self.world.writes


def world() -> LinstorWorld:
    made = sites.cluster(*NODES)
    for name in VOLUMES:
        sites.volume(made, name, "a")
    return made


@contextlib.asynccontextmanager
async def linstor(found: LinstorWorld | None = None, **seconds: float) -> AsyncIterator[LinstorLab]:
    """Yield a site with LINSTOR."""
    async with server.serve(found or world()) as controller:
        backend = LinstorBackend(LinstorRest(connecting.config(controller.url), **seconds))
        try:
            yield LinstorLab(controller, backend)
        finally:
            await backend.close()


def piraeus_object(
    name: str, kinds: Sequence[str] = ("Applied", "Available", "Configured"), **changed: Any
) -> dict[str, Any]:
    """Return an object of Piraeus of which such conditions are said; it is well."""
    conditions = [
        {"type": kind, "status": "True", "reason": "AsExpected", "message": "", "observedGeneration": 2,
         "lastTransitionTime": "2026-03-01T04:00:00Z"}
        for kind in kinds
    ]  # fmt: skip
    return {"metadata": {"name": name, "generation": 2, **changed}, "status": {"conditions": conditions}}


def piraeus_api() -> ObjectsApi:
    """Return the API of a site with Piraeus, which knows neither connections nor configurations."""
    return ObjectsApi({
        f"{PIRAEUS}/linstorclusters": [piraeus_object("linstorcluster")],
        f"{PIRAEUS}/linstorsatellites": [piraeus_object(one) for one in NODES],
    })  # fmt: skip


def set_condition(
    api: ObjectsApi,
    name: str,
    kind: str,
    status: str,
    reason: str,
    generation: int = 2,
    plural: str = "linstorsatellites",
) -> None:
    """Have a condition of an object of Piraeus say something else."""
    for one in api.lists[f"{PIRAEUS}/{plural}"]:
        for found in one["status"]["conditions"]:
            if one["metadata"]["name"] == name and found["type"] == kind:
                found |= {"status": status, "reason": reason, "observedGeneration": generation}


@contextlib.asynccontextmanager
async def piraeus() -> AsyncIterator[LinstorLab]:
    """Yield a site with LINSTOR under Piraeus."""
    api = piraeus_api()
    async with server.serve(world()) as controller, objects_api.serve(api) as client:
        stated = PiraeusObjects(client, "linstorcluster")
        backend = PiraeusBackend(LinstorRest(connecting.config(controller.url)), stated)
        try:
            yield LinstorLab(controller, backend, api)
        finally:
            await backend.close()


@dataclass
class ObjectsLab:
    """A site that is seen in the Kubernetes API only."""

    api: ObjectsApi
    backend: StorageBackend
    good: str = NOT_OBSERVED

    def settle(self) -> None:
        """Nothing is ever under way."""

    def silence(self, node: str) -> None:
        if VOLUMES_PATH in self.api.lists:
            self.api.lists[VOLUMES_PATH][0]["status"]["phase"] = "Failed"
        else:
            set_condition(self.api, node, "Available", "Unknown", "NotObserved")

    def vanish(self) -> None:
        self.api.away = True

    def lose_next_answer(self) -> None:
        raise AssertionError("it changes nothing")

    def written(self) -> int:
        return len([one for one in self.api.asked if not one.startswith("GET ")])


@contextlib.asynccontextmanager
async def piraeus_alone() -> AsyncIterator[ObjectsLab]:
    """Yield a site of which only the objects of Piraeus are looked at."""
    api = piraeus_api()
    async with objects_api.serve(api) as client:
        yield ObjectsLab(api, PiraeusObjects(client, "linstorcluster"))


def persistent_volume(name: str, node: str, kind: str = "local-path") -> dict[str, Any]:
    """Return a PersistentVolume as the provisioner of local-path makes it."""
    values = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": values}]}}
    spec = {"storageClassName": kind, **({"nodeAffinity": affinity} if node else {})}
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Bound"}}


@contextlib.asynccontextmanager
async def local_path() -> AsyncIterator[ObjectsLab]:
    """Yield a site with folders of its nodes; a volume of another class is none of its business."""
    found = [persistent_volume(name, node) for name, node in zip(VOLUMES, NODES, strict=True)]
    api = ObjectsApi({VOLUMES_PATH: [*found, persistent_volume("other", "", "nfs")]})
    async with objects_api.serve(api) as client:
        yield ObjectsLab(api, LocalPathBackend(client, ["local-path"]))
