"""Keeps one Role per host with exactly the Secrets, ConfigMaps and Leases that its ConfigSets refer to.

ConfigSets that match a host  ->  names  ->  Role nodemanager-HOST-references
"""

from __future__ import annotations

import logging

from nodemanager.api import errors, host_references, matching
from nodemanager.api.configset import ConfigSet
from nodemanager.api.core import ROLE_BINDINGS, ROLES, Role
from nodemanager.api.managednode import ManagedNode
from nodemanager.api.objects import ObjectKey, key_of
from nodemanager.client.calls import WriteOptions
from nodemanager.client.http import Client
from nodemanager.client.patches import ApplyPatch
from nodemanager.plan import templates
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.queue import WorkQueue

log = logging.getLogger(__name__)
SETTLE_SECONDS = 0.1
MANAGER = "nodemanager-operator"


class HostRoles:
    """What each host may read follows what is declared for it."""

    def __init__(
        self,
        client: Client,
        config_sets: Cache[ConfigSet],
        nodes: Cache[ManagedNode],
        roles: Cache[Role],
        queue: WorkQueue[ObjectKey],
    ) -> None:
        self._client = client
        self._config_sets = config_sets
        self._nodes = nodes
        self._roles = roles
        self._queue = queue
        config_sets.subscribe(self._on_config_set)
        nodes.subscribe(self._on_node)
        roles.subscribe(self._on_role)

    async def reconcile(self, key: ObjectKey) -> None:
        """Write the Role of a host, if it is not what it should be."""
        node = self._nodes.get(key)
        if node is None or node.metadata.deletion_timestamp:
            return  # its Role goes with it
        sets = [
            one
            for one in self._config_sets.values()
            if one.metadata.namespace == key.namespace and matching.matches(one, node.metadata.labels)
        ]
        found = templates.referenced((file for one in sets for file in one.spec.files), node)
        for error in found.errors:
            log.debug("a reference of %s cannot be told: %s", key, error)  # its agent reports it
        needed = host_references.needs(node, sets, found.secrets, found.config_maps)
        current = self._roles.get(ObjectKey(key.namespace, host_references.role_name(key.name)))
        if (current.rules if current else []) == host_references.rules(needed):
            return  # also: nothing is needed, and nothing is there
        role, binding = host_references.objects(node, needed)
        name = role["metadata"]["name"]
        options = WriteOptions(field_manager=MANAGER)
        await self._client.patch(ROLES, name, key.namespace, ApplyPatch(role, force=True), options=options)
        try:
            await self._client.patch(
                ROLE_BINDINGS, name, key.namespace, ApplyPatch(binding, force=True), options=options
            )
        except errors.NotFound:
            return  # deleted meanwhile
        counts = len(needed.secrets), len(needed.config_maps)
        log.info("%s may now read %d Secrets and %d ConfigMaps", key, *counts)

    def _on_config_set(self, change: Change[ConfigSet]) -> None:
        old, new = change.old, change.new
        if old and new and old.spec == new.spec and old.metadata.labels == new.metadata.labels:
            return
        for node in self._nodes.values():
            labels = node.metadata.labels
            if any(one is not None and matching.matches(one, labels) for one in (old, new)):
                self._queue.add_after(key_of(node), SETTLE_SECONDS)

    def _on_node(self, change: Change[ManagedNode]) -> None:
        if change.new is not None:
            self._queue.add_after(change.key, SETTLE_SECONDS)

    def _on_role(self, change: Change[Role]) -> None:
        """Somebody changed or removed a Role of ours: it is put back."""
        prefix, suffix = host_references.role_name("/").split("/")
        if change.old is not None and change.key.name.endswith(suffix):
            host = change.key.name.removeprefix(prefix).removesuffix(suffix)
            self._queue.add_after(ObjectKey(change.key.namespace, host), SETTLE_SECONDS)
