"""ConfigSets that move together: one decision for all of them, and what each publishes of it. Pure.

The group is decided about as if it were one set, whose revisions are changes of the group (`GroupRef`). What
is published of that is written into one set after the other, so the next look may find it half done:

| of one change                       | it goes on with                                                   |
|-------------------------------------|-------------------------------------------------------------------|
| stable in some sets, next in others | the end: it becomes stable in all                                 |
| refused in some, next in others     | the way back, in all                                              |
| next in all                         | the lowest threshold: that is the one by which hosts have decided |
| anything else                       | the first stage of what the sets say now                          |

`api.common.choosing` has the same table for hosts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from nodemanager.api.common import choosing, rollout_groups
from nodemanager.api.common.choosing import ChangeState
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetrevision import RESTART
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.rollout import STABLE, RevisionRef, Rollout, RolloutApproval, RolloutStatus
from nodemanager.api.common.rollout_groups import GroupMember, GroupRef
from nodemanager.fleet.rollout import beginning, judging, widening
from nodemanager.fleet.rollout.looking import RolloutLook, elapsed
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.fleet.rollout.remembering import RolloutPart
from nodemanager.fleet.rollout.witness import Witness
from nodemanager.kube.objects import ObjectMeta

SETTLE_SECONDS: Final = 10.0
"""For how many seconds no set may change before the first host takes a change: sets are applied one by one.
"""
MAX_RESTART: Final = 64
"""Most characters of the annotation that restarts it, as in the schema of the status."""


class Member(NamedTuple):
    """One set of a group, treated as if it declared its rollout itself."""

    config_set: ConfigSet
    current: RevisionRef
    """Its present content."""
    known: Sequence[RevisionRef] = ()
    """Revisions that existed before, if nothing is published."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.config_set.metadata.name

    @property
    def rollout(self) -> Rollout:
        """How the set is rolled out."""
        return self.config_set.spec.rollout or Rollout()


class GroupDecision(NamedTuple):
    """What each set has to publish, by name, and when to look again if no event comes."""

    statuses: Mapping[str, RolloutStatus]
    again: float | None = None
    """In seconds; None = only when an event comes."""
    witness: Witness = Witness()
    """What this process knows after the look."""


class Joint(NamedTuple):
    """The common status of all sets."""

    status: RolloutStatus
    """As if the group were one set: its next and refused revisions are changes of the group."""
    change: GroupRef
    """The change of the group."""
    unfinished: bool = False
    """Whether the change is stable in some sets, and not yet in others."""


def decide(
    name: str, members: Sequence[Member], nodes: Sequence[ManagedNode], look: RolloutLook
) -> GroupDecision:
    """Return what the sets of a group have to publish; each look does one step."""
    olds = {one.name: _old(name, one, nodes, look.now) for one in members}
    joint = joined(name, olds)
    if joint.unfinished:
        return _finished(members, joint.change, look.now)
    rollout, change = one_rollout(members), change_of(name, members, olds)
    old = beginning.again(joint.status, look.now) if _is_restarted(members) else joint.status
    if old.refused is not None and _is_tried(joint.change, change, olds):
        old = msgspec.structs.replace(old, refused=_reference(change))
    newest = judging.newest(nodes, look.now)
    base = beginning.begin(rollout, old, _reference(change), look.now, newest)
    about = change if change.id else joint.change  # sets that say again what is stable return from that

    def parts_of(status: RolloutStatus) -> list[RolloutPart]:
        views = {one.name: published(one, olds[one.name], about, status) for one in members}
        return [RolloutPart(one, view) for one, view in views.items() if view.next or view.refused]

    gates = look.gates._replace(mismatch=mismatch(members), settling=_settles(base, look.now))
    found = judging.go_on(rollout, base, parts_of, nodes, look._replace(gates=gates))
    told = {one.name: published(one, olds[one.name], about, found.status) for one in members}
    return GroupDecision(told, found.again, found.witness)


def joined(name: str, olds: Mapping[str, RolloutStatus]) -> Joint:
    """Return the common status of sets, by name, even if only part of it was written."""
    changes = {one.group.id: one.group for one in olds.values() if one.group is not None and one.group.id}
    for change in changes.values():
        named = {one.name: choosing.standing(one.name, olds.get(one.name), change) for one in change.members}
        kinds, there = set(named.values()), [one for one in named if one in olds]
        if {ChangeState.PROVEN, ChangeState.NEXT} <= kinds:
            return Joint(RolloutStatus(), change, unfinished=True)
        if ChangeState.PROVEN not in kinds and ChangeState.REFUSED in kinds:
            base = next(olds[one] for one in there if named[one] is ChangeState.REFUSED)
            return Joint(_as_one(base, refused=_reference(change)), change)
        if kinds == {ChangeState.NEXT}:
            base = min((olds[one] for one in there), key=lambda one: (one.threshold, one.stage))
            return Joint(_as_one(base, next_=_reference(change)), change)
    quiet = (one for one in olds.values() if one.phase == STABLE and one.next is None)
    return Joint(_as_one(next(quiet, RolloutStatus())), GroupRef(name=name))


def change_of(name: str, members: Sequence[Member], olds: Mapping[str, RolloutStatus]) -> GroupRef:
    """Return the change in the present contents: the sets whose content differs from what is stable."""
    stable = {one: old.stable.digest if old.stable is not None else "" for one, old in olds.items()}
    news = [one for one in members if one.current.digest != stable[one.name]]
    return rollout_groups.change_of(
        name, [GroupMember(name=one.name, digest=one.current.digest) for one in news]
    )


