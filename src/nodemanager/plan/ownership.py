"""What a host has because ConfigSets declared it, and what becomes of that when none of them does any more.

    a step is planned  ->  how it is now, and how the step leaves it (`taken`), on disk before it is done
    nobody declares it ->  put back, left behind with a reason, or not yet (`released`)

In doubt, a resource is left as it is, with a reason. The doubts about sets are in
`set_doubts`. A state is what a kind has to know of a resource to put it back; only the kind itself reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.set_doubts import (
    Owner,
    Prune,
    SetPresence,
    SetRecord,
    SetsTold,
    name_of,
    policies,
    uid_of,
)

State = dict[str, str]
"""An empty value belongs to an undeclared part: it is not ours, and stays as it is."""
UNKNOWN: Final = (
    "it is not known what was there before: this host had it before it kept a record, or we could not bring"
    " it about, and somebody else may have done it"
)
BY_HAND: Final = "nodemanager apply brought it about, by a manifest of ConfigSet"
REMEMBERED: Final = 2
"""What we left there, and what we were about to leave there: a crash may have come in between."""


class Owned(msgspec.Struct, frozen=True, omit_defaults=True):
    """One resource that ConfigSets have, or had, declared."""

    sets: tuple[Owner, ...] = ()
    """The ConfigSets that declared it last."""
    before: State | None = None
    """The state before our first change; None = unknown."""
    ours: tuple[State, ...] = ()
    """How we left it, the newest last."""
    left: str = ""
    """Why it still exists although no set declares it; empty = a set declares it."""
    waits: bool = False
    """It is left for now only: the next pass tries again."""
    final: bool = False
    """Whether it stays for good, because another program has changed it."""
    failed: bool = False
    """Whether we failed to bring it about: if it exists one day, another program may have made it."""

    @property
    def untouched(self) -> bool:
        """Whether we never made it other than it was before us."""
        return bool(self.ours) and all(one == self.before for one in self.ours)

    @property
    def foreseen(self) -> bool:
        """Whether we only know that it was not there: what was to bring it has not done so yet."""
        return self.before is not None and not self.ours

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sets."""
        return tuple(map(name_of, self.sets))


class Sighting(NamedTuple):
    """A resource that is declared: how it is now, and how it is once its step is done."""

    id: ResourceId
    sets: tuple[Owner, ...]
    now: State
    then: State


def taken(known: Owned | None, seen: Sighting) -> Owned:
    """Return the record of a resource with what is about to be done to it."""
    if known is None:
        return Owned(seen.sets, seen.now, (seen.then,))
    if known.failed and seen.now == seen.then and seen.now != known.before:
        return Owned(seen.sets, None, (seen.then,))
    if known.failed and known.foreseen:  # our step to make it failed, so another program made it
        return Owned(seen.sets, seen.now, (seen.then,))
    last = known.ours[-1] if known.ours else {}
    now, then = _filled(seen.now, last), _filled(seen.then, last)
    ours = [one for one in known.ours if one == now and one != then]
    before = known.before if known.before is None else _filled(known.before, seen.now)
    strange = now not in known.ours
    if before is not None and ((known.left and strange) or (known.untouched and then not in known.ours)):
        before = now  # it belonged to another program until now
    elif known.ours and strange and now == then != before:
        # Another program changed it, and we do not: a file that is created only, a mode that is not declared.
        return Owned(seen.sets, before, known.ours, failed=known.failed)
    return Owned(seen.sets, before, (*ours, then)[-REMEMBERED:], failed=known.failed)


def _filled(state: State, known: State) -> State:
    """Return a state in which parts that it does not tell are as they are known."""
    return {key: value or known.get(key, "") for key, value in state.items()}


def is_news(known: Owned | None, sets: tuple[Owner, ...], then: State | None) -> bool:
    """Tell whether the record of a resource is out of date: about its owners, or the state it is left in."""
    if known is None or known.left or known.sets != sets or not known.ours:
        return True
    return then is not None and _filled(then, known.ours[-1]) != known.ours[-1]


