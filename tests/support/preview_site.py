"""A namespace with the real operator and real agents of folders, for previews of what is only proposed."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nodemanager.api import kinds
from nodemanager.api.common import node_conditions
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly, liveness, node_tasks, previews
from nodemanager.controllers.assembly import Dependencies
from nodemanager.host.process import runner
from nodemanager.kube import conditions, core, manifests
from nodemanager.runtime.metrics import Registry
from support import cli, running, whole_server
from support.accounts import operating
from support.clients import connected
from support.either import Place

PATIENCE = 60.0
STATE = "var/lib/nodemanager"
"""Where agents write down tasks before they begin: all that changes on a host that is asked."""
Snapshot = dict[str, tuple[int, int, int]]


@dataclass
class PreviewSite:
    """All of it, and what tests ask about it."""

    place: Place
    client: Client
    folder: Path
    roots: dict[str, Path] = field(default_factory=dict)

    async def host(self, name: str, **labels: str) -> Path:
        """Make a host that is a folder, and its ManagedNode."""
        meta = {"name": name, "labels": labels}
        await self.client.create(MANAGED_NODES, {"metadata": meta}, self.place.namespace)
        root = self.folder / "hosts" / name
        (root / "etc").mkdir(parents=True)
        self.roots[name] = root
        return root

    async def declare(self, *sets: dict[str, Any]) -> None:
        for one in sets:
            await self.client.create(CONFIG_SETS, one, self.place.namespace)

    @contextlib.asynccontextmanager
    async def agents(self) -> AsyncIterator[None]:
        """Run the agents of all hosts, and wait until each has what is declared."""
        async with contextlib.AsyncExitStack() as stack:
            for name, root in self.roots.items():
                await stack.enter_async_context(self._agent(name, root))
            await self._settled(self.roots)
            yield

    @contextlib.asynccontextmanager
    async def _agent(self, name: str, root: Path) -> AsyncIterator[None]:
        async with (
            connected(whole_server.load(self.place.kubeconfig)) as client,
            running.agent(client, self.place.namespace, root, name),
        ):
            yield

    async def _settled(self, names: Iterable[str]) -> None:
        async with asyncio.timeout(PATIENCE):
            for name in names:
                while not _is_settled(  # noqa: ASYNC110
                    await self.client.get(MANAGED_NODES, name, self.place.namespace)
                ):
                    await asyncio.sleep(0.05)

    @contextlib.asynccontextmanager
    async def operator(self) -> AsyncIterator[None]:
        """Run the part of the operator that this needs."""
        entries = (liveness.REGISTRATION, node_tasks.REGISTRATION, previews.REGISTRATION)
        async with operating(self.place) as own:
            given = Dependencies(own, self.place.namespace, Registry(), runner.companion, leader_elect=False)
            manager = assembly.assemble(given, entries).manager
            async with running.operator(manager):
                yield

    async def plan(self, proposed: list[dict[str, Any]], *args: str, kubeconfig: str = "") -> cli.Ran:
        """Run `plan --fleet` with manifests."""
        file = self.folder / "proposed" / "sets.yaml"
        file.parent.mkdir(exist_ok=True)
        whole = [{"apiVersion": CONFIG_SETS.api_version, "kind": CONFIG_SETS.kind, **one} for one in proposed]
        file.write_text(manifests.dump(whole))
        return await asyncio.to_thread(
            cli.run, "plan", "--fleet", "-f", str(file.parent), "-n", self.place.namespace, "--kubeconfig",
            kubeconfig or str(self.place.kubeconfig), *args,
        )  # fmt: skip

    def snapshot(self) -> Snapshot:
        """Return inode, mtime and mode of everything below all roots, but for the agents' own notes."""
        found: Snapshot = {}
        for root in self.roots.values():
            for folder, folders, files in os.walk(root):
                folders[:] = [one for one in folders if os.path.relpath(f"{folder}/{one}", root) != STATE]
                for name in (".", *folders, *files):
                    path = f"{folder}/{name}"
                    about = os.lstat(path)
                    found[path] = about.st_ino, about.st_mtime_ns, about.st_mode
        return found


async def everything(client: Client, namespace: str) -> str:
    """Return all objects of a namespace that may tell something, as text, but for Secrets."""
    resources = [
        *(kind.resource for kind in kinds.KINDS),
        core.EVENTS,
        core.CONFIG_MAPS,
        core.ROLES,
        core.LEASES,
    ]
    pages = [await client.list(one.untyped(), Selection(namespace)) for one in resources]
    return "\n".join(str(obj) for page in pages for obj in page.items)


def _is_settled(node: ManagedNode) -> bool:
    said = node.status.conditions
    return conditions.is_true(said, conditions.READY) and conditions.is_true(said, node_conditions.ALIVE)


@contextlib.asynccontextmanager
async def preview_site(place: Place, folder: Path) -> AsyncIterator[PreviewSite]:
    async with connected(whole_server.load(place.kubeconfig)) as client:
        yield PreviewSite(place, client, folder)
