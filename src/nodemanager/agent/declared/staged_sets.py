"""Sets that are rolled out in stages: what of each is for this host now, and where its content is.

What the host has is in its memory, so it needs the API only for a revision that it has not got yet. Until
that is there it goes on with what it has, and says why.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from nodemanager.api.common import choosing, configsetrevision
from nodemanager.api.common.choosing import Content
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetrevision import BadRevision, ConfigSetRevision
from nodemanager.api.common.rollout import RevisionRef, is_staged
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectMeta

log = logging.getLogger(__name__)
AGAIN_SECONDS: Final = 15.0
"""A revision that could not be had is asked for again after so long."""

Get = Callable[[str], Awaitable[ConfigSetRevision]]


@dataclass(slots=True)
class StagedSets:
    """Puts the revision that is for this host in the place of each set that is rolled out in stages."""

    get: Get
    """Reads a revision by name."""
    kept: Callable[[], Sequence[ConfigSet]] = tuple
    """What the host had last."""
    offline: Callable[[], bool] = lambda: False
    """Whether the API is not to be asked for anything now."""
    again: Callable[[float], None] = lambda _seconds: None
    """Asks for another look after so many seconds."""
    waits: dict[str, str] = field(default_factory=dict)
    """Why a set is not what it shall be, by its name."""

    async def choose(self, sets: Sequence[ConfigSet], host: ObjectMeta) -> list[ConfigSet]:
        """Return the sets as they are for a host; what is not for it at all may be among them."""
        if not any(is_staged(one.spec.rollout) for one in sets):
            self.waits = {}
            return list(sets)
        kept = {(one.metadata.name, one.metadata.uid): one for one in self.kept()}
        before, self.waits = self.waits, {}
        found = [await self._one(one, kept.get((one.metadata.name, one.metadata.uid)), host) for one in sets]
        for name, why in self.waits.items():
            if before.get(name) != why:
                log.warning("ConfigSet %s stays as it is: %s", name, why)
        if self.waits:
            self.again(AGAIN_SECONDS)
        return [one for one in found if one is not None]

    async def _one(self, config_set: ConfigSet, kept: ConfigSet | None, host: ObjectMeta) -> ConfigSet | None:
        choice = choosing.chosen(config_set, host)
        if choice.content is Content.SPEC:
            return config_set
        if choice.content is Content.HELD and kept is not None:
            return kept
        revision = choice.revision
        if revision is None or not choosing.is_meant(revision, host.labels):
            return None
        if kept is not None and choosing.applied(kept).digest == revision.digest:
            return choosing.in_force(config_set, revision, kept.spec, kept.metadata)
        why = "the API is away"
        if not self.offline():  # a pass does not wait for what will not answer
            try:
                return await self._fetched(config_set, revision)
            except (errors.KubeError, BadRevision) as error:
                why = str(error)
        self.waits[config_set.metadata.name] = f"revision {revision.revision} is not there yet: {why}"
        return kept

    async def _fetched(self, config_set: ConfigSet, revision: RevisionRef) -> ConfigSet:
        found = await self.get(revision.name)
        spec = configsetrevision.spec_of(found, revision.digest)
        written = msgspec.structs.replace(found.metadata, generation=found.spec.generation)
        return choosing.in_force(config_set, revision, spec, written)
