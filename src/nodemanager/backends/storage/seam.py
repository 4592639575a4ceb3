"""The interface of a storage backend of a site.

Every backend can be looked at (`StorageBackend`). What else it can do it declares, by the words of
`api/edge/capabilities.py`, and for each of these there is a small Protocol: a backend with the word has the
methods, and `tests/support/storage_contract.py` holds every backend to it. All changes may be repeated:
what is done already is no error. After `Undecided`, look before anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from nodemanager.api.edge import capabilities
from nodemanager.backends.declaring import Declaring
from nodemanager.fleet.edge.storage.facts import StorageFacts

TAKING: Final = "Taking"
READY: Final = "Ready"
FAILED: Final = "Failed"
Placeable = Mapping[str, Mapping[str, str | None]]
"""Settings by node and name; None: there is none."""


@dataclass(frozen=True, slots=True)
class StorageChange:
    """The result of a requested change."""

    changed: bool
    """False: it was in the wanted state already."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VolumeSnapshot:
    """A snapshot of a resource. One that is not Ready is none yet."""

    resource: str
    name: str
    state: str = TAKING
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sharing:
    """Whether two nodes could use a resource at once, as live migration does."""

    able: bool
    why_not: str = ""


@runtime_checkable
class StorageBackend(Declaring, Protocol):
    """A backend that keeps volumes."""

    async def observe(self) -> StorageFacts:
        """Look at all of it, and change nothing; raise BackendError if there is nothing to be seen."""

    async def close(self) -> None:
        """Give back what it holds."""


@runtime_checkable
class Replicating(Protocol):
    """Keeps a volume on several nodes."""

    async def place(
        self, resource: str, copies: int, nodes: Sequence[str] = (), pool: str = ""
    ) -> StorageChange:
        """Have so many copies of one resource, new ones on some of `nodes` only; never removes one."""

    async def withdraw(self, resource: str, node: str) -> StorageChange:
        """Remove the copy of a node, if another one is known to have all that it has."""

    async def default_copies(self, group: str, copies: int) -> StorageChange:
        """Have later volumes of a group be on so many nodes; Premature while present ones are on fewer."""

    async def placeable(self, nodes: Sequence[str]) -> Placeable:
        """Return what says whether nodes get new copies, and lose theirs: to be kept before `freeze`.

        By itself, since a `freeze` that is repeated after half of it was done would find its own work.
        """

    async def freeze(self, nodes: Sequence[str]) -> StorageChange:
        """Let nodes get no new copies, and lose none of theirs because they are away for long."""

    async def thaw(self, before: Placeable) -> StorageChange:
        """Restore what `placeable` returned, exactly."""


@runtime_checkable
class Snapshotting(Protocol):
    """Keeps earlier states of a volume."""

    async def snapshot(self, name: str, resources: Sequence[str]) -> StorageChange:
        """Begin a snapshot of several resources at one moment; it is there when it is Ready."""

    async def snapshots(self, resources: Sequence[str] = ()) -> list[VolumeSnapshot]:
        """Return the snapshots of some resources, or of all."""

    async def drop_snapshot(self, resource: str, name: str) -> StorageChange:
        """Begin to delete a snapshot."""


@runtime_checkable
class Cloning(Protocol):
    """Makes a new volume of another one."""

    async def clone(self, resource: str, to: str) -> StorageChange:
        """Begin a copy under another name."""

    async def clone_state(self, resource: str, to: str) -> str:
        """Return how far it is: Taking, Ready or Failed."""


@runtime_checkable
class SharedAccess(Protocol):
    """Lets two nodes use a volume at once."""

    async def sharing(self, resource: str) -> Sharing:
        """Say whether a resource could be."""


PROTOCOLS: Final[Mapping[str, type]] = {
    capabilities.REPLICATION: Replicating,
    capabilities.SNAPSHOT: Snapshotting,
    capabilities.CLONE: Cloning,
    capabilities.RWX: SharedAccess,
}
"""By capability: the Protocol of a backend that declares it."""
