"""Reads what `nodemanager health` shows, with the rights of the user."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.edge.edgecluster import EDGE_CLUSTERS
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.api.rights import operator_rights
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.fleet.health import OPERATOR, FleetSnapshot
from nodemanager.kube import errors
from nodemanager.kube.core import LEASES, Lease
from nodemanager.kube.objects import Resource, Untyped

T = TypeVar("T")
NAMESPACES: Final[Resource[Untyped]] = Resource("", "v1", "Namespace", "namespaces", dict, namespaced=False)


async def read(client: Client, namespace: str) -> FleetSnapshot:
    """List all that is looked at, side by side. What we may not read is said; what there is not, is not."""
    unread: list[tuple[str, str]] = []

    async def listed(resource: Resource[T]) -> list[T]:
        try:
            page = await client.list(resource, Selection(namespace))
        except errors.NotFound as error:
            if resource is EDGE_CLUSTERS:  # a cluster of the time before there were sites
                return []
            unread.append((resource.kind, f"{error}; nodemanager crds --install"))
            return []
        except errors.Forbidden as error:
            unread.append((resource.kind, str(error)))
            return []
        unread.extend((resource.kind, f"{one.key.name}: {one.message}") for one in page.malformed)
        return page.items

    async def leader() -> Lease | None:
        try:
            return await client.get(LEASES, operator_rights.NAME, namespace)
        except errors.NotFound:
            return None
        except errors.Forbidden as error:
            unread.append((OPERATOR, str(error)))
            return None

    kinds: tuple[Resource[Any], ...] = (EDGE_CLUSTERS, MANAGED_NODES, CONFIG_SETS, NODE_MAINTENANCES)
    asked: list[Awaitable[Any]] = [leader(), *(listed(one) for one in kinds)]
    lease, clusters, hosts, sets, maintenances = await asyncio.gather(*asked)
    if not (clusters or hosts or sets or maintenances or unread) and await _is_missing(client, namespace):
        unread.append((NAMESPACES.kind, f"there is no namespace {namespace}; name another one with -n"))
    return FleetSnapshot(clusters, hosts, sets, maintenances, unread, lease)


async def _is_missing(client: Client, namespace: str) -> bool:
    """Tell whether there is no such namespace: all of its lists are empty then, which is not well."""
    try:
        await client.get(NAMESPACES, namespace)
    except errors.NotFound:
        return True
    except errors.Forbidden:  # the user may list in it, but not see it
        return False
    return False
