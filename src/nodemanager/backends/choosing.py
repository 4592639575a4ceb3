"""Which backends are looked at for a profile: those that it names, and no others."""

from __future__ import annotations

from nodemanager.api.edge.edgeprofile import EdgeProfileSpec
from nodemanager.backends.asking import ask
from nodemanager.backends.storage.linstor import connecting
from nodemanager.backends.storage.linstor.backend import LinstorBackend
from nodemanager.backends.storage.linstor.rest import LinstorRest
from nodemanager.backends.storage.local_path import LocalPathBackend
from nodemanager.backends.storage.piraeus.backend import PiraeusBackend, PiraeusObjects
from nodemanager.backends.storage.seam import StorageBackend
from nodemanager.backends.virtualisation.kubevirt import KubeVirt
from nodemanager.backends.virtualisation.nothing import NoVirtualisation
from nodemanager.backends.virtualisation.seam import Virtualisation
from nodemanager.client.verbs import Client
from nodemanager.kube.core import SECRETS


async def storage(spec: EdgeProfileSpec, client: Client, namespace: str) -> StorageBackend | None:
    """Return what is looked at of the storage, which has to be closed; None if that is nothing."""
    wanted = spec.storage
    stated = PiraeusObjects(client, wanted.piraeus) if wanted.piraeus else None
    if wanted.linstor is not None:
        name, secret = wanted.linstor.secret, None
        if name:
            found = await ask(f"read Secret {name}", client.get(SECRETS, name, namespace))
            secret = found.values
        controller = LinstorRest(connecting.config(wanted.linstor.url, name, secret))
        return PiraeusBackend(controller, stated) if stated else LinstorBackend(controller)
    if stated is not None:
        return stated
    return LocalPathBackend(client, wanted.classes) if wanted.observe_volumes else None


def virtualisation(spec: EdgeProfileSpec, client: Client) -> Virtualisation:
    """Return what is looked at of virtual machines, which may be nothing."""
    if spec.kubevirt is None:
        return NoVirtualisation()
    return KubeVirt(client, spec.kubevirt.namespaces)
