"""What the agent observes of its host for the status; and the WireGuard keys that it makes if declared."""

from __future__ import annotations

import base64
import logging
from dataclasses import dataclass, replace

from nodemanager.agent.report.host_inventory import HostInventory, inventory
from nodemanager.api.common.managednode import ManagedNode, WireGuardStatus
from nodemanager.client.verbs import Client
from nodemanager.host.base import Runner
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import wireguard
from nodemanager.host.inventory.identity import Identity
from nodemanager.host.process.runner import RunError
from nodemanager.kube import errors
from nodemanager.kube.core import SECRETS

log = logging.getLogger(__name__)
PRIVATE, PUBLIC = "private-key", "public-key"


@dataclass(slots=True)
class HostInspector:
    """Looks at the host itself; for a root that is not running, only at its files."""

    tree: Tree
    """A tree of its own: other parts work in theirs meanwhile, also in threads."""
    identity: Identity
    run: Runner
    client: Client
    _told: str = ""
    """The last report about an unusable key."""

    def close(self) -> None:
        """Give back what is held open."""
        self.tree.close()

    async def look(self, node: ManagedNode) -> HostInventory:
        """Return what is there now."""
        found = await inventory(self.tree, self.identity, self.run)
        return replace(found, wire_guard=await self._with_own_key(node, list(found.wire_guard)))

    async def _with_own_key(self, node: ManagedNode, live: list[WireGuardStatus]) -> list[WireGuardStatus]:
        """Add the key that is kept for an interface that is not up yet, so that peers can learn it."""
        wanted = node.spec.wire_guard
        if wanted is None or not wanted.enabled or any(one.name == wanted.interface for one in live):
            return live
        try:
            name = f"wg-{wanted.interface}-{node.metadata.name}"
            public = await self._public_key(name, node.metadata.namespace)
        except (errors.KubeError, RunError, ValueError) as error:
            if str(error) != self._told:
                log.warning("cannot look after the WireGuard key of %s: %s", wanted.interface, error)
            self._told = str(error)
            known = [one for one in node.status.wire_guard if one.name == wanted.interface]
            return _by_name([*live, *known])  # peers must not lose a key because we could not read it
        self._told = ""
        return _by_name([*live, WireGuardStatus(name=wanted.interface, public_key=public)])

    async def _public_key(self, name: str, namespace: str) -> str:
        """Return the public half of the host's own key pair, made if there is none yet."""
        try:
            found = await self.client.get(SECRETS, name, namespace)
        except errors.NotFound:
            private = await wireguard.new_private_key(self.run)
            public = await wireguard.public_key(self.run, private)
            data = {PRIVATE: private, PUBLIC: public}
            body = {
                "metadata": {"name": name, "namespace": namespace},
                "type": "Opaque",
                "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
            }
            try:
                await self.client.create(SECRETS, body, namespace)
            except errors.AlreadyExists:
                return await self._public_key(name, namespace)
            return public
        private = (found.data or {}).get(PRIVATE, b"").decode("ascii", "replace").strip()
        try:
            # Not the file beside it: only this answer is certainly true.
            return await wireguard.public_key(self.run, private)
        except ValueError:
            raise ValueError(
                f"Secret {name} has no WireGuard key as {PRIVATE}; delete it to get a new one"
            ) from None


def _by_name(found: list[WireGuardStatus]) -> list[WireGuardStatus]:
    return sorted(found, key=lambda one: one.name)
