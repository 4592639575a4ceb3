"""What a host has because ConfigSets declared it, and what becomes of that when none of them does any more.

    a step is planned  ->  how it is now, and how the step leaves it (`taken`), on disk before it is done
    nobody declares it ->  put back, left behind with a reason, or not yet (`released`)

A state is what a kind has to know of a resource to put it back; only the kind itself reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple

import msgspec

from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import ResourceId

State = dict[str, str]
UNKNOWN: Final = "it is not known what was there before: this host had it before it kept a record"
REMEMBERED: Final = 2
"""What we left there, and what we were about to leave there: a crash may have come in between."""


class Prune(IntEnum):
    """What of a set is taken back."""

    NOTHING = 0
    RESOURCES = 1
    PACKAGES = 2
    """Packages, too."""


class Owned(msgspec.Struct, frozen=True, omit_defaults=True):
    """One resource that ConfigSets have, or had, declared."""

    sets: tuple[str, ...] = ()
    """The ConfigSets that declared it last."""
    before: State | None = None
    """How it was before we first changed it; None = nobody knows."""
    ours: tuple[State, ...] = ()
    """How we left it, the newest last."""
    left: str = ""
    """Why it is still there although nobody declares it; empty = somebody does."""
    waits: bool = False
    """It is left for now only: the next pass tries again."""
    final: bool = False
    """It is left for good: somebody else has changed it."""

    @property
    def untouched(self) -> bool:
        """Whether it is as it was before us."""
        return self.before is not None and self.before in self.ours


class SetRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was last known of a ConfigSet."""

    uid: str = ""
    prune: int = 0


class Sighting(NamedTuple):
    """A resource that is declared: how it is now, and how it is once its step is done."""

    id: ResourceId
    sets: tuple[str, ...]
    now: State
    then: State


def taken(known: Owned | None, seen: Sighting) -> Owned:
    """Return the record of a resource with what is about to be done to it."""
    if known is None:
        return Owned(seen.sets, seen.now, (seen.then,))
    ours = [one for one in known.ours if one == seen.now and one != seen.then]
    before = known.before
    strange = seen.now not in known.ours
    if before is not None and ((known.left and strange) or (known.untouched and seen.then not in known.ours)):
        before = seen.now  # it was somebody else's until now
    return Owned(seen.sets, before, (*ours, seen.then)[-REMEMBERED:])


@dataclass(frozen=True, slots=True)
class SetsTold:
    """What the API says of ConfigSets."""

    policies: Mapping[str, Prune] = field(default_factory=dict)
    """Of every set that there is, by name; also of those that are being deleted."""
    here: frozenset[str] = frozenset()
    """Those that are for this host."""
    leaving: frozenset[str] = frozenset()
    """Those that are being deleted, and wait for us."""
    unsure: Mapping[str, str] = field(default_factory=dict)
    """Those of which nobody can tell what they say, and why."""
    doubt: str = ""
    """Why sets that are not there, or not for this host, may be so by mistake; empty = they are not."""
    records: Mapping[str, SetRecord] = field(default_factory=dict)
    """What is to be remembered of the sets that are for this host, for when they are gone."""
    node: str = ""
    """UID of the ManagedNode that they are for."""
    uids: frozenset[str] = frozenset()
    """Of all sets that there are."""


class Release(NamedTuple):
    """A resource that nobody declares any more."""

    id: ResourceId
    owned: Owned
    cause: str
    """Why nobody does."""
    left: str = ""
    """Why it is left behind; empty = it is put back."""
    waits: bool = False
    """It is left only for now."""


Rank = Callable[[ResourceId], Prune]
"""Returns what a set has to allow for a resource to be put back."""


def released(
    owned: Mapping[ResourceId, Owned],
    records: Mapping[str, SetRecord],
    desired: Desired,
    told: SetsTold,
    rank: Rank,
) -> list[Release]:
    """Return what becomes of all that nobody declares any more."""
    declared = {item.id for items in desired.items.values() for item in items} | desired.held.keys()
    return [_released(one, entry, records, told, rank) for one, entry in owned.items() if one not in declared]


def _released(
    one: ResourceId, entry: Owned, records: Mapping[str, SetRecord], told: SetsTold, rank: Rank
) -> Release:
    cause = _cause(entry.sets, told)
    if entry.final:
        return Release(one, entry, cause, entry.left)
    for name in entry.sets:
        if why := told.unsure.get(name):
            return Release(one, entry, cause, f"waits: ConfigSet {name} {why}", waits=True)
    away = [name for name in entry.sets if name not in told.here | told.leaving]
    policies = [told.policies.get(name, Prune(records.get(name, SetRecord()).prune)) for name in entry.sets]
    policy = min(policies, default=Prune.NOTHING)
    if entry.before is None:
        return Release(one, entry, cause, UNKNOWN)
    if policy < rank(one) and not entry.untouched:
        said = "spec.prunePackages" if policy else "spec.prune"
        return Release(one, entry, cause, f"{said} of ConfigSet {_listed(entry.sets)} is not set")
    if away and told.doubt:
        return Release(one, entry, cause, f"waits: {told.doubt}", waits=True)
    return Release(one, entry, cause)


def _cause(sets: tuple[str, ...], told: SetsTold) -> str:
    """Return, in words, what became of the sets that declared something."""
    name = next((one for one in sets if one not in told.here), sets[0] if sets else "")
    if name in told.here:
        return f"ConfigSet {name} declares it no longer"
    if name in told.leaving:
        return f"ConfigSet {name} is being deleted"
    if name in told.policies:
        return f"ConfigSet {name} is not for this host any more"
    return f"ConfigSet {name} is gone" if name else "nobody declares it"


def suspicion(
    owned: Mapping[ResourceId, Owned], records: Mapping[str, SetRecord], node: str, told: SetsTold
) -> str:
    """Return why sets that are away may be so by mistake, in words; empty = nothing speaks for that.

    `node` is the UID of the ManagedNode that all this was for before.
    """
    away = {name for one in owned.values() for name in one.sets} - told.here - told.leaving
    if away and node and node != told.node:
        return "the ManagedNode of this host is another one than before"
    known = {one.uid for one in records.values() if one.uid}
    if away - told.policies.keys() and known.isdisjoint(told.uids):
        return "none of the ConfigSets that this host had is left"
    return ""


def _listed(sets: Iterable[str]) -> str:
    return ", ".join(sets) or "(unknown)"


class PutBack(NamedTuple):
    """What it takes to put something back."""

    declaration: Any = None
    """How it is declared to be as it was; None = nothing has to be done."""
    why: str = ""
    """How it was, in words."""
    content: str = ""
    """SHA-256 of what a file shall contain."""
    left: str = ""
    """Why it stays as it is, if it does."""
    final: bool = False
    """It stays so for good."""
