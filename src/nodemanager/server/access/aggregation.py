"""Keeps the stored rules of aggregating ClusterRoles equal to the rules they grant.

It is for people who read the roles: authorisation aggregates by itself and does not depend on it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

import msgspec

from nodemanager.kube.rbac.roles import aggregated
from nodemanager.server.collection.following import StoreFollower
from nodemanager.server.hub import Hub
from nodemanager.server.kinds.builtin_kinds import CLUSTER_ROLES
from nodemanager.server.verbs import internal_requests, patching, stored

MANAGER: Final = "clusterrole-aggregation-controller"
"""The same as in Kubernetes, so that tools know where the rules come from."""


async def keep_roles(hub: Hub) -> None:
    """Refill at every change of a ClusterRole, until cancelled."""

    async def act(_changed: Collection[str] | None) -> None:
        await refill(hub)

    await StoreFollower(hub.store, (CLUSTER_ROLES.prefix(),), act).run()


async def refill(hub: Hub) -> int:
    """Write the rules of each aggregating role whose rules are not right; return their number."""
    records = hub.store.list(CLUSTER_ROLES.prefix()).records
    roles = {obj["metadata"]["name"]: obj for obj in (stored.load(CLUSTER_ROLES, one) for one in records)}
    written = 0
    for name, rules in aggregated(roles).items():
        if rules != (roles[name].get("rules") or []) and hub.store.get(CLUSTER_ROLES.key("", name)):
            body = {
                "apiVersion": CLUSTER_ROLES.api_version,
                "kind": CLUSTER_ROLES.kind,
                "metadata": {"name": name},
                "rules": rules,
            }
            call = replace(
                internal_requests.call_about("patch", CLUSTER_ROLES, body),
                query={"fieldManager": MANAGER, "force": "true"},
                body=msgspec.json.encode(body),
                content_type=patching.APPLY_PATCH,
            )
            await patching.patch(hub, call)
            written += 1
    return written
