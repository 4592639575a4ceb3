"""The source of declarations: the API, or the memory of the host until the API has answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nodemanager.agent.declared import foreign_sets
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.foreign_sets import ForeignSet
from nodemanager.agent.declared.memory import InputsMemory
from nodemanager.agent.declared.references import FIRST_READ, ReferenceWatch
from nodemanager.agent.link.api_reachability import ApiReachability
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.kube.objects import key_of
from nodemanager.plan.templates import References
from nodemanager.runtime.cache import Cache

LIST_SECONDS = 10.0
"""Seconds for the lists of an API that answers, before a host with enough memory goes on without them."""


@dataclass(slots=True)
class DeclaredSources:
    """Everything that can say what the wanted state of a host is."""

    config_sets: Cache[ConfigSet]
    nodes: Cache[ManagedNode]
    references: ReferenceWatch
    memory: InputsMemory
    reachability: ApiReachability

    @property
    def live(self) -> bool:
        """Whether the API has reported everything once; from then on, its last report counts."""
        return self.config_sets.has_synced and self.nodes.has_synced

    def inputs(self) -> DeclaredInputs:
        """Return the inputs of the wanted state now."""
        inputs = known = self.memory.inputs()
        if self.live:
            inputs = DeclaredInputs(
                tuple(self.config_sets.values()),
                tuple(self.nodes.values()),
                self.references.secrets(known.secrets),
                self.references.config_maps(known.config_maps),
            )
        withheld = self.reachability.withheld()
        return replace(inputs, secrets={}, withheld=withheld) if withheld else inputs

    async def complete(self, labels: Mapping[str, str]) -> None:
        """Read completely all sets for a host with these labels, and trim the others; raises KubeError.

        A set that cannot be decoded any more stays trimmed, as if the host had never read it.
        """
        if not self.live:
            return
        self.config_sets.trim_by(partial(foreign_sets.trimmed, labels=labels))
        for one in self.config_sets.values():
            key = key_of(one)
            lacks = isinstance(one, ForeignSet) and foreign_sets.concerns(one, labels)
            if lacks and key not in self.config_sets.malformed:
                await self.config_sets.read_whole(key)

    async def follow(self, needed: References) -> None:
        """Watch what templates read; objects that the API cannot be asked for now are not waited for.

        Secrets that are not to be used any more are not watched either, so what the API told is forgotten.
        """
        if self.reachability.withheld():
            needed = replace(needed, secrets=())
        await self.references.follow(
            needed, FIRST_READ if self.live and not self.reachability.offline else 0.0
        )


@dataclass(frozen=True, slots=True)
class OptionalCache:
    """A cache as a part of the agent: a host that remembers enough does not wait for it."""

    cache: Cache[Any]
    sources: DeclaredSources

    @property
    def name(self) -> str:
        """The name of the cache."""
        return self.cache.name

    async def run(self) -> None:
        """Follow the server until cancelled."""
        await self.cache.run()

    async def synced(self) -> None:
        """Wait until the cache is complete, or until it is clear that the host goes on without it."""
        if self.sources.memory.node is None:
            await self.cache.synced()
            return
        await self.sources.reachability.first_answer()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0 if self.sources.reachability.offline else LIST_SECONDS):
                await self.cache.synced()
