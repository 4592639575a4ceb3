"""Sets that are rolled out in stages: which revision is for this host now, and where its content is.

The host remembers its revision, so it needs the API only for one that it does not have yet. Until
that is there it goes on with what it has, and says why. A process reads each revision once even so: what is
in memory may have been read by an older version, which did not know all that the revision says.

A set that does not say how it is rolled out may follow the default of its namespace. Once an operator has
said so in its status, it is in stages like any other. Before that, a host that would take something new of
it asks the API first: the operator may not have seen the default yet, or the set.

If sets move together, a host takes the revisions of all or of none, even if it can read only some.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from nodemanager.api.common import choosing, configsetrevision, matching, node_conditions
from nodemanager.api.common.choosing import ChangeWait, Choice, ContentSource, Peers
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.api.common.configsetrevision import BadRevision, ConfigSetRevision
from nodemanager.api.common.rollout import RevisionRef
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectMeta
from nodemanager.runtime.backoff import Backoff

log = logging.getLogger(__name__)
AGAIN: Final = Backoff(base=15.0, maximum=120.0, jitter=0.5)
"""When an unavailable revision is read again: a whole stage of hosts may lack it."""

Get = Callable[[str], Awaitable[ConfigSetRevision]]
AWAY: Final = "the API is away"  # a pass does not wait for it, and another pass comes when it is back
RIGHTS: Final = "; apply again what nodemanager rbac prints for this host"
UNDECIDED: Final = "no operator has said yet what of it is for this host; see whether a new one runs"


class _Unknown(NamedTuple):
    """Why it is unknown whether the namespace has a default."""

    why: str
    forbidden: bool = False
    """Whether the rights of this host are of a version without defaults."""


class _Read(NamedTuple):
    """The content of a revision, and the metadata of the first set with it."""

    spec: ConfigSetSpec
    written: ObjectMeta


class _Look(NamedTuple):
    """A set, and the revision that the host has of it."""

    config_set: ConfigSet
    kept: ConfigSet | None

    @property
    def name(self) -> str:
        return self.config_set.metadata.name


@dataclass(slots=True)
class StagedSets:
    """Replaces each staged set by the revision that is for this host."""

    get: Get
    """Reads a revision by name."""
    default: Callable[[], Awaitable[bool]]
    """Tells whether the namespace has a default that stages sets."""
    kept: Callable[[], Sequence[ConfigSet]] = tuple
    """The revisions that the host had last."""
    offline: Callable[[], bool] = lambda: False
    """Whether no request should be sent to the API now."""
    again: Callable[[float], None] = lambda _seconds: None
    """Asks for another look after so many seconds."""
    waits: dict[str, ChangeWait] = field(default_factory=dict)
    """Why a set does not have the content that it should have, by its name."""
    has_default: bool = False
    """Whether the namespace had a default for rollouts at the last look, as far as that look could tell."""
    _read: dict[str, _Read] = field(default_factory=dict)
    """Revisions that this process has read, by digest."""
    _lacking: bool = False
    """Whether a read failed in this look, or the operator has not decided yet."""
    _default: bool | _Unknown | None = None
    """Whether the namespace has a default, or why that is unknown; None = not asked in this look."""
    _failures: int = 0

    def kept_of(self, config_set: ConfigSet) -> ConfigSet | None:
        """Return the revision that the host has of a set; a deleted set of the same name is another set."""
        name, uid = config_set.metadata.name, config_set.metadata.uid
        kept = (one for one in self.kept() if (one.metadata.name, one.metadata.uid) == (name, uid))
        return next(kept, None)

    async def choose(self, sets: Sequence[ConfigSet], host: ObjectMeta) -> list[ConfigSet]:
        """Return the revisions that a host may have; sets for other hosts may be among them."""
        before, self.waits, self._lacking, self._default = self.waits, {}, False, None
        kept = {(one.metadata.name, one.metadata.uid): one for one in self.kept()}
        looks = [_Look(one, kept.get((one.metadata.name, one.metadata.uid))) for one in sets]
        peers, having = choosing.by_name(sets), {one.name for one in looks if one.kept is not None}
        chosen = {one.name: await self._one(one, host, peers, having) for one in looks}
        found = [self._together(one, chosen, peers) for one in looks]
        following = any(one.spec.rollout is None and choosing.in_stages(one) for one in sets)
        self.has_default = following or self._default is True
        for name, why in self.waits.items():
            if before.get(name) != why:
                log.warning("ConfigSet %s stays as it is: %s", name, why.message)
        self._forget(sets)
        self._failures = self._failures + 1 if self._lacking else 0
        if self._lacking:
            self.again(AGAIN.delay(self._failures))
        return [one for one in found if one is not None]

    async def _one(
        self, look: _Look, host: ObjectMeta, peers: Peers, having: AbstractSet[str]
    ) -> ConfigSet | None:
        (config_set, kept), name = look, look.name
        why = await self._braked(config_set, kept, host)
        if why:
            config_set = choosing.undecided(config_set)
            self._lacking |= why != AWAY
        holds = any(one.metadata.name in having for one in choosing.members_of(config_set, peers))
        choice = choosing.for_host(config_set, kept, host, peers, holds=holds)
        if choice.content is ContentSource.SPEC:
            return config_set
        if choice.content is ContentSource.HELD:
            if kept is None or why:
                said = why or UNDECIDED
                self.waits[name] = ChangeWait(node_conditions.REVISION_UNDECIDED, said, bare=kept is None)
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
        self.waits[name] = ChangeWait(node_conditions.REVISION_MISSING, why, bare=kept is None)
        return kept

    def _together(
        self, look: _Look, chosen: Mapping[str, ConfigSet | None], peers: Peers
    ) -> ConfigSet | None:
        """Return what a host takes of a set: what it has, if it lacks something that moves with it."""
        found, name = chosen[look.name], look.name
        if _digest(found) == _digest(look.kept):
            return found
        lacks = [one.metadata.name for one in choosing.members_of(look.config_set, peers)]
        lacks = [one for one in lacks if self._misses(one)]
        if not lacks:
            return found
        if not self._misses(name):
            why = f"it moves together with {lacks[0]}, of which {self.waits[lacks[0]].message}"
            bare = look.kept is None
            self.waits[name] = ChangeWait(node_conditions.REVISION_MISSING, why, bare=bare)
        return look.kept

    def _misses(self, name: str) -> bool:
        """Tell whether a revision of a set could not be read in this look."""
        wait = self.waits.get(name)
        return wait is not None and wait.code == node_conditions.REVISION_MISSING

    async def _braked(self, config_set: ConfigSet, kept: ConfigSet | None, host: ObjectMeta) -> str:
        """Return why a set without a declared rollout is not taken as it is; empty = it is."""
        if config_set.spec.rollout is not None or choosing.in_stages(config_set):
            return ""
        if kept is None:
            is_news = matching.matches(config_set, host.labels)
        else:
            is_news = not choosing.has_same(config_set, kept)
        if not is_news:
            return ""
        if self._default is None:
            self._default = await self._ask()
        if isinstance(self._default, _Unknown):
            # A host that cannot ask follows the operator; one that never could, and knows of no default, goes
            # on as before.
            alone = self._default.forbidden and config_set.status.rollout is None
            return "" if alone or choosing.is_for_all(config_set) else self._default.why
        return UNDECIDED if self._default else ""

    async def _ask(self) -> bool | _Unknown:
        """Ask the API now: an answer from before the set changed proves nothing."""
        if self.offline():
            return _Unknown(AWAY)
        try:
            return await self.default()
        except errors.KubeError as error:
            forbidden = isinstance(error, errors.Forbidden)
            said = f"nobody knows whether the namespace has a default for rollouts: {error}"
            return _Unknown(said + RIGHTS if forbidden else said, forbidden)

    async def _content(self, revision: RevisionRef, *, needed: bool) -> _Read | str:
        """Return what a revision says, or why it cannot be had; only who needs it asks again soon."""
        if (known := self._read.get(revision.digest)) is not None:
            return known
        if self.offline():
            return AWAY
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
        """Forget revisions that no set names any more."""
        published = [one.status.rollout for one in sets if one.status.rollout is not None]
        named = {ref.digest for one in published for ref in (one.stable, one.next) if ref is not None}
        self._read = {digest: one for digest, one in self._read.items() if digest in named}


def _digest(config_set: ConfigSet | None) -> str:
    return choosing.applied(config_set).digest if config_set is not None else ""


def _is_older(
    found: _Read, revision: RevisionRef, config_set: ConfigSet, kept: ConfigSet, choice: Choice
) -> bool:
    """Tell whether a revision is not newer than what a host has from the spec, and says something else."""
    if not choosing.may_be_ahead(config_set, kept, choice):
        return False
    if found.written.generation > kept.metadata.generation:
        return False  # the host was away when that revision was rolled out
    same = configsetrevision.same_content(kept.spec, found.spec)
    return not same or kept.metadata.labels != revision.labels
