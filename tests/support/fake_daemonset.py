"""A DaemonSet as the bridge sees it, in a real API: it walks its states, gives signs of life, and warns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from nodemanager.api.edge.bridge_parts import Bridge
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.controllers.edge_clusters.reading import DAEMON_SETS
from nodemanager.kube import errors
from nodemanager.kube.core import CONFIG_MAPS, EVENTS

_CONTAINER = {"name": "init", "image": "registry.example/vx-rail-node-init:1"}


@dataclass
class FakeDaemonSet:
    """Writes what vx-rail-node-init would, as the administrator of the namespace."""

    client: Client
    bridge: Bridge
    beats: int = 0

    async def deploy(self, name: str = "") -> None:
        """Create the DaemonSet itself, with all its pods ready."""
        assert self.bridge.daemon_set is not None
        labels = self.bridge.daemon_set.labels
        called = name or self.bridge.daemon_set.name
        spec = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [_CONTAINER]}},
        }
        obj = {"metadata": {"name": called, "labels": labels}, "spec": spec}
        await self.client.create(DAEMON_SETS.untyped(), obj, self.bridge.namespace)
        ready = {"currentNumberScheduled": 2, "desiredNumberScheduled": 2, "numberMisscheduled": 0}
        body = MergePatch({"status": {**ready, "numberReady": 2}})
        await self.client.patch(
            DAEMON_SETS.untyped(), called, self.bridge.namespace, body, subresource="status"
        )

    async def be_at(self, state: str, **more: Any) -> None:
        """Say where it is."""
        written = {"state": state, "direction": "forward", "lockHolder": "", **more}
        await self.write(json.dumps(written))

    async def write(self, text: str) -> None:
        """Write a text as its state."""
        data = {
            self.bridge.state.key: text,
            **dict.fromkeys(("storage", "network", "virtualisation"), "healthy"),
        }
        await self._put(self.bridge.state.config_map, data)

    async def live(self, *nodes: str) -> None:
        """Have these nodes give a new sign of life each, and no others any."""
        self.beats += 1
        data: dict[str, str | None] = {
            f"{self.bridge.heartbeats.key_prefix}{one}": f"2026-03-01T04:00:{self.beats:02}Z" for one in nodes
        }
        await self._put(self.bridge.heartbeats.config_map, data)

    async def warn(self, reason: str, message: str) -> None:
        """Report an Event as it does."""
        where = self.bridge.namespace
        about = {"kind": "Namespace", "name": where, "namespace": where}
        event = {
            "metadata": {"generateName": "vx-"}, "involvedObject": about, "type": "Warning",
            "reason": reason, "message": message, "source": {"component": self.bridge.component},
        }  # fmt: skip
        await self.client.create(EVENTS.untyped(), event, where)

    async def lose(self, config_map: str) -> None:
        """Delete one of its ConfigMaps."""
        await self.client.delete(CONFIG_MAPS, config_map, self.bridge.namespace)

    async def _put(self, name: str, data: dict[str, Any]) -> None:
        where = self.bridge.namespace
        try:
            await self.client.patch(CONFIG_MAPS, name, where, MergePatch({"data": data}))
        except errors.NotFound:
            await self.client.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": data}, where)
