"""ConfigSets in one look, those that move together at once, and the questions about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nodemanager.api.common import configsetrevision
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetrevision import ConfigSetRevision
from nodemanager.api.common.rollout import RolloutStatus, is_staged
from nodemanager.controllers.rollouts import revisions
from nodemanager.controllers.rollouts.following import FollowedSet
from nodemanager.controllers.rollouts.gating import AskedChange, GatedRollout, asked_alone
from nodemanager.fleet.rollout import grouping
from nodemanager.fleet.rollout.grouping import Member
from nodemanager.fleet.rollout.remembering import RolloutPart


class LookedAt(NamedTuple):
    """A set, its present content, and how that is rolled out."""

    config_set: ConfigSet
    known: Sequence[ConfigSetRevision]
    """Its revisions; the newest one may be missing."""
    current: ConfigSetRevision
    followed: FollowedSet

    @property
    def name(self) -> str:
        """Its name."""
        return self.config_set.metadata.name

    @property
    def group(self) -> str:
        """The group that it moves with; empty = it moves alone."""
        rollout = self.followed.config_set.spec.rollout
        return rollout.group if rollout is not None and is_staged(rollout) else ""

    @property
    def member(self) -> Member:
        """The member for the decision."""
        others = () if self.config_set.status.rollout else revisions.readable(self.known)
        return Member(self.followed.config_set, configsetrevision.reference(self.current), others)


def parted(looked: Sequence[LookedAt]) -> list[list[LookedAt]]:
    """Return the sets by group, as the rollouts apply now; sets that move alone come one by one."""
    found: dict[str, list[LookedAt]] = {}
    for one in looked:
        found.setdefault(f"group {one.group}" if one.group else one.name, []).append(one)
    return list(found.values())


def in_order(looked: Sequence[LookedAt], told: Mapping[str, RolloutStatus]) -> list[LookedAt]:
    """Return sets in the order in which they are written.

    It is always the same: if two operators differ, one meets a conflict before anything is half done. But
    one that somebody has tried again comes last: if only the others are written, that still counts.
    """
    before = {one.name: one.config_set.status.rollout or RolloutStatus() for one in looked}
    return sorted(looked, key=lambda one: (told[one.name].restarted != before[one.name].restarted, one.name))


def asked_about(looked: Sequence[LookedAt]) -> GatedRollout:
    """Return what gates are asked about: sets that move together, or a single one."""
    first = looked[0].followed.config_set
    if not looked[0].group:
        return asked_alone(first)
    published = {one.name: one.config_set.status.rollout for one in looked}
    moving = {name: one for name, one in published.items() if one is not None and one.next is not None}
    return GatedRollout(
        first,
        next(iter(moving.values()), published[looked[0].name]),
        [RolloutPart(name, one) for name, one in moving.items()],
    )


def asked_changes(looked: Sequence[LookedAt]) -> list[AskedChange]:
    """Return what may need an approval; of sets that move together, each one that changes."""
    news = looked
    if looked[0].group:
        names = {one.name for one in grouping.changing([one.member for one in looked])}
        news = [one for one in looked if one.name in names]
    return [AskedChange(one.followed.config_set.spec.rollout, one.current.spec) for one in news]
