"""Gives cluster-wide bindings of hosts, once named after the host alone, names that tell namespaces apart.

    nodemanager-HOST        ->  nodemanager:NAMESPACE:HOST
    nodemanager-HOST-drain  ->  nodemanager:NAMESPACE:HOST:drain, and its role with it

No subject gets a new right: each one keeps its own, under the new name, and one
that does not exist any more loses it. What is not exactly as it was printed is left to people.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

from nodemanager.api.rights import host_rights
from nodemanager.api.rights.host_rights import NODE_ROLE, PREFIX, HostAccess
from nodemanager.client.calls import DeleteOptions, WriteOptions
from nodemanager.client.verbs import Client
from nodemanager.kube import core, errors
from nodemanager.kube.objects import Resource, Untyped

_DRAIN: Final = "-drain"
_RESOURCES: Final[dict[str, Resource[Untyped]]] = {
    "ClusterRole": core.CLUSTER_ROLES,
    "ClusterRoleBinding": core.CLUSTER_ROLE_BINDINGS,
}


class Old(NamedTuple):
    """A binding of the old name."""

    binding: Untyped
    holders: tuple[HostAccess, ...]
    """The hosts that it is for: more than one, if a user added those of another namespace by hand."""
    drains: bool

    @property
    def name(self) -> str:
        """What it is called."""
        return str(self.binding["metadata"]["name"])


def old(binding: Untyped) -> Old | None:
    """Return a binding as one of the old name; None if it is none, or if people made something else of it."""
    name = str(binding["metadata"]["name"])
    role = (binding.get("roleRef") or {}).get("name")
    drains = role == name and name.endswith(_DRAIN)
    if not name.startswith(PREFIX) or not (drains or role == NODE_ROLE):
        return None
    account = name.removesuffix(_DRAIN) if drains else name
    subjects: list[Untyped] = binding.get("subjects") or []
    if any(one.get("kind") != "ServiceAccount" or one.get("name") != account for one in subjects):
        return None
    hostname = account.removeprefix(PREFIX)
    return Old(binding, tuple(HostAccess(hostname, one.get("namespace", "")) for one in subjects), drains)


class Renaming:
    """Moves all of them in one cluster."""

    def __init__(self, client: Client, *, dry_run: bool) -> None:
        self._client = client
        self._dry_run = dry_run

    async def find(self) -> list[Old]:
        """Return every binding of an old name."""
        bindings = (await self._client.list(core.CLUSTER_ROLE_BINDINGS)).items
        return [found for binding in bindings if (found := old(binding)) is not None]

    async def run(self) -> AsyncIterator[tuple[str, str]]:
        """Rename every binding of an old name, and yield it once it is gone, with what became of it."""
        for found in await self.find():
            yield found.name, "renamed" if await self._rename(found) else "deleted: nobody holds it any more"

    async def _rename(self, found: Old) -> bool:
        """Give the subjects of a binding one with the new name, and delete it; return if there were any."""
        rules = await self._rules(found.name) if found.drains else []
        holders = [access for access in found.holders if await self._exists(access)]
        for access in holders:
            if not found.drains:
                await self._create(host_rights.node_binding(access))
            elif rules:
                role, binding = host_rights.drain_manifests(access)
                await self._create({**role, "rules": rules})
                await self._create(binding)
        version = found.binding["metadata"].get("resourceVersion", "")  # nobody who was added meanwhile loses
        await self._delete(core.CLUSTER_ROLE_BINDINGS, found.name, version)
        if found.drains:  # not before: subjects that were added would be bound to nothing
            await self._delete(core.CLUSTER_ROLES, found.name)
        return bool(holders)

    async def _rules(self, role: str) -> list[Untyped]:
        """Return what a role allows, which people may have changed."""
        try:
            return (await self._client.get(core.CLUSTER_ROLES, role)).get("rules") or []
        except errors.NotFound:
            return []

    async def _exists(self, access: HostAccess) -> bool:
        try:
            name = host_rights.account_name(access.hostname)
            await self._client.get(core.SERVICE_ACCOUNTS, name, access.namespace)
        except errors.NotFound:
            return False
        return True

    async def _create(self, obj: dict[str, Any]) -> None:
        with contextlib.suppress(errors.AlreadyExists):
            options = WriteOptions(dry_run=self._dry_run)
            await self._client.create(_RESOURCES[obj["kind"]], obj, options=options)

    async def _delete(self, resource: Resource[Untyped], name: str, version: str = "") -> None:
        with contextlib.suppress(errors.NotFound):
            options = DeleteOptions(dry_run=self._dry_run, resource_version=version)
            await self._client.delete(resource, name, options=options)
