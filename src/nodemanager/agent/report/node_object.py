"""The ManagedNode of this host: made if it is missing, labelled, and its status written when it changes."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from nodemanager.api.common import reported
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode, ManagedNodeStatus
from nodemanager.api.rights.host_rights import MAX_LABELS
from nodemanager.client.patches import MergePatch, difference
from nodemanager.client.verbs import Client
from nodemanager.host.inventory.identity import Identity
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache

log = logging.getLogger(__name__)


class NodeObject:
    """Our own ManagedNode."""

    def __init__(
        self,
        client: Client,
        nodes: Cache[ManagedNode],
        namespace: str,
        identity: Identity,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._client = client
        self._labels = dict(labels or {})
        """Labels besides those that describe the host; the API may refuse them."""
        self.refusal = ""
        """Why the host does not have them, and what to do."""
        self._nodes = nodes
        self._identity = identity
        self.key = ObjectKey(namespace, identity.hostname)
        self._newest: ManagedNode | None = None
        self._older: set[str] = set()
        """Versions that we or others replaced; the cache may show them a little longer."""

    async def ensure(self) -> ManagedNode:
        """Return it with our labels on it; it is created only if the API says that it is not there."""
        found = self.known()
        if found is None:
            found = await self._get_or_create()
            if self._older:
                self._newest = found  # the cache is behind
        return await self._with_declared_labels(await self._label(found, self._identity.labels()))

    async def _with_declared_labels(self, found: ManagedNode) -> ManagedNode:
        """Set the labels that people may have declared for this host; without them it does its work, too."""
        refused: list[str] = []
        labels = list(self._labels.items())
        for first in range(0, len(labels), MAX_LABELS):
            some = labels[first : first + MAX_LABELS]
            try:
                found = await self._label(found, dict(some))
            except errors.Forbidden:
                for key, value in some:  # those that are declared are not to miss
                    try:
                        found = await self._label(found, {key: value})
                    except errors.Forbidden:
                        refused.append(f"{key}={value}")
        self._tell_refused(refused)
        return found

    def _tell_refused(self, labels: list[str]) -> None:
        before, self.refusal = self.refusal, ""
        if labels:
            asked = " ".join(f"--label {label}" for label in labels)
            self.refusal = (
                f"cannot label this host {', '.join(labels)}: nobody declared that for it; add {asked} to"
                f" nodemanager rbac -n {self.key.namespace} --hostname {self.key.name} | kubectl apply -f -"
            )
        if self.refusal not in ("", before):
            log.warning("%s", self.refusal)

    async def _label(self, found: ManagedNode, labels: Mapping[str, str]) -> ManagedNode:
        missing = {key: value for key, value in labels.items() if found.metadata.labels.get(key) != value}
        if not missing:
            return found
        body = MergePatch({"metadata": {"labels": missing}})
        changed = await self._client.patch(MANAGED_NODES, self.key.name, self.key.namespace, body)
        return self._wrote(found, changed)

    def known(self) -> ManagedNode | None:
        """Return what the cache has, or what we know to be newer; None = only the API can tell."""
        found = self._nodes.get(self.key)
        if found is not None and found.metadata.resource_version in self._older:
            return self._newest
        self._newest = None
        self._older.clear()
        return found

    def _wrote(self, before: ManagedNode, after: ManagedNode) -> ManagedNode:
        if before.metadata.resource_version != after.metadata.resource_version:
            self._older.add(before.metadata.resource_version)
            self._newest = after
        return after

    async def _get_or_create(self) -> ManagedNode:
        with contextlib.suppress(errors.NotFound):
            return await self._client.get(MANAGED_NODES, self.key.name, self.key.namespace)
        body: dict[str, Any] = {
            "metadata": {
                "name": self.key.name,
                "namespace": self.key.namespace,
                "labels": self._identity.labels(),
            }
        }
        try:
            return await self._client.create(MANAGED_NODES, body, self.key.namespace)
        except errors.AlreadyExists:
            return await self._client.get(MANAGED_NODES, self.key.name, self.key.namespace)

    async def write_status(self, node: ManagedNode, status: ManagedNodeStatus) -> ManagedNode:
        """Write what is new in the status, if anything is; raise Conflict if somebody else wrote before us.

        A merge patch replaces whole lists, so it must not be made against another version.
        """
        wanted = reported.status(msgspec.to_builtins(status))
        patch = difference(msgspec.to_builtins(node.status), wanted)
        if not patch:
            return node
        body = MergePatch({"metadata": {"resourceVersion": node.metadata.resource_version}, "status": patch})
        try:
            written = await self._client.patch(
                MANAGED_NODES, self.key.name, self.key.namespace, body, subresource="status"
            )
        except (errors.Conflict, errors.NotFound):
            self._newest = None  # what we thought was the newest is not, and the watch may be long in coming
            self._older.add(node.metadata.resource_version)
            raise
        return self._wrote(node, written)
