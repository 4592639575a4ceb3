"""Reads what the decision about maintenances is made from, with the rights of whoever asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.api.maintenance.nodeoperationtemplate import (
    NODE_OPERATION_TEMPLATES,
    NodeOperationTemplateSpec,
)
from nodemanager.api.maintenance.nodeseries import NODE_SERIES
from nodemanager.api.maintenance.nodetask import NODE_TASKS, NodeTask
from nodemanager.api.maintenance.series import SeriesSpec
from nodemanager.api.maintenance.windows import WindowSpec
from nodemanager.cli import kinds
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.controllers import window_calendars
from nodemanager.controllers.disruption.nodes import NODES, Node
from nodemanager.fleet.windows.exclusions import Calendars
from nodemanager.kube import errors
from nodemanager.kube.objects import Resource

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Referred:
    """What maintenances of a namespace may refer to, by name."""

    windows: Mapping[str, WindowSpec] = field(default_factory=dict)
    series: Mapping[str, SeriesSpec] = field(default_factory=dict)
    templates: Mapping[str, NodeOperationTemplateSpec] = field(default_factory=dict)
    calendars: Mapping[str, Calendars] = field(default_factory=dict)
    """Calendars of holidays, by the maintenance whose window names them."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All that is known of a namespace at one moment."""

    now: datetime
    hosts: Sequence[ManagedNode] = ()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """Kubernetes Nodes, by name; without those that may not be read."""
    tasks: Sequence[NodeTask] = ()
    referred: Referred = field(default_factory=Referred)
    unread: tuple[str, ...] = ()
    """What could not be read, and what is not known therefore."""


async def maintenances(client: Client, namespace: str) -> list[NodeMaintenance]:
    """Return all maintenances of a namespace."""
    return await _list(client, NODE_MAINTENANCES, namespace)


async def surroundings(client: Client, namespace: str, about: Iterable[NodeMaintenance]) -> Surroundings:
    """Return all that the decision about some maintenances needs."""
    now = datetime.now(UTC)
    hosts = await _list(client, MANAGED_NODES, namespace)
    tasks = await _list(client, NODE_TASKS, namespace)
    windows = {one.metadata.name: one.spec for one in await _list(client, MAINTENANCE_WINDOWS, namespace)}
    series = {one.metadata.name: one.spec for one in await _list(client, NODE_SERIES, namespace)}
    templates = {
        one.metadata.name: one.spec for one in await _list(client, NODE_OPERATION_TEMPLATES, namespace)
    }
    calendars = {}
    for one in about:
        window = window_of(one, windows)
        if window is not None and window.exclude:
            calendars[one.metadata.name] = await window_calendars.read(client, window, namespace, now)
    nodes, unread = await _nodes(client)
    referred = Referred(windows, series, templates, calendars)
    return Surroundings(now, hosts, nodes, tasks, referred, unread)


def window_of(maintenance: NodeMaintenance, windows: Mapping[str, WindowSpec]) -> WindowSpec | None:
    """Return the window of a maintenance; None if the one that it refers to is not there."""
    spec = maintenance.spec
    if spec.window_ref is not None:
        return windows.get(spec.window_ref.name)
    return spec.window


async def _list(client: Client, resource: Resource[T], namespace: str) -> list[T]:
    with kinds.installed(resource):
        return (await client.list(resource, Selection(namespace))).items


async def _nodes(client: Client) -> tuple[dict[str, Node], tuple[str, ...]]:
    """Return the Nodes of the cluster; who may not read them goes without, and is told."""
    try:
        found: Any = (await client.list(NODES, Selection())).items
    except (errors.Forbidden, errors.NotFound) as error:
        return {}, (f"{error}: whether a Node is Ready or cordoned is not known here",)
    return {one.metadata.name: one for one in found}, ()
