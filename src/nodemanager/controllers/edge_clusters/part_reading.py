"""Looks at storage and virtual machines of a site through their backends: what a profile names, and only
that.

Connections last for one look: there are only a few requests every ten seconds, and a certificate that was
renewed, or a profile that was edited, counts from the next look on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from nodemanager.api.edge.capabilities import VIRTUAL_MACHINES
from nodemanager.api.edge.edgecluster import MISSING, REFUSED, UNANSWERED, UNREADABLE
from nodemanager.api.edge.edgeprofile import EdgeProfileSpec
from nodemanager.api.rights.operator_rights import Right
from nodemanager.backends import choosing
from nodemanager.backends.errors import BackendError, Denied, Garbled, NoSuchThing, Unusable
from nodemanager.backends.storage.local_path import PERSISTENT_VOLUMES
from nodemanager.backends.storage.piraeus.objects import LINSTOR_CLUSTERS, LINSTOR_SATELLITES, SETTINGS
from nodemanager.backends.virtualisation.kubevirt import INSTANCES, MIGRATIONS
from nodemanager.client.verbs import Client
from nodemanager.fleet.edge.decoding import printable
from nodemanager.fleet.edge.facts import Read
from nodemanager.fleet.edge.parts import PartFacts, SitePartFacts
from nodemanager.kube.core import SECRETS

SECONDS: Final = 30.0
"""How long all answers about one part may take."""


def rights(spec: EdgeProfileSpec) -> list[Right]:
    """Return the rights for that in the operator's own namespace, and for objects without a namespace."""
    wanted = spec.storage
    found: list[Right] = []
    if wanted.linstor is not None and wanted.linstor.secret:
        found.append(Right(SECRETS, ("get",), names=(wanted.linstor.secret,)))
    if wanted.piraeus:
        found.append(Right(LINSTOR_CLUSTERS, ("get",), names=(wanted.piraeus,)))
        found += [Right(one, ("list",)) for one in (LINSTOR_SATELLITES, *(kind for kind, _ in SETTINGS))]
    return [*found, Right(PERSISTENT_VOLUMES, ("list",))] if wanted.observe_volumes else found


def rights_in(spec: EdgeProfileSpec) -> dict[str, list[Right]]:
    """Return the rights for that in other namespaces."""
    spaces = spec.kubevirt.namespaces if spec.kubevirt is not None else []
    return {one: [Right(INSTANCES, ("list",)), Right(MIGRATIONS, ("list",))] for one in spaces}


async def read(client: Client, spec: EdgeProfileSpec, namespace: str) -> SitePartFacts:
    """Look at all that the profile names; what cannot be seen does not affect the rest."""
    storage, machines = await asyncio.gather(_storage(client, spec, namespace), _machines(client, spec))
    return SitePartFacts(storage, machines)


async def _storage(client: Client, spec: EdgeProfileSpec, namespace: str) -> PartFacts | None:
    name = names(spec).get("storage", "")

    async def look() -> PartFacts:
        backend = await choosing.storage(spec, client, namespace)
        if backend is None:
            return PartFacts(name)
        try:
            return PartFacts(name, storage=await backend.observe())
        finally:
            await backend.close()

    return await _answer(name, look) if name else None


async def _machines(client: Client, spec: EdgeProfileSpec) -> PartFacts | None:
    backend = choosing.virtualisation(spec, client)
    if VIRTUAL_MACHINES not in backend.capabilities:
        return None
    name = names(spec)["virtualisation"]

    async def look() -> PartFacts:
        return PartFacts(name, machines=await backend.observe())

    return await _answer(name, look)


def names(spec: EdgeProfileSpec) -> dict[str, str]:
    """Return what is looked at for each part, for people."""
    wanted, found = spec.storage, {}
    said = [f"LINSTOR {wanted.linstor.url}"] if wanted.linstor is not None else []
    said += [f"LinstorCluster {wanted.piraeus}"] if wanted.piraeus else []
    said += ["PersistentVolumes"] if wanted.observe_volumes and not said else []
    if said:
        found["storage"] = " and ".join(said)
    if spec.kubevirt is not None:
        found["virtualisation"] = f"KubeVirt in {', '.join(spec.kubevirt.namespaces)}"
    return {part: printable(text, 600) for part, text in found.items()}


async def _answer(name: str, look: Callable[[], Awaitable[PartFacts]]) -> PartFacts:
    try:
        async with asyncio.timeout(SECONDS):
            return await look()
    except NoSuchThing as error:
        return PartFacts(name, _no(MISSING, error))
    except Denied as error:
        return PartFacts(name, _no(REFUSED, error))
    except (Garbled, Unusable) as error:
        return PartFacts(name, _no(UNREADABLE, error))
    except BackendError as error:
        return PartFacts(name, _no(UNANSWERED, error))
    except TimeoutError:
        return PartFacts(name, Read(UNANSWERED, message=f"no answer within {SECONDS:.0f}s"))


def _no(answer: str, error: Exception) -> Read:
    return Read(answer, message=printable(str(error), 400))
