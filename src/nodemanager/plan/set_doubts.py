"""What is known of the ConfigSets that a host has resources of, and what of that is doubtful. Pure.

A set is known by its uid: one of the same name that was made later is another set, and says nothing about
what hosts have because of the first. A change may be a mistake: somebody emptied a
namespace, an older backup was restored, or the host talks to another API than before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple

import msgspec

from nodemanager.api.common.enforcement import Enforcement
from nodemanager.plan.resources import ResourceId

Owner = str
"""A ConfigSet as this host had it: `web@6f3c...`, or `web` if its uid is unknown."""


def owner(name: str, uid: str) -> Owner:
    """Return how a set is called in the records of a host."""
    return f"{name}@{uid}" if uid else name


def name_of(one: Owner) -> str:
    """Return the name of a set."""
    return one.partition("@")[0]


def uid_of(one: Owner) -> str:
    """Return the uid of a set; empty = it was a manifest."""
    return one.partition("@")[2]


class Prune(IntEnum):
    """What of a set is taken back."""

    NOTHING = 0
    RESOURCES = 1
    PACKAGES = 2
    """Packages, too."""


class SetPresence(StrEnum):
    """How a set stands to this host."""

    HERE = "here"
    LEAVING = "leaving"
    """It is being deleted, and hosts are to take back what they have of it."""
    ELSEWHERE = "elsewhere"
    """It is for other hosts, or for none."""
    GONE = "gone"


class SetRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was last known of a ConfigSet that was for this host."""

    prune: int = 0
    here: bool = False
    """Whether it is for this host, as far as is known."""
    leaving: bool = False
    """This host saw it being deleted, and had no reason to doubt that."""
    generation: int = 0
    """The newest that was known: an API that has an older one was put back to an earlier time."""
    node: str = ""
    """UID of the ManagedNode that it was for."""
    enforcement: Enforcement | None = None
    """Its window: it holds for what is left of the set, too."""


class SetTold(NamedTuple):
    """What the API says of one set."""

    policy: Prune
    standing: SetPresence = SetPresence.HERE
    lacks: frozenset[str] = frozenset()
    """Kinds of which it declares nothing."""
    staged: bool = False
    """What it says reaches hosts by and by: what this host knew of it counts, too."""
    generation: int = 0
    enforcement: Enforcement | None = None


class NodeTold(NamedTuple):
    """What the API says of the ManagedNode of a host."""

    uid: str = ""
    meant: bool = False
    """A person said that this very one takes back what the host had as another."""
    leaving: bool = False
    """It is being deleted."""


@dataclass(frozen=True, slots=True)
class SetsTold:
    """What the API says of ConfigSets."""

    sets: Mapping[Owner, SetTold] = field(default_factory=dict)
    """Every set that there is."""
    unsure: Mapping[str, str] = field(default_factory=dict)
    """Names of sets whose content, or choice of hosts, is unknown, with the reason."""
    unreadable: frozenset[str] = frozenset()
    """Those of them that cannot be read at all, and so may declare anything."""
    coming: Mapping[ResourceId, AbstractSet[str]] = field(default_factory=dict)
    """What sets of this host declare by now, in a revision that it has not got yet; by their names."""
    doubts: Mapping[Owner, str] = field(default_factory=dict)
    """Sets whose resources are not taken back for now, with the reason."""
    records: Mapping[Owner, SetRecord] = field(default_factory=dict)
    """What is to be remembered of sets, for when they are gone."""
    node: NodeTold = field(default_factory=NodeTold)
    """The host."""

    def standing(self, one: Owner) -> SetPresence:
        """Return how a set stands to this host."""
        known = self.sets.get(one)
        return SetPresence.GONE if known is None else known.standing


class Doubt(NamedTuple):
    """Why what the API says of a set may be a mistake."""

    why: str
    person: bool = False
    """Whether a person has to confirm it, because time alone does not make it more likely."""


def policies(
    owners: Iterable[Owner], records: Mapping[Owner, SetRecord], told: SetsTold
) -> dict[Owner, Prune]:
    """Return what of each of these sets is taken back.

    Of a set that is gone it is what it said last, and no more than a set says that has its name now. Of one
    in stages it is what both its newest revision and that of this host say.
    """
    namesakes: dict[str, Prune] = {}
    for one, said in told.sets.items():
        name = name_of(one)
        namesakes[name] = min(said.policy, namesakes.get(name, Prune.PACKAGES))
    found = {}
    for one in owners:
        last = Prune(records[one].prune) if one in records else Prune.NOTHING
        now = told.sets.get(one)
        if now is None:
            found[one] = min(last, namesakes.get(name_of(one), last))
        else:
            found[one] = min(last, now.policy) if now.staged else now.policy
    return found


