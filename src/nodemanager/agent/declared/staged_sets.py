"""Sets that are rolled out in stages: what of each is for this host now, and where its content is.

What the host has is in its memory, so it needs the API only for a revision that it has not got yet. Until
that is there it goes on with what it has, and says why. A process reads each revision once even so: what is
in memory may have been read by an older version, which did not know all that the revision says.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from nodemanager.api.common import choosing, configsetrevision, node_conditions
from nodemanager.api.common.choosing import Choice, Content, Wait
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.api.common.configsetrevision import BadRevision, ConfigSetRevision
from nodemanager.api.common.rollout import RevisionRef, is_staged
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectMeta
from nodemanager.runtime.backoff import Backoff

log = logging.getLogger(__name__)
AGAIN: Final = Backoff(base=15.0, maximum=120.0, jitter=0.5)
"""When a revision that could not be had is asked for again: a whole stage of hosts may lack it."""

Get = Callable[[str], Awaitable[ConfigSetRevision]]


class _Read(NamedTuple):
    """What a revision says, and the metadata of what said so first."""

    spec: ConfigSetSpec
    written: ObjectMeta


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
    waits: dict[str, Wait] = field(default_factory=dict)
    """Why a set is not what it shall be, by its name."""
    _read: dict[str, _Read] = field(default_factory=dict)
    """Revisions that this process has read, by digest."""
    _lacking: bool = False
    """A revision could not be read in this look."""
    _failures: int = 0

    def kept_of(self, config_set: ConfigSet) -> ConfigSet | None:
        """Return what the host has of a set; one of the same name that was deleted is another set."""
        name, uid = config_set.metadata.name, config_set.metadata.uid
        kept = (one for one in self.kept() if (one.metadata.name, one.metadata.uid) == (name, uid))
        return next(kept, None)

    async def choose(self, sets: Sequence[ConfigSet], host: ObjectMeta) -> list[ConfigSet]:
        """Return the sets as they are for a host; what is not for it at all may be among them."""
        before, self.waits, self._lacking = self.waits, {}, False
        if not any(is_staged(one.spec.rollout) for one in sets):
            self._read = {}
            return list(sets)
        found = [await self._one(one, self.kept_of(one), host) for one in sets]
        for name, why in self.waits.items():
            if before.get(name) != why:
                log.warning("ConfigSet %s stays as it is: %s", name, why.message)
        self._forget(sets)
        self._failures = self._failures + 1 if self._lacking else 0
        if self._lacking:
            self.again(AGAIN.delay(self._failures))
        return [one for one in found if one is not None]

    async def _one(self, config_set: ConfigSet, kept: ConfigSet | None, host: ObjectMeta) -> ConfigSet | None:
        choice, name = choosing.for_host(config_set, kept, host), config_set.metadata.name
        if choice.content is Content.SPEC:
            return config_set
        if choice.content is Content.HELD:
            if kept is None:
                why = "no operator has said yet what of it is for this host; see whether a new one runs"
                self.waits[name] = Wait(node_conditions.REVISION_UNDECIDED, why, bare=True)
            return kept
        if (revision := choice.revision) is None:
            return None
        has_it = kept is not None and choosing.applied(kept).digest == revision.digest
        found = await self._content(revision, needed=not has_it)
        if isinstance(found, _Read):
            if kept is not None and _is_older(found, revision, config_set, kept, choice):
                return kept
            written = kept.metadata if kept is not None and has_it else found.written
            return choosing.in_force(config_set, revision, found.spec, written)
        if kept is not None and has_it:
            log.info("ConfigSet %s is as it was read before: %s", name, found)
            return choosing.in_force(config_set, revision, kept.spec, kept.metadata)
        why = f"revision {revision.revision} is not there yet: {found}"
        self.waits[name] = Wait(node_conditions.REVISION_MISSING, why, bare=kept is None)
        return kept

    async def _content(self, revision: RevisionRef, *, needed: bool) -> _Read | str:
        """Return what a revision says, or why it cannot be had; only who needs it asks again soon."""
        if (known := self._read.get(revision.digest)) is not None:
            return known
        if self.offline():
            return "the API is away"  # a pass does not wait for it, and there is one when it is back
        try:
            found = await self.get(revision.name)
            spec = configsetrevision.spec_of(found, revision.digest)
        except (errors.KubeError, BadRevision) as error:
            self._lacking |= needed
            return str(error)
        written = msgspec.structs.replace(found.metadata, generation=found.spec.generation)
        self._read[revision.digest] = read = _Read(spec, written)
        return read

    def _forget(self, sets: Sequence[ConfigSet]) -> None:
        """Forget what no set names any more."""
        published = [one.status.rollout for one in sets if one.status.rollout is not None]
        named = {ref.digest for one in published for ref in (one.stable, one.next) if ref is not None}
        self._read = {digest: one for digest, one in self._read.items() if digest in named}


def _is_older(
    found: _Read, revision: RevisionRef, config_set: ConfigSet, kept: ConfigSet, choice: Choice
) -> bool:
    """Tell whether a revision is not newer than what a host has from the spec, and says something else."""
    if not choosing.may_be_ahead(config_set, kept, choice):
        return False
    if found.written.generation > kept.metadata.generation:
        return False  # the host was away when that was rolled out
    same = configsetrevision.same_content(kept.spec, found.spec)
    return not same or kept.metadata.labels != revision.labels
