"""Folders with an agent each, an operator that is a process, and what files of the folders say of a rollout.

Agents and the operator reach the API by a link that can be cut; who looks at it from outside does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nodemanager.api.common import node_conditions
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.common.rollout import STABLE
from nodemanager.client.auth import host_kubeconfig
from nodemanager.client.patches import MergePatch
from nodemanager.client.subresources import request_token
from nodemanager.kube import conditions
from support import folder_host, operator_process
from support.either import Place
from support.exposure import Exposure, HostWatch
from support.rollout_site import LABELS, PATIENCE, Folders, RolloutSite, rollout_site_at
from support.tcp_proxy import TcpProxy

BUCKET = "var/lib/nodemanager/filebucket"
CANARY = "h00"


@dataclass
class RolloutFleet:
    """All of it, and what tests do to it and ask about it."""

    site: RolloutSite
    link: TcpProxy
    folder: Path
    kubeconfig: Path
    """With which the operator connects."""
    folders: Folders
    watch: HostWatch
    _agents: dict[str, contextlib.AsyncExitStack] = field(default_factory=dict)
    _operator: subprocess.Popen[bytes] | None = None

    # What happens

    async def start(self, *hosts: str) -> None:
        """Start agents."""
        for host in hosts:
            self._agents[host] = contextlib.AsyncExitStack()
            agent = self.site.agent(self.roots[host], host, realtime=True)
            await self._agents[host].enter_async_context(agent)

    async def stop(self, *hosts: str) -> None:
        """End agents, all at once."""
        await asyncio.gather(*(self._agents.pop(host).aclose() for host in hosts))

    def operate(self) -> None:
        """Start the operator."""
        self._operator = operator_process.start(
            self.kubeconfig, self.site.namespace, self.folder / "operator.log"
        )

    def kill(self) -> None:
        """Kill the operator, wherever it is."""
        if self._operator is not None:
            self._operator.kill()
            self._operator.wait(PATIENCE)
            self._operator = None

    async def change(self, content: str, *files: dict[str, Any], **spec: Any) -> None:
        """Change what the set declares."""
        said = [{"path": "/motd", "content": content}, *files]
        patch = MergePatch({"spec": {"executions": None, **spec, "files": said}})
        await self.site.client.patch(CONFIG_SETS, "web", self.site.namespace, patch)

    async def end(self) -> None:
        """End everything."""
        self.kill()
        await self.stop(*self._agents)

    # What is

    @property
    def roots(self) -> dict[str, Path]:
        return self.folders.roots

    def said(self) -> dict[str, str]:
        """Return what is on each host."""
        return self.folders.said()

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait for something on the hosts."""
        async with asyncio.timeout(PATIENCE):
            while not holds():  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def silent(self, hosts: Iterable[str]) -> None:
        """Wait until exactly these hosts are silent to the operator, and all others alive."""
        wanted = set(hosts)
        async with asyncio.timeout(PATIENCE):
            while True:
                alive = {host for host in self.roots if await self._is_alive(host)}
                if alive == set(self.roots) - wanted:
                    return
                await asyncio.sleep(0.1)

    async def _is_alive(self, host: str) -> bool:
        node = await self.site.node(host)
        return conditions.is_true(node.status.conditions, node_conditions.ALIVE)

    def exposure(self, content: str) -> Exposure:
        """Return who ever had a content, as it was seen; the backups of who has it no more have to agree."""
        found = self.watch.moves.exposure(content)
        digest = hashlib.sha256(content.encode()).hexdigest()
        place = f"{BUCKET}/{digest[:2]}/{digest[2:4]}/{digest[4:]}"
        kept = {host for host, root in self.roots.items() if (root / place).exists()}
        has = {host for host, said in self.said().items() if said == content}
        assert found.hosts == kept | has
        return found


@contextlib.asynccontextmanager
async def rollout_fleet(place: Place, folder: Path, count: int) -> AsyncIterator[RolloutFleet]:
    """So many hosts, all of which have the first revision of a set; the first one is its canary."""
    folders = Folders(folder / "hosts", [f"h{number:02}" for number in range(count)])
    roots = folders.roots
    async with rollout_site_at(place) as site:
        assert site.link is not None
        site.config = replace(site.config, server=f"https://127.0.0.1:{site.link.port}")
        issued = await request_token(site.client, "nodemanager-operator", place.namespace, seconds=3600)
        kubeconfig = folder / "operator.kubeconfig"
        kubeconfig.write_bytes(
            host_kubeconfig.kubeconfig(site.config, "operator", place.namespace, issued.token)
        )
        for host, root in roots.items():
            folder_host.furnish(root)
            labels = {**LABELS, **({"canary": "true"} if host == CANARY else {})}
            meta = {"name": host, "labels": labels}
            await site.client.create(MANAGED_NODES, {"metadata": meta}, place.namespace)
        watch = HostWatch(roots, folders.has)
        fleet = RolloutFleet(site, site.link, folder, kubeconfig, folders, watch)
        try:
            with watch.looking():
                fleet.operate()
                await fleet.start(*roots)
                await site.declare("web", "one", stages=["100%"], soak="0")
                await site.until("web", lambda status: status.phase == STABLE)
                await fleet.until(lambda: set(fleet.said().values()) == {"one"})
                yield fleet
        finally:
            await fleet.end()
