"""Reduced objects for the operator's caches, for kinds with one object per host."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.kube.core import LEASES, Lease, LeaseSpec
from nodemanager.kube.objects import ObjectMeta, Resource
from nodemanager.kube.sharing import shared, shared_conditions, shared_meta
from nodemanager.runtime.cache import Trim

_BARE: Final = ManagedNode()


def lean_node(node: ManagedNode) -> ManagedNode:
    """Return an equal host that needs less memory."""
    status = msgspec.structs.replace(node.status, conditions=shared_conditions(node.status.conditions))
    spec = _BARE.spec if node.spec == _BARE.spec else shared(node.spec)
    return ManagedNode(metadata=shared_meta(node.metadata), spec=spec, status=shared(status))


def sign_of_life(lease: Lease) -> Lease:
    """Return the parts of a Lease that show that a host is alive.

    The holder of a group's Lease is not in it: it is read from the API, because a cache may be late.
    """
    meta = lease.metadata
    told = ObjectMeta(name=meta.name, namespace=meta.namespace, resource_version=meta.resource_version)
    spec = LeaseSpec(
        lease_duration_seconds=lease.spec.lease_duration_seconds, renew_time=lease.spec.renew_time
    )
    return Lease(metadata=shared_meta(told), spec=spec)


TRIMS: Final[dict[Resource[Any], Trim[Any]]] = {MANAGED_NODES: lean_node, LEASES: sign_of_life}
