"""Reads the inputs of the operator's decisions, with the rights of the user."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar, cast

from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.api.maintenance.nodeoperationtemplate import NODE_OPERATION_TEMPLATES
from nodemanager.api.maintenance.nodeseries import NODE_SERIES
from nodemanager.api.maintenance.nodetask import NODE_TASKS, NodeTask
from nodemanager.cli import kinds
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.controllers.disruption.nodes import NODES, Node
from nodemanager.controllers.node_maintenances.inputs import InputReader, Inputs
from nodemanager.controllers.registration import Caches
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey, Resource, key_of

T = TypeVar("T")
REFERRED: Final[tuple[Resource[Any], ...]] = (
    MAINTENANCE_WINDOWS, NODE_SERIES, NODE_OPERATION_TEMPLATES, MAINTENANCE_APPROVALS, CONFIG_SETS,
)  # fmt: skip
"""What maintenances refer to, what refers to them, and what changes hosts besides."""


@dataclass(frozen=True, slots=True)
class NamespaceObjects:
    """The objects of a namespace at one moment, and the Nodes of the cluster."""

    now: datetime
    hosts: Sequence[ManagedNode] = ()
    tasks: Sequence[NodeTask] = ()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """By name; without those that may not be read."""
    referred: Mapping[Resource[Any], Sequence[Any]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    """What could not be read, and what is not known therefore."""


@dataclass(frozen=True, slots=True)
class MaintenanceReading:
    """The objects, and what maintenances make of them."""

    found: NamespaceObjects
    caches: Caches
    reader: InputReader
    inputs: Mapping[str, Inputs]
    """What each maintenance refers to, by its name."""

    @property
    def now(self) -> datetime:
        """When it was read."""
        return self.found.now


class _Listed(Generic[T]):
    """The result of one list, for code that expects a cache."""

    def __init__(self, items: Iterable[T], refused: str = "") -> None:
        self.refused = refused
        self._items = {key_of(cast("Any", one)): one for one in items}

    def get(self, key: ObjectKey) -> T | None:
        """Return an object."""
        return self._items.get(key)

    def values(self) -> Iterable[T]:
        """Return all of them."""
        return self._items.values()


async def maintenances(client: Client, namespace: str) -> list[NodeMaintenance]:
    """Return all maintenances of a namespace."""
    return await _list(client, NODE_MAINTENANCES, namespace)


async def config_sets(client: Client, namespace: str) -> list[ConfigSet]:
    """Return all ConfigSets of a namespace."""
    return await _list(client, CONFIG_SETS, namespace)


async def read_maintenances(
    client: Client, namespace: str, about: Sequence[NodeMaintenance]
) -> MaintenanceReading:
    """Return all that the decision about some maintenances needs."""
    hosts = await _list(client, MANAGED_NODES, namespace)
    tasks = await _list(client, NODE_TASKS, namespace)
    referred = {kind: await _list(client, kind, namespace) for kind in REFERRED}
    with contextlib.suppress(errors.Forbidden, errors.NotFound):  # a user who may not read it sees the status
        referred[AUDIT_CHECKPOINTS] = (await client.list(AUDIT_CHECKPOINTS, Selection(namespace))).items
    nodes, unread = await _nodes(client)
    return await understood(
        client, NamespaceObjects(datetime.now(UTC), hosts, tasks, nodes, referred, unread), about
    )


async def understood(
    client: Client, found: NamespaceObjects, about: Sequence[NodeMaintenance]
) -> MaintenanceReading:
    """Return what maintenances refer to among these objects; calendars of holidays are read, too."""
    listed: dict[Resource[Any], _Listed[Any]] = {
        kind: _Listed(found.referred.get(kind, ())) for kind in (*REFERRED, AUDIT_CHECKPOINTS)
    }
    listed[NODES] = _Listed(found.nodes.values(), "; ".join(found.unread))
    caches = Caches("this command", cast("Any", listed))
    reader = InputReader(client, caches)
    inputs = {one.metadata.name: await reader.read(one, found.hosts, found.now) for one in about}
    return MaintenanceReading(found, caches, reader, inputs)


async def _list(client: Client, resource: Resource[T], namespace: str) -> list[T]:
    with kinds.installed(resource):
        return (await client.list(resource, Selection(namespace))).items


async def _nodes(client: Client) -> tuple[dict[str, Node], tuple[str, ...]]:
    """Return the Nodes of the cluster; a user who may not read them gets none, and a note."""
    try:
        found = (await client.list(NODES, Selection())).items
    except (errors.Forbidden, errors.NotFound) as error:
        return {}, (f"{error}: whether a Node is Ready or cordoned is not known here",)
    return {one.metadata.name: one for one in found}, ()
