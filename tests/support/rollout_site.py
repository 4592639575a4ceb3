"""An embedded API, the operator's part for rollouts, hosts that only report, and agents of folders."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from nodemanager.api.common import choosing
from nodemanager.api.common.choosing import ContentSource
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS, ConfigSetRevision
from nodemanager.api.common.managednode import MANAGED_NODES, AppliedConfigSet, ManagedNode
from nodemanager.api.common.node_conditions import ALIVE
from nodemanager.api.common.rollout import RevisionRef, RolloutStatus
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import Transport
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly, rollouts
from nodemanager.controllers.assembly import Dependencies
from nodemanager.controllers.registration import Entry
from nodemanager.host.process import runner
from nodemanager.kube import errors, times
from nodemanager.runtime.metrics import Registry
from support import running, whole_server
from support.accounts import operator_of
from support.clients import connected
from support.either import NAMESPACES, Place
from support.exposure import Exposure, Moves
from support.maintenance_site import Mortal, site_at
from support.tcp_proxy import TcpProxy, proxy

NAMESPACE = "nodemanager"
PATIENCE = 60.0
LABELS = {"role": "web"}


@dataclass
class RolloutSite:
    """All of it, and what tests ask about it."""

    client: Client
    config: ClientConfig
    kubeconfig: Path
    namespace: str = NAMESPACE
    own: ClientConfig | None = None
    """How the operator connects; None = as its account, by the word of the administrator."""
    broken: set[int] = field(default_factory=set)
    """Revisions, by number, with which hosts that only report fail."""
    hung: set[int] = field(default_factory=set)
    """Those with which they never come to an end."""
    seen: dict[str, list[int]] = field(default_factory=dict)
    """Revisions that such a host ever had."""
    moves: Moves = field(default_factory=Moves)
    """Which of them took which revision, and when; 0 = none."""
    silent: set[str] = field(default_factory=set)
    link: TcpProxy | None = None
    """What the operator, and hosts that only report, have between them and the API."""

    async def declare(self, name: str, content: str, *more: dict[str, Any], **rollout: Any) -> None:
        """Make a set that is rolled out in stages, or change what it declares."""
        files = [{"path": "/motd", "content": content}, *more]
        spec: dict[str, Any] = {"files": files}
        if rollout:
            spec["rollout"] = {"strategy": "Staged", **rollout}
            body = {"metadata": {"name": name, "labels": LABELS}, "spec": spec}
            await self.client.create(CONFIG_SETS, body, self.namespace)
        else:
            await self.client.patch(CONFIG_SETS, name, self.namespace, MergePatch({"spec": spec}))

    async def config_set(self, name: str) -> ConfigSet:
        return await self.client.get(CONFIG_SETS, name, self.namespace)

    async def revisions(self, name: str) -> list[ConfigSetRevision]:
        found = (await self.client.list(CONFIG_SET_REVISIONS, Selection(self.namespace))).items
        return sorted(
            (one for one in found if one.spec.config_set == name), key=lambda one: one.spec.revision
        )

    async def node(self, name: str) -> ManagedNode:
        return await self.client.get(MANAGED_NODES, name, self.namespace)

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
            await self.client.create(MANAGED_NODES, {"metadata": meta}, self.namespace)
            self.seen[name] = []

    async def hush(self, *names: str) -> None:
        """Have only these hosts be silent."""
        for name in {*names} ^ self.silent:
            alive = "False" if name in names else "True"
            said = {
                "type": ALIVE,
                "status": alive,
                "reason": "Told",
                "lastTransitionTime": _stamp(),
                "message": "",
            }
            await self._say(name, conditions=[said])
        self.silent = {*names}

    async def report(self, config_set: ConfigSet) -> None:
        """Have every such host that is heard take what is its own, and say so."""
        if self.link is not None and not self.link.open:
            return
        for node in (await self.client.list(MANAGED_NODES, Selection(self.namespace))).items:
            name = node.metadata.name
            choice = choosing.chosen(config_set, node.metadata)
            if name not in self.seen or name in self.silent or choice.content is not ContentSource.REVISION:
                continue
            ref = choice.revision or RevisionRef()
            said = [
                AppliedConfigSet(
                    name=config_set.metadata.name,
                    observed_generation=config_set.metadata.generation,
                    revision=ref.revision,
                    digest=ref.digest,
                    error="it failed" if ref.revision in self.broken else "",
                    waiting="something runs" if ref.revision in self.hung else "",
                )
            ]
            if choice.revision is None:
                said = []
            last = [one for one in node.status.configsets if one.name == config_set.metadata.name]
            if [_told(one) for one in last] == [_told(one) for one in said]:
                continue
            if [one.digest for one in last] != [one.digest for one in said]:
                self.moves.took(name, ref.revision, asyncio.get_running_loop().time())
                self.seen[name] += [ref.revision] if said else []
            await self._say(name, release="6.1", configsets=msgspec.to_builtins(said))

    def exposure(self, revision: int) -> Exposure:
        """Return who ever had a revision, and how long those did that have it no more."""
        return self.moves.exposure(revision)

    async def _say(self, name: str, **status: Any) -> None:
        patch = MergePatch({"status": status})
        await self.client.patch(MANAGED_NODES, name, self.namespace, patch, subresource="status")

    # Agents of folders

    @contextlib.asynccontextmanager
    async def agent(
        self, root: Path, name: str, server: str = "", *, realtime: bool = False
    ) -> AsyncIterator[None]:
        """Run the agent of a folder."""
        config = ClientConfig(server) if server else self.config
        async with (
            connected(config) as client,
            running.agent(client, self.namespace, root, name, realtime=realtime),
        ):
            yield

    # The operator

    @contextlib.asynccontextmanager
    async def operator(
        self, kill_at: int = 0, *, after: bool = True, entries: Sequence[Entry] = (rollouts.REGISTRATION,)
    ) -> AsyncIterator[Mortal]:
        """Run the operator, or some entries of it, until the end of the block, or until it is killed."""
        mortals: list[Mortal] = []

        def wrap(inner: Transport) -> Transport:
            mortals.append(Mortal(inner, kill_at, after))
            return mortals[0]

        config = self.own or operator_of(self.config, self.namespace)
        if self.link is not None:
            config = replace(config, server=f"https://127.0.0.1:{self.link.port}")
        async with connected(config) as own:
            given = Dependencies(
                own.through(wrap), self.namespace, Registry(), runner.companion, leader_elect=False
            )
            manager = assembly.assemble(given, entries).manager
            async with running.operator(manager, mortals[0].dead.is_set):
                yield mortals[0]


class Folders:
    """What is on hosts that are folders."""

    def __init__(self, folder: Path, hosts: Sequence[str]) -> None:
        self.roots = {host: folder / host for host in hosts}
        for root in self.roots.values():
            root.mkdir(parents=True)

    def has(self, host: str) -> str:
        """Return what is on a host; empty = nothing."""
        with contextlib.suppress(FileNotFoundError):
            return (self.roots[host] / "motd").read_text()
        return ""

    def said(self) -> dict[str, str]:
        return {host: self.has(host) for host in self.roots}

    async def until(self, *said: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while tuple(self.said().values()) != said:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def rollout_site(folder: Path) -> AsyncIterator[RolloutSite]:
    """An API with nothing in it but our kinds and policies."""
    async with whole_server.serving(folder) as (config, path), connected(config) as client:
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        yield RolloutSite(client, config, path)


@contextlib.asynccontextmanager
async def rollout_site_at(place: Place) -> AsyncIterator[RolloutSite]:
    """A namespace of one of the servers, with a link to it that can be cut."""
    async with site_at(place, disruptive=False) as site:
        server = urlsplit(site.own.server)
        assert server.hostname is not None
        assert server.port is not None
        async with proxy(server.hostname, server.port) as link:
            config = whole_server.load(place.kubeconfig)
            yield RolloutSite(site.client, config, place.kubeconfig, place.namespace, site.own, link=link)


def _told(report: AppliedConfigSet) -> tuple[object, ...]:
    return report.digest, report.error, report.waiting


def _stamp() -> str:
    return times.rfc3339(datetime.now(UTC))