def changing(members: Sequence[Member]) -> list[Member]:
    """Return the members whose content differs from what is published as stable."""
    statuses = [(one, one.config_set.status.rollout) for one in members]
    return [
        one
        for one, status in statuses
        if status is None or status.stable is None or status.stable.digest != one.current.digest
    ]


def one_rollout(members: Sequence[Member]) -> Rollout:
    """Return how a group is rolled out: as its first set declares, and paused if one of them is."""
    return msgspec.structs.replace(members[0].rollout, paused=any(one.rollout.paused for one in members))


def mismatch(members: Sequence[Member]) -> str:
    """Return the fields in which members must agree and do not; empty = they agree."""
    first = members[0]
    for one in members[1:]:
        mine, theirs = _alike(first.rollout), _alike(one.rollout)
        names = zip(Rollout.__struct_fields__, Rollout.__struct_encode_fields__, strict=True)
        fields = [said for name, said in names if getattr(mine, name) != getattr(theirs, name)]
        where = [f"spec.rollout.{said}" for said in fields]
        if one.config_set.spec.enforcement != first.config_set.spec.enforcement:
            where.append("spec.enforcement")
        if where:
            return f"{one.name} and {first.name} of the group differ in {', '.join(where)}"
    return ""


def alone(old: RolloutStatus, now: datetime) -> RolloutStatus:
    """Return the status of a set that has left a group: it begins anew."""
    if old.next is None:
        return msgspec.structs.replace(old, group=None)
    return beginning.stable(old, old.stable, RolloutReason.NO_CHANGE, now)


def restart_of(config_set: ObjectMeta) -> str:
    """Return the word by which a person restarts a set."""
    return config_set.annotations.get(RESTART, "")[:MAX_RESTART]


def published(member: Member, old: RolloutStatus, change: GroupRef, status: RolloutStatus) -> RolloutStatus:
    """Return what one set publishes in this state of the group's change."""
    current, mine = member.current, bool(change.digest_of(member.name))
    is_stable = old.stable is not None and old.stable.digest == current.digest
    ends = status.next is None and status.refused is None
    refused = current if not is_stable else old.next or old.refused
    kept = old.group if old.group is not None and ends and is_stable else None
    return msgspec.structs.replace(
        status,
        observed_generation=member.config_set.metadata.generation,
        current=current.name,
        restarted=restart_of(member.config_set.metadata) or old.restarted,
        stable=current if is_stable or ends else old.stable,
        next=current if status.next is not None and mine else None,
        refused=refused if status.refused is not None and mine else None,
        group=kept or (change if mine else GroupRef(name=change.name)),
    )


def _old(name: str, member: Member, nodes: Sequence[ManagedNode], now: datetime) -> RolloutStatus:
    """Return from where a set goes on; what it did without the group begins anew."""
    found = member.config_set.status.rollout
    if found is None:
        return judging.first_seen(
            member.config_set.metadata, RolloutStatus(), member.current, member.known, nodes
        )
    return found if found.group is not None and found.group.name == name else alone(found, now)


def _as_one(
    base: RolloutStatus, *, next_: RevisionRef | None = None, refused: RevisionRef | None = None
) -> RolloutStatus:
    """Return a status as if the group were one set; its stable revision has no digest."""
    return msgspec.structs.replace(
        base, stable=RevisionRef(), next=next_, refused=refused, policy=None, group=None, restarted=""
    )


def _reference(change: GroupRef) -> RevisionRef:
    """Return a change as a revision of a group; an empty change is the stable revision."""
    return (
        RevisionRef(name=f"the change of group {change.name}", digest=change.id)
        if change.id
        else RevisionRef()
    )


def _is_tried(refused: GroupRef, change: GroupRef, olds: Mapping[str, RolloutStatus]) -> bool:
    """Tell whether a change is the one that was undone, maybe without sets that left the group since."""
    left = [one for one in refused.members if one.name in olds]
    return bool(left) and left == change.members


def _is_restarted(members: Sequence[Member]) -> bool:
    """Tell whether a person restarted one of the sets, which counts for all."""
    for one in members:
        status, said = one.config_set.status.rollout, restart_of(one.config_set.metadata)
        if status is not None and said not in ("", status.restarted):
            return True
    return False


def _settles(base: RolloutStatus, now: datetime) -> float:
    """Return for how many seconds the other sets may still change."""
    if base.next is None or widening.has_begun(base):
        return 0.0
    if base.reason == RolloutReason.STARTED:
        return SETTLE_SECONDS
    if base.reason != RolloutReason.GROUP_SETTLING:
        return 0.0
    return min(SETTLE_SECONDS, SETTLE_SECONDS - elapsed(base, now))


def _finished(members: Sequence[Member], change: GroupRef, now: datetime) -> GroupDecision:
    """Make a change stable in the sets in which it is not yet, and change nothing else."""
    told: dict[str, RolloutStatus] = {}
    for one in members:
        status = one.config_set.status.rollout
        if status is None:
            continue
        if choosing.standing(one.name, status, change) is ChangeState.NEXT:
            done = beginning.stable(status, status.next, RolloutReason.ROLLED_OUT, now)
            status = msgspec.structs.replace(done, group=change)
        told[one.name] = status
    return GroupDecision(told, 0.0)


def _alike(rollout: Rollout) -> Rollout:
    """Return the fields in which the sets of a group must agree."""
    asked = rollout.approval
    if asked is not None:
        asked = RolloutApproval(required=asked.required, different_user=asked.different_user)
    return msgspec.structs.replace(rollout, paused=False, approval=asked)