def doubts(
    owners: Mapping[Owner, AbstractSet[str]], records: Mapping[Owner, SetRecord], told: SetsTold
) -> dict[Owner, list[Doubt]]:
    """Return what there is to doubt about the sets that a host has things of, by set; `owners` has the kinds.

    Undoubted is what a set says that is for this host, and that it is deleted, if others are not.
    """
    pruning = [one for one, policy in policies(owners, records, told).items() if policy]
    of_all = [_of_backup(records, told), _of_all(owners.keys(), told)]
    found = {}
    for one in pruning:
        doubts = [_of_node(one, records, told), _of_set(one, owners[one], records, told), *of_all]
        if told.standing(one) is SetPresence.HERE:
            doubts.pop()
        if known := [doubt for doubt in doubts if doubt is not None]:
            found[one] = known
    return found


def rolled_back(records: Mapping[Owner, SetRecord], told: SetsTold) -> set[Owner]:
    """Return the sets that are older than they were known."""
    return {
        one for one, said in told.sets.items() if one in records and said.generation < records[one].generation
    }


def remembered(
    before: Mapping[Owner, SetRecord], told: SetsTold, doubted: AbstractSet[Owner]
) -> dict[Owner, SetRecord]:
    """Return what is to be remembered of sets, for when they are gone.

    A set that prunes no longer is remembered so, for any hosts. Doubtful facts are not believed:
    neither that a set was seen being deleted, nor that the API is where it was.
    """
    found, allowed = dict(told.records), policies(before, before, told)
    older = rolled_back(before, told) if doubted else set()
    for one, record in before.items():
        said = told.sets.get(one)
        if one in found:
            now = found[one]
        elif said is not None:
            leaving = said.standing is SetPresence.LEAVING
            now = SetRecord(allowed[one], False, leaving, said.generation, record.node, said.enforcement)
        else:
            now = msgspec.structs.replace(record, prune=allowed[one], here=False)
        generation = record.generation if one in older else now.generation
        leaving = now.leaving and one not in doubted
        found[one] = msgspec.structs.replace(now, generation=generation, leaving=leaving)
    return found


def _of_node(one: Owner, records: Mapping[Owner, SetRecord], told: SetsTold) -> Doubt | None:
    """Return what speaks against a set that is not for a host any more, if the host itself is another."""
    if told.standing(one) is SetPresence.HERE:
        return None
    if told.node.leaving:
        return Doubt("the ManagedNode of this host is being deleted", person=True)
    before = records[one].node if one in records else ""
    if before in ("", told.node.uid) or told.node.meant:
        return None
    said = "the ManagedNode of this host is another one than before, so the API may be another one, too"
    return Doubt(said, person=True)


def _of_set(
    one: Owner, had: AbstractSet[str], records: Mapping[Owner, SetRecord], told: SetsTold
) -> Doubt | None:
    """Return what speaks against what one set says, or seems to."""
    standing, name = told.standing(one), name_of(one)
    if standing is SetPresence.GONE and not (one in records and records[one].leaving):
        return Doubt(f"ConfigSet {name} is gone, and this host has not seen it being deleted")
    if standing is SetPresence.ELSEWHERE:
        return Doubt(f"ConfigSet {name} is not for this host any more, by its labels or by the host's")
    if standing is SetPresence.HERE and (none := had & told.sets[one].lacks):
        return Doubt(f"ConfigSet {name} declares not a single {' or '.join(sorted(none))} any more")
    return None


def _of_backup(records: Mapping[Owner, SetRecord], told: SetsTold) -> Doubt | None:
    """Return a doubt about all sets if the API has an older version of one than this host knew."""
    if not (older := rolled_back(records, told)):
        return None
    return Doubt(
        f"ConfigSet {min(map(name_of, older))} is older than this host knew it, so an older backup of the API"
        " may have been restored"
    )


def _of_all(known: AbstractSet[Owner], told: SetsTold) -> Doubt | None:
    """Return what speaks against sets that are deleted together: of this host, or of all hosts."""
    if len(known) > 1 and all(told.standing(one) is not SetPresence.HERE for one in known):
        return Doubt("none of the ConfigSets that this host had is for it any more")
    # Also if it is only one: those that do not prune are gone at once, and this may be what is left of all.
    if told.sets and all(one.standing is SetPresence.LEAVING for one in told.sets.values()):
        return Doubt("all ConfigSets are being deleted")
    return None
