"""Which ConfigSets exist and which were deleted, as far as a host that has parts of them can believe the API.

A list that failed proves nothing. The agent believes what `plan/set_doubts.py` doubts after half an
hour without interruption, if a second list says the same; some of it only if a person says that it is meant.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from msgspec import structs

from nodemanager.agent.declared.sources import DeclaredSources
from nodemanager.api.common import choosing, enforcement, matching
from nodemanager.api.common.choosing import Peers
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet, ConfigSetSpec, is_leaving
from nodemanager.api.common.managednode import TAKE_BACK
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.host.state.ownership_ledger import OwnershipLedger, OwnershipLedgerError
from nodemanager.kube import errors, times
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan import set_doubts
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.set_doubts import (
    Doubt,
    NodeTold,
    Owner,
    Prune,
    SetPresence,
    SetRecord,
    SetsTold,
    SetTold,
)
from nodemanager.plan.stages import KINDS

log = logging.getLogger(__name__)
CONFIRM_SECONDS: Final = 1800.0
"""How long a doubtful change must last: by then, GitOps tools have restored what they keep."""

AGAIN_SECONDS: Final = 30.0
"""After a possibly missed change, the host looks again so much later."""


def policy(spec: ConfigSetSpec) -> Prune:
    """Return the prune policy of a set: what is taken back when the set no longer declares it."""
    if not spec.prune:
        return Prune.NOTHING
    return Prune.PACKAGES if spec.prune_packages else Prune.RESOURCES


def owner(config_set: ConfigSet) -> Owner:
    """Return the name of a set in the records of a host."""
    return set_doubts.owner(config_set.metadata.name, config_set.metadata.uid)


def told(
    everything: Sequence[ConfigSet], chosen: Sequence[ConfigSet], host: ObjectMeta,
    unreadable: Mapping[str, str] | None = None,
) -> SetsTold:  # fmt: skip
    """Return what follows from all existing sets, and from those of them that are for a host.

    A host takes back only what both its revision of a staged set and the newest one allow.
    """
    here, peers = {owner(one): one for one in chosen}, choosing.by_name(everything)
    sets, records, unsure = dict[Owner, SetTold](), dict[Owner, SetRecord](), dict(unreadable or {})
    for one in everything:
        key, mine, allowed = owner(one), here.get(owner(one)), policy(one.spec)
        generation, window = one.metadata.generation, one.spec.enforcement
        staged = choosing.in_stages(one)
        said = SetTold(allowed, SetPresence.LEAVING, staged=staged, generation=generation, enforcement=window)
        if is_leaving(one):
            sets[key] = said
        elif mine is None:
            sets[key] = said._replace(standing=SetPresence.ELSEWHERE)
            if why := _why_unsure(one, host, peers):
                unsure[one.metadata.name] = why
        else:
            allowed = min(allowed, policy(mine.spec))
            lacks = frozenset(kind.name for kind in KINDS if not getattr(mine.spec, kind.declaring.field))
            sets[key] = SetTold(allowed, lacks=lacks, generation=generation, enforcement=window)
            records[key] = SetRecord(
                allowed, here=True, generation=generation, node=host.uid, enforcement=window
            )
    meant = bool(host.uid) and host.annotations.get(TAKE_BACK) == host.uid
    node = NodeTold(host.uid, meant, leaving=bool(host.deletion_timestamp))
    coming = _coming(everything, here, host)
    return SetsTold(sets, unsure, frozenset(unreadable or ()), coming, records=records, node=node)


def _coming(
    everything: Sequence[ConfigSet], here: Mapping[Owner, ConfigSet], host: ObjectMeta
) -> dict[ResourceId, set[str]]:
    """Return what sets will declare for a host that has another revision of them, or none yet."""
    found: dict[ResourceId, set[str]] = {}
    for one in everything:
        has_it = here.get(owner(one)) is one
        if has_it or is_leaving(one) or not matching.matches(one, host.labels):
            continue
        name = one.metadata.name
        for kind in KINDS:
            for declaration in getattr(one.spec, kind.declaring.field):
                found.setdefault(kind.declaring.identify(name, declaration), set()).add(name)
    return found


def _why_unsure(config_set: ConfigSet, host: ObjectMeta, peers: Peers) -> str:
    """Return why a set may be for other hosts by mistake; empty = its own spec says so."""
    if choosing.in_stages(config_set):
        revision = choosing.chosen(config_set, host, peers).revision
        if revision is None or choosing.is_meant(revision, host.labels):
            return "has a revision for this host that is not known yet"
    elif matching.matches(config_set, host.labels):  # it may follow the default of its namespace
        return "is for this host, and nobody has decided yet what of it"
    if labels := matching.gitops_labels(config_set):
        return f"has label {labels[0]} of a GitOps tool, which no host has; give it a nodeSelector"
    if not matching.ways(config_set):
        return "has neither labels nor a nodeSelector, so it is for no host at all"
    return ""


async def listed(client: Client, namespace: str) -> frozenset[Owner]:
    """Return all sets, read now; for unreadable ones, the name."""
    page = await client.list(CONFIG_SETS, Selection(namespace))
    return frozenset((*map(owner, page.items), *(one.key.name for one in page.malformed)))


@dataclass(slots=True)
class _Wait:
    """A doubt that ends with time."""

    since: float
    until: str
    """Its end, for people."""


@dataclass(slots=True)
class KnownSets:
    """Asks the API, and doubts answers that would remove too much."""

    sources: DeclaredSources
    ledger: OwnershipLedger
    listed: Callable[[], Awaitable[frozenset[Owner]]]
    """Reads the list of all sets anew."""
    again: Callable[[float], None] = lambda _seconds: None
    """Asks for another pass after so many seconds."""
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    confirm: float = CONFIRM_SECONDS
    _lowest: dict[Owner, Prune] = field(default_factory=dict)
    """The smallest prune policy that sets had since the last look."""
    _waits: dict[tuple[Owner, str], _Wait] = field(default_factory=dict)
    """The doubts, by set and reason."""
    _confirmed: set[Owner] = field(default_factory=set)
    """Sets that a new list does not have, either."""
    _there: frozenset[Owner] | None = None
    """The content of a new list, after one was requested."""
    _steady: float | None = None
    """Since when no change was missed, as of the last look; None before the first."""

    def concerned(self, everything: Sequence[ConfigSet], chosen: Sequence[ConfigSet]) -> list[ConfigSet]:
        """Return the sets whose windows matter here: also others that left something here, or are leaving."""
        try:
            records = self.ledger.sets
        except OwnershipLedgerError:  # then nothing is taken back
            return list(chosen)
        here = {owner(one) for one in chosen}
        others = [one for one in everything if owner(one) not in here]
        return [*chosen, *(one for one in others if owner(one) in records or is_leaving(one))]

    def heard(self, old: ConfigSet | None, new: ConfigSet | None) -> bool:
        """Remember a set, in case it is gone at the next look; tell whether that look has to be soon."""
        seen = {owner(one): policy(one.spec) for one in (old, new) if one is not None}
        try:
            known = {one: least for one, least in seen.items() if one in self.ledger.sets}
        except OwnershipLedgerError:  # then nothing is taken back
            return False
        for one, least in known.items():
            self._lowest[one] = min(least, self._lowest.get(one, least))
        return bool(known and old and new and policy(old.spec) != policy(new.spec))

    async def ask(
        self, everything: Sequence[ConfigSet], chosen: Sequence[ConfigSet], host: ObjectMeta
    ) -> SetsTold | None:
        """Return what the API reports now; None = it reports nothing, so nothing is taken back."""
        sources = self.sources
        missed = self._missed()
        if missed or not sources.live or sources.reachability.offline or sources.config_sets.refused:
            if missed:
                self.again(AGAIN_SECONDS)
            self._waits.clear()
            self._confirmed.clear()
            return None
        unreadable = {
            key.name: f"cannot be read: {why}" for key, why in sources.config_sets.malformed.items()
        }
        found = told(everything, chosen, host, unreadable)
        try:
            return await self._judged(found)
        except OwnershipLedgerError as error:
            log.warning("cannot find out what no set declares any more: %s", error)
            self.ledger.expect(found.records)  # a set that prunes changes only what can be taken back
            return None

    def _missed(self) -> bool:
        """Tell whether changes of sets may have been missed: what we know may be old for a moment more."""
        cache, before = self.sources.config_sets, self._steady
        self._steady = cache.steady_since
        return cache.interrupted or before not in (None, self._steady)

    async def _judged(self, found: SetsTold) -> SetsTold:
        """Return what the API reports, with the doubts about it, and what to remember."""
        owners, doubts, self._there = self.ledger.owners, dict[Owner, str](), None
        before = self._before(found)
        known = set_doubts.doubts(owners, before, found)
        all_doubts = {(one, doubt.why): doubt for one, each in known.items() for doubt in each}
        all_doubts |= {key: Doubt(key[1]) for key in self._begun(found) if key[0] in owners}
        self._waits = {key: wait for key, wait in self._waits.items() if key in all_doubts}
        for (one, _), doubt in all_doubts.items():
            if said := self._said(one, doubt, found):  # all of them begin to wait at once
                doubts.setdefault(one, said)
        gone = {one for one, _ in all_doubts} - found.sets.keys()
        self._confirmed &= gone
        for one in gone - doubts.keys() - self._confirmed:
            if said := await self._denied(one):
                doubts[one] = said
        records = set_doubts.remembered(before, found, doubts.keys())
        return replace(found, doubts={**self._shut(found), **doubts}, records=records)

    def _before(self, found: SetsTold) -> dict[Owner, SetRecord]:
        """Return the last known policies of sets; deleted ones may have had smaller ones since."""
        sets = self.ledger.sets
        self._lowest = {
            one: least for one, least in self._lowest.items() if one in sets and one not in found.sets
        }
        lower = {one: min(Prune(sets[one].prune), least) for one, least in self._lowest.items()}
        return {**sets, **{one: structs.replace(sets[one], prune=least) for one, least in lower.items()}}

    def _begun(self, found: SetsTold) -> list[tuple[Owner, str]]:
        """Return what was doubted of sets that are still away: one that comes back does not end it early."""
        away = {
            key: wait for key, wait in self._waits.items() if found.standing(key[0]) is not SetPresence.HERE
        }
        return [key for key, wait in away.items() if self._left(wait) > 0]

    def _left(self, wait: _Wait) -> float:
        return wait.since + self.confirm - self.clock()

    def _shut(self, found: SetsTold) -> dict[Owner, str]:
        """Return the deleted sets whose window, as it was last known, is shut now."""
        now, said = datetime.fromtimestamp(self.wall(), UTC), dict[Owner, str]()
        for one, record in self.ledger.sets.items():
            if one in found.sets or enforcement.is_open(record.enforcement, now):
                continue
            edge = enforcement.next_edge([record.enforcement], now)
            if edge is not None:
                self.again((edge - now).total_seconds() + 1)
            when = "does not open any more" if edge is None else f"opens at {times.rfc3339(edge)}"
            said[one] = f"the window of ConfigSet {set_doubts.name_of(one)}, which is gone, {when}"
        return said

    def _said(self, one: Owner, doubt: Doubt, found: SetsTold) -> str:
        """Return why a set's resources are not taken back now; empty = the change has lasted long enough."""
        if doubt.person:
            remedy = "; if it is meant, run nodemanager orphans NODE --take-back"
            return doubt.why if found.node.leaving else doubt.why + remedy
        wait = self._waits.get((one, doubt.why))
        if wait is None:
            until = times.rfc3339_unix(self.wall() + self.confirm)
            wait = self._waits[one, doubt.why] = _Wait(self.clock(), until)
        if (left := self._left(wait)) <= 0:
            return ""
        self.again(left + 1)
        return f"{doubt.why}; if that is still so at {wait.until}, it is meant"

    async def _denied(self, one: Owner) -> str:
        """Return why a set does not count as deleted; empty = a new list lacks it, too.

        The watch may be old.
        """
        name = set_doubts.name_of(one)
        try:
            if self._there is None:
                self._there = await self.listed()
        except errors.KubeError as error:
            return f"ConfigSet {name} is gone, and the API does not confirm it: {error}"
        if one in self._there or name in self._there:
            return f"ConfigSet {name} is there after all"
        self._confirmed.add(one)
        return ""
