"""Which revision of a ConfigSet is for a host now: agents, operator and people ask the same function.

A host decides by itself, from what the operator has published in `status.rollout`, so it needs no API at the
time, and what is published has the same size for any number of hosts.

ConfigSets of a group move together, but the status of two objects cannot be written at once. So the next
revision of one is for a host only if all members of the change publish the same change, and each of them says
that it is the host's turn. Even if only some statuses are written, a host takes all of the change or nothing:

| what members publish of one change           | hosts take                            |
|----------------------------------------------|---------------------------------------|
| all: next                                    | next, if it is their turn by each     |
| some: stable is what was next; others: next  | next, all of them: it was proven      |
| some: refused; others: next                  | stable                                |
| anything else, or a set that nobody has seen | nothing: they keep what they have     |
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from nodemanager.api.common import configsetrevision, matching
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec, ConfigSetStatus
from nodemanager.api.common.rollout import SCALE, STAGED, RevisionRef, Rollout, RolloutStatus, is_staged
from nodemanager.api.common.rollout_groups import GroupRef
from nodemanager.kube import selectors, times
from nodemanager.kube.objects import ObjectMeta

Peers = Mapping[str, ConfigSet]
"""The sets of a namespace, by name: those that move together are decided about together."""
ALONE: Final[Peers] = {}


class ChangeState(StrEnum):
    """How a set is with one change of its group."""

    NEXT = "next"
    """It is being rolled out."""
    PROVEN = "proven"
    """It is stable: all hosts may have it, of all members."""
    REFUSED = "refused"
    """Hosts return from it, with all members."""
    ELSEWHERE = "elsewhere"
    """It does not publish this change."""


class ContentSource(StrEnum):
    """Where a host takes the content of a set from."""

    SPEC = "spec"
    """The spec of the set, as it is."""
    REVISION = "revision"
    """A revision."""
    HELD = "held"
    """What the host has; if it has nothing, a revision."""


class Choice(NamedTuple):
    """What of a set is for a host."""

    content: ContentSource
    revision: RevisionRef | None = None
    """None = nothing."""


class ChangeWait(NamedTuple):
    """Why a host does not have what it shall have of a set."""

    code: str
    """A reason of `node_conditions`."""
    message: str
    bare: bool
    """It has nothing of the set meanwhile."""

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def position(uid: str, digest: str) -> int:
    """Return where a host stands in the order in which hosts take a change: anew for every change."""
    found = int.from_bytes(hashlib.sha256(f"{uid}/{digest}".encode()).digest()[:8])
    return found * SCALE >> 64


def takes_part(status: RolloutStatus, host: ObjectMeta) -> bool:
    """Tell whether a host was there when the rollout began; later ones take what is proven."""
    made, began = times.parse(host.creation_timestamp), times.parse(status.started_at)
    return made is None or began is None or made <= began


def is_canary(status: RolloutStatus, labels: Mapping[str, str]) -> bool:
    """Tell whether a host is one of those that go first; a selector that says nothing chooses none."""
    wanted = status.canary
    if wanted is None or not (wanted.match_labels or wanted.match_expressions):
        return False
    return selectors.matches(wanted, labels)


def is_meant(revision: RevisionRef | None, labels: Mapping[str, str]) -> bool:
    """Tell whether a revision is for hosts with these labels."""
    return revision is not None and matching.chooses(revision.labels, revision.node_selector, labels)


def has_turn(status: RolloutStatus, host: ObjectMeta) -> bool:
    """Tell whether a host should have the next revision."""
    if status.next is None or not takes_part(status, host):
        return False
    return is_canary(status, host.labels) or place(status, host) < status.threshold


def place(status: RolloutStatus, host: ObjectMeta) -> int:
    """Return the position of a host in a rollout: the same in all sets that move together."""
    group, revision = status.group, status.next
    if group is not None and group.id:
        return position(host.uid, group.id)
    return position(host.uid, revision.digest) if revision is not None else 0


def by_name(sets: Iterable[ConfigSet]) -> Peers:
    """Return the sets of a namespace by name, so that sets that move together can be looked up."""
    return {one.metadata.name: one for one in sets}


def group_of(config_set: ConfigSet) -> str:
    """Return the group that a set moves with, as far as a host can know; empty = it moves alone."""
    if config_set.spec.rollout is not None:
        return config_set.spec.rollout.group if is_staged(config_set.spec.rollout) else ""
    status = config_set.status.rollout
    follows = status is not None and status.policy is not None
    return status.group.name if status is not None and follows and status.group is not None else ""


def is_grouped(config_set: ConfigSet) -> bool:
    """Tell whether a set moves together with others, or did in its last change."""
    status = config_set.status.rollout
    return bool(group_of(config_set)) or (status is not None and status.group is not None)


def is_decided(config_set: ConfigSet) -> bool:
    """Tell whether an operator has seen what a set says now."""
    status = config_set.status.rollout
    return status is not None and status.observed_generation >= config_set.metadata.generation


def members_of(config_set: ConfigSet, peers: Peers) -> Iterable[ConfigSet]:
    """Return the other sets that a set moves with, or that its last change was about; not what is deleted."""
    status, name = config_set.status.rollout, group_of(config_set)
    listed = status.group.members if status is not None and status.group is not None else []
    names = {one.name for one in listed}
    if not (name or names):
        return []
    others = (one for one in peers.values() if one.metadata.name != config_set.metadata.name)
    meant = (one for one in others if one.metadata.name in names or (name and group_of(one) == name))
    return [one for one in meant if not one.metadata.deletion_timestamp]


def standing(name: str, status: RolloutStatus | None, change: GroupRef) -> ChangeState:
    """Return how the set of a name is with a change of its group, by what is published there."""
    if status is None or status.group is None or status.group.id != change.id:
        return ChangeState.ELSEWHERE
    digest = change.digest_of(name)
    if status.next is not None:
        return ChangeState.NEXT if status.next.digest == digest else ChangeState.ELSEWHERE
    if status.stable is not None and status.stable.digest == digest:
        return ChangeState.PROVEN
    return ChangeState.REFUSED if status.refused is not None else ChangeState.ELSEWHERE


def has_turn_together(config_set: ConfigSet, host: ObjectMeta, peers: Peers) -> bool | None:
    """Tell whether a host should have the next revisions of a group; None = unknown at present."""
    own = config_set.status.rollout
    if own is None or own.group is None or not own.group.id:
        return None
    known = {**peers, config_set.metadata.name: config_set}
    found = [known[one.name].status.rollout if one.name in known else None for one in own.group.members]
    named = zip(own.group.members, found, strict=True)
    standings = {standing(one.name, status, own.group) for one, status in named}
    if ChangeState.ELSEWHERE in standings or {ChangeState.PROVEN, ChangeState.REFUSED} <= standings:
        return None
    if ChangeState.PROVEN in standings:
        return True  # whenever a host joined
    if ChangeState.REFUSED in standings:
        return False
    return all(status is not None and has_turn(status, host) for status in found)


def is_half_stable(config_set: ConfigSet, peers: Peers) -> bool:
    """Tell whether a change is stable in one set that a set moves with, and not yet in another."""
    sets = (config_set, *members_of(config_set, peers))
    known = {one.metadata.name: one.status.rollout for one in sets}
    changes = {one.group.id: one.group for one in known.values() if one is not None and one.group is not None}
    for change in (one for one in changes.values() if one.id):
        found = {standing(one.name, known.get(one.name), change) for one in change.members}
        if {ChangeState.PROVEN, ChangeState.NEXT} <= found:
            return True
    return False


def is_left_behind(config_set: ConfigSet, members: Iterable[ConfigSet]) -> bool:
    """Tell whether another set publishes a change of both, and this one does not yet.

    Hosts keep what they have of the other one, so they do not return from what was undone of this one alone.
    """
    name, status = config_set.metadata.name, config_set.status.rollout
    published = (one.status.rollout for one in members)
    changes = [one.group for one in published if one is not None and one.next is not None and one.group]
    mine = (one for one in changes if one.digest_of(name))
    return any(standing(name, status, one) is ChangeState.ELSEWHERE for one in mine)


def in_stages(config_set: ConfigSet) -> bool:
    """Tell whether hosts wait for their turn: the set says so, or follows the default of its namespace."""
    if config_set.spec.rollout is not None:
        return is_staged(config_set.spec.rollout)
    status = config_set.status.rollout
    return status is not None and status.policy is not None


def undecided(config_set: ConfigSet) -> ConfigSet:
    """Return a set as it is to hosts while its namespace has a default that nobody has applied to it yet."""
    spec = msgspec.structs.replace(config_set.spec, rollout=Rollout(strategy=STAGED))
    return ConfigSet(config_set.metadata, spec)


def has_same(config_set: ConfigSet, kept: ConfigSet) -> bool:
    """Tell whether a host that has `kept` of a set has what it says now."""
    now, was = config_set.metadata, kept.metadata
    if now.labels != was.labels:
        return False
    return now.generation == was.generation or configsetrevision.same_content(config_set.spec, kept.spec)


def is_for_all(config_set: ConfigSet) -> bool:
    """Tell whether an operator has said that all hosts may have what a set says now."""
    status, meta = config_set.status.rollout, config_set.metadata
    if status is None or status.stable is None or status.observed_generation != meta.generation:
        return False
    return status.stable.name == status.current and status.stable.labels == meta.labels


def chosen(config_set: ConfigSet, host: ObjectMeta, peers: Peers = ALONE) -> Choice:
    """Return the content of a set for a host, by its ManagedNode, whatever its labels say."""
    if not in_stages(config_set):
        return Choice(ContentSource.SPEC)
    status = config_set.status.rollout
    if status is None:
        return Choice(ContentSource.HELD)
    members = list(members_of(config_set, peers))
    if not all(map(is_decided, (config_set, *members))):
        # The operator has not decided about it yet: an older decision may be about older content than hosts
        # have.
        return Choice(ContentSource.HELD, status.stable)
    if status.next is None:
        if is_left_behind(config_set, members):
            return Choice(ContentSource.HELD, status.stable)
        return Choice(ContentSource.REVISION, status.stable)
    grouped = is_grouped(config_set)
    turn = has_turn_together(config_set, host, peers) if grouped else has_turn(status, host)
    if turn is None:
        return Choice(ContentSource.HELD, status.stable)
    return Choice(ContentSource.REVISION, status.next if turn else status.stable)


def for_host(
    config_set: ConfigSet, kept: ConfigSet | None, host: ObjectMeta, peers: Peers = ALONE,
    *, holds: bool = False,
) -> Choice:  # fmt: skip
    """Return the content of a set for a host that has `kept` of it; only a revision that is meant for it.

    HELD is what it has. If that is nothing, the set is for it, and nobody has decided about it yet. `holds`:
    it has something of another set of the group, so that it has nothing of this one is held, too. One
    that has nothing of any takes what is stable, unless that is the old of one set and the new of another.
    """
    choice = chosen(config_set, host, peers)
    if choice.content is ContentSource.SPEC or (choice.content is ContentSource.HELD and kept is not None):
        return choice
    if is_meant(choice.revision, host.labels):
        held = choice.content is ContentSource.HELD and (holds or is_half_stable(config_set, peers))
        return choice if held else Choice(ContentSource.REVISION, choice.revision)
    if choice.content is ContentSource.HELD and choice.revision is None:
        waits = matching.matches(config_set, host.labels)
    else:
        waits = kept is not None and may_be_ahead(config_set, kept, choice)
    return Choice(ContentSource.HELD if waits else ContentSource.REVISION)


def may_be_ahead(config_set: ConfigSet, kept: ConfigSet, choice: Choice) -> bool:
    """Tell whether what is stable may be older than what a host has.

    It took that when changes still reached all hosts at once, maybe while no operator was there to see it.
    """
    status = config_set.status.rollout
    if status is None or applied(kept).revision or (status.next is None and status.refused is None):
        return False
    return choice.revision == status.stable


def is_newest(config_set: ConfigSet, revision: RevisionRef) -> bool:
    """Tell whether a revision is what a set says now."""
    status, meta = config_set.status.rollout, config_set.metadata
    return status is not None and (status.current, status.observed_generation) == (
        revision.name,
        meta.generation,
    )


def in_force(
    config_set: ConfigSet, revision: RevisionRef, spec: ConfigSetSpec, written: ObjectMeta
) -> ConfigSet:
    """Return a set as a host has it that has a revision of it, which says `spec` and was `written` so.

    It has the labels and the generation of the revision, and says by itself which one it is (`applied`).
    """
    meta = config_set.metadata
    generation = meta.generation if is_newest(config_set, revision) else written.generation
    published = RolloutStatus(observed_generation=generation, current=revision.name, stable=revision)
    return ConfigSet(
        metadata=msgspec.structs.replace(
            meta, labels=revision.labels, generation=generation, resource_version=written.resource_version
        ),
        spec=msgspec.structs.replace(
            spec, rollout=Rollout(strategy=STAGED), enforcement=config_set.spec.enforcement
        ),
        status=ConfigSetStatus(rollout=published),
    )


def applied(config_set: ConfigSet) -> RevisionRef:
    """Return the revision of a set that a host has; number 0 = the set is not rolled out in stages."""
    status = config_set.status.rollout if is_staged(config_set.spec.rollout) else None
    return (status.stable if status else None) or RevisionRef()