def handed_over(old: Owned, new: Owned | None) -> Owned:
    """Return the record of what was known by another name until now: it remembers what was there before."""
    if new is None:
        return old
    is_ours = new.untouched or new.before in old.ours
    return msgspec.structs.replace(new, before=old.before) if is_ours else new


class Release(NamedTuple):
    """A resource that no set declares any more."""

    id: ResourceId
    owned: Owned
    cause: str
    """Why no set declares it."""
    left: str = ""
    """Why it is left behind; empty = it is put back."""
    waits: bool = False
    """It is left only for now."""


Rank = Callable[[ResourceId], Prune]
"""Returns what a set has to allow for a resource to be put back."""


def released(
    owned: Mapping[ResourceId, Owned],
    records: Mapping[Owner, SetRecord],
    desired: Desired,
    told: SetsTold,
    rank: Rank,
) -> list[Release]:
    """Return what happens to all resources that no set declares any more."""
    declared = {item.id for items in desired.items.values() for item in items} | desired.held.keys()
    allowed = policies({name for entry in owned.values() for name in entry.sets}, records, told)
    return [_released(one, entry, allowed, told, rank) for one, entry in owned.items() if one not in declared]


def _released(
    one: ResourceId, entry: Owned, allowed: Mapping[Owner, Prune], told: SetsTold, rank: Rank
) -> Release:
    cause = _cause(entry.sets, told)
    if entry.final:
        return Release(one, entry, cause, entry.left)
    for name in entry.names:
        if why := told.unsure.get(name):
            return Release(one, entry, cause, f"waits: ConfigSet {name} {why}", waits=True)
    policy = min((allowed[each] for each in entry.sets), default=Prune.NOTHING)
    if entry.before is None:
        return Release(one, entry, cause, UNKNOWN)
    if policy < rank(one) and not entry.untouched and "" in map(uid_of, entry.sets):
        return Release(one, entry, cause, f"{BY_HAND} {_listed(entry.names)}, which takes nothing back")
    if policy < rank(one) and not entry.untouched:
        said = "spec.prunePackages" if policy else "spec.prune"
        return Release(one, entry, cause, f"{said} of ConfigSet {_listed(entry.names)} is not set")
    for owner in entry.sets:
        if doubt := told.doubts.get(owner):
            return Release(one, entry, cause, f"waits: {doubt}", waits=True)
    if not entry.untouched and (why := _on_its_way(one, entry, told)):
        return Release(one, entry, cause, f"waits: {why}", waits=True)
    return Release(one, entry, cause)


def _on_its_way(one: ResourceId, entry: Owned, told: SetsTold) -> str:
    """Return why another set may declare it by now, although this host does not have that yet."""
    if told.unreadable:
        return f"ConfigSet {_listed(sorted(told.unreadable))} cannot be read, and may declare it"
    # What a set itself declared in a revision that was undone goes: it does not come by another.
    if others := sorted(told.coming.get(one, frozenset[str]()) - set(entry.names)):
        return f"ConfigSet {_listed(others)} declares it, in a revision that this host does not have yet"
    return ""


def _cause(sets: tuple[Owner, ...], told: SetsTold) -> str:
    """Return, in words, what became of the sets that declared something."""
    owner = next((one for one in sets if told.standing(one) is not SetPresence.HERE), sets[0] if sets else "")
    if not owner:
        return "nobody declares it"
    what = {
        SetPresence.HERE: "declares it no longer",
        SetPresence.LEAVING: "is being deleted",
        SetPresence.ELSEWHERE: "is not for this host any more",
        SetPresence.GONE: "is gone",
    }
    return f"ConfigSet {name_of(owner)} {what[told.standing(owner)]}"


def _listed(sets: Iterable[str]) -> str:
    return ", ".join(sets) or "(unknown)"


class PutBack(NamedTuple):
    """What it takes to put something back."""

    declaration: Any = None
    """How it is declared to be as it was; None = nothing has to be done."""
    why: str = ""
    """How it was, in words."""
    content: str = ""
    """SHA-256 of the wanted content of a file."""
    left: str = ""
    """Why it stays as it is, if it does."""
    final: bool = False
    """It stays so for good."""
    ours: State | None = None
    """What of it is still as we left it; None = all of it, as far as it is there."""
