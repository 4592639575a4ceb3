"""An embedded API, the operator's part for rollouts, hosts that only report, and agents of folders."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nodemanager.agent import service
from nodemanager.agent.assembly import HostSetup
from nodemanager.agent.options import AgentOptions
from nodemanager.api.common import choosing
from nodemanager.api.common.choosing import Content
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS, ConfigSetRevision
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.common.rollout import RolloutStatus
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import Transport
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly, rollouts
from nodemanager.controllers.assembly import Dependencies
from nodemanager.host.process import runner
from nodemanager.kube import errors
from nodemanager.runtime.metrics import Registry
from support import whole_server
from support.accounts import operator_of
from support.clients import connected
from support.either import NAMESPACES
from support.maintenance_site import Mortal
from support.scripted_server import until

NAMESPACE = "nodemanager"
PATIENCE = 60.0
LABELS = {"role": "web"}


@dataclass
class RolloutSite:
    """All of it, and what tests ask about it."""

    client: Client
    config: ClientConfig
    kubeconfig: Path
    broken: set[int] = field(default_factory=set)
    """Revisions, by number, with which hosts that only report fail."""
    seen: dict[str, list[int]] = field(default_factory=dict)
    """Revisions that such a host ever had."""

    async def declare(self, name: str, content: str, *more: dict[str, Any], **rollout: Any) -> None:
        """Make a set that is rolled out in stages, or change what it declares."""
        files = [{"path": "/motd", "content": content}, *more]
        spec: dict[str, Any] = {"files": files}
        if rollout:
            spec["rollout"] = {"strategy": "Staged", **rollout}
            body = {"metadata": {"name": name, "labels": LABELS}, "spec": spec}
            await self.client.create(CONFIG_SETS, body, NAMESPACE)
        else:
            await self.client.patch(CONFIG_SETS, name, NAMESPACE, MergePatch({"spec": spec}))

    async def config_set(self, name: str) -> ConfigSet:
        return await self.client.get(CONFIG_SETS, name, NAMESPACE)

    async def revisions(self, name: str) -> list[ConfigSetRevision]:
        found = (await self.client.list(CONFIG_SET_REVISIONS, Selection(NAMESPACE))).items
        return sorted(
            (one for one in found if one.spec.config_set == name), key=lambda one: one.spec.revision
        )

    async def node(self, name: str) -> ManagedNode:
        return await self.client.get(MANAGED_NODES, name, NAMESPACE)

    async def until(self, name: str, holds: Callable[[RolloutStatus], object]) -> RolloutStatus:
        """Wait until the rollout of a set is so far; hosts that only report do so meanwhile."""
        status = RolloutStatus()
        try:
            async with asyncio.timeout(PATIENCE):
                while not holds(status):
                    config_set = await self.config_set(name)
                    await self.report(config_set)
                    status = config_set.status.rollout or status
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"never came true; the last status is {status}") from None
        return status

    # Hosts that only report

    async def join(self, *names: str, **labels: str) -> None:
        """Have hosts join that have no agent but `report`."""
        for name in names:
            meta = {"name": name, "labels": {**LABELS, **labels}}
            await self.client.create(MANAGED_NODES, {"metadata": meta}, NAMESPACE)
            self.seen[name] = []

    async def report(self, config_set: ConfigSet) -> None:
        """Have every such host take what is its own, and say so."""
        for name, seen in self.seen.items():
            node = await self.node(name)
            choice = choosing.chosen(config_set, node.metadata)
            if choice.content is not Content.REVISION:
                continue
            ref, report = choice.revision, {}
            if ref is not None:
                error = {"error": "it failed"} if ref.revision in self.broken else {}
                report = {
                    "name": config_set.metadata.name, "revision": ref.revision, "digest": ref.digest, **error
                }  # fmt: skip
            last = [one for one in node.status.configsets if one.name == config_set.metadata.name]
            if [(one.digest, one.error) for one in last] == (
                [(report["digest"], report.get("error", ""))] if report else []
            ):
                continue
            if ref is not None:
                seen.append(ref.revision)
            status = {"release": "6.1", "configsets": [report] if report else []}
            patch = MergePatch({"status": status})
            await self.client.patch(MANAGED_NODES, name, NAMESPACE, patch, subresource="status")

    # Agents of folders

    @contextlib.asynccontextmanager
    async def agent(self, root: Path, name: str, server: str = "") -> AsyncIterator[None]:
        """Run the agent of a folder."""
        config = ClientConfig(server) if server else self.config
        async with connected(config) as client:
            options = AgentOptions(NAMESPACE, HostSetup(str(root), name), "0", "0", realtime=False)
            agent = service.build(client, options, Registry())
            running = asyncio.create_task(agent.manager.run())
            try:
                yield
            finally:
                agent.manager.stop("the test is over")
                await asyncio.wait({running})
                agent.close()
                running.result()

    # The operator

    @contextlib.asynccontextmanager
    async def operator(self, kill_at: int = 0, *, after: bool = True) -> AsyncIterator[Mortal]:
        """Run the operator until the end of the block, or until it is killed."""
        mortals: list[Mortal] = []

        def wrap(inner: Transport) -> Transport:
            mortals.append(Mortal(inner, kill_at, after))
            return mortals[0]

        async with connected(operator_of(self.config, NAMESPACE)) as own:
            given = Dependencies(
                own.through(wrap), NAMESPACE, Registry(), runner.companion, leader_elect=False
            )
            manager = assembly.assemble(given, (rollouts.REGISTRATION,)).manager
            running = asyncio.create_task(manager.run())
            try:
                await until(lambda: running.done() or manager.not_ready() is None)
                yield mortals[0]
            finally:
                manager.stop("the test is over")
                await asyncio.wait({running})
                if not mortals[0].dead.is_set():
                    running.result()


@contextlib.asynccontextmanager
async def rollout_site(folder: Path) -> AsyncIterator[RolloutSite]:
    """An API with nothing in it but our kinds and policies."""
    async with whole_server.serving(folder) as (config, path), connected(config) as client:
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        yield RolloutSite(client, config, path)
