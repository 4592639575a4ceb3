"""Folders of nodes as PersistentVolumes: each volume is on one node, and nothing is ever copied.

Looked at are the PersistentVolumes of some StorageClasses. How a disk is, nobody says: a volume is as well
as its node, which other code looks at.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from nodemanager.api.edge import capabilities
from nodemanager.backends.asking import ask_all
from nodemanager.client.verbs import Client
from nodemanager.fleet.edge.decoding import printable
from nodemanager.fleet.edge.storage.facts import StorageFacts, StorageNode
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

NAME: Final = "local-path"
HOSTNAME: Final = "kubernetes.io/hostname"
_GOOD: Final = ("Available", "Bound", "Released")


class NodeExpression(Struct):
    """A condition on labels of a node."""

    key: str = ""
    operator: str = ""
    values: list[str] = []


class NodeTerm(Struct):
    """Conditions that must all hold."""

    match_expressions: list[NodeExpression] = []


class RequiredNodes(Struct):
    """The nodes that are allowed."""

    node_selector_terms: list[NodeTerm] = []


class VolumeNodeAffinity(Struct):
    """Where a volume can be used."""

    required: RequiredNodes | None = None


class PersistentVolumeSpec(Struct):
    """The class of a volume, and its place."""

    storage_class_name: str = ""
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolumeStatus(Struct):
    """The state of a volume."""

    phase: str = ""
    message: str = ""


class PersistentVolume(Struct):
    """`v1` PersistentVolume, with the fields that we use."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


PERSISTENT_VOLUMES: Final = Resource(
    "", "v1", "PersistentVolume", "persistentvolumes", PersistentVolume, namespaced=False
)


class LocalPathBackend:
    """Volumes of some classes."""

    name = NAME
    capabilities = capabilities.STORAGE.choices[NAME]

    def __init__(self, client: Client, classes: Collection[str]) -> None:
        self._client, self._classes = client, classes

    async def close(self) -> None:
        """Do nothing: the caller owns the client."""

    async def observe(self) -> StorageFacts:
        """Look at the volumes."""
        found = await ask_all("list PersistentVolumes", self._client, PERSISTENT_VOLUMES)
        return seen([one for one in found if one.spec.storage_class_name in self._classes])


def seen(volumes: Sequence[PersistentVolume]) -> StorageFacts:
    """Return what PersistentVolumes say: on which nodes they are, and which of them failed."""
    places = {one.metadata.name: _node(one) for one in volumes}
    nodes = sorted({node for node in places.values() if node})
    return StorageFacts(
        tuple(StorageNode(printable(node)) for node in nodes),
        faults=tuple(
            printable(f"PersistentVolume {one.metadata.name} is {one.status.phase}: {one.status.message}")
            for one in volumes
            if one.status.phase not in (*_GOOD, "")
        ),
        unknown=tuple(
            f"PersistentVolume {printable(name)}: nothing says on which node it is"
            for name, node in places.items()
            if not node
        ),
        sees_replicas=False,
        note=f"{len(volumes)} volumes, each on its node only",
    )


def _node(volume: PersistentVolume) -> str:
    required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    terms = required.node_selector_terms if required else []
    values = [one.values for term in terms for one in term.match_expressions if one.key == HOSTNAME]
    return values[0][0] if len(values) == 1 and len(values[0]) == 1 else ""
