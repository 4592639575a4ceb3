"""Which hosts are on their way to a change that reaches hosts by stages: they count in all budgets. Pure.

A host is on its way from its turn until it is healthy with the change or has failed; if the change is undone,
until it has returned. One that waits for its window or for a lock has not begun yet. A set that changes all
hosts as they come (AllAtOnce) never has one on the way: the operator does not decide when they change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from nodemanager.api.common import choosing
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.rollout import UNDOING, RolloutStatus
from nodemanager.fleet.rollout import facts
from nodemanager.fleet.rollout.facts import RolloutProgress
from nodemanager.fleet.rollout.reasons import RolloutReason


class UnderWay(NamedTuple):
    """A change that is being rolled out or undone, without the parts that are only for people."""

    name: str
    """The name of the ConfigSet."""
    status: RolloutStatus


def of_set(config_set: ConfigSet) -> UnderWay | None:
    """Return the change of a set that is under way; None = there is none."""
    status = config_set.status.rollout
    if status is None or config_set.metadata.deletion_timestamp or not choosing.in_stages(config_set):
        return None
    returns = status.phase == UNDOING and status.reason != RolloutReason.HOSTS_NOT_RETURNED
    if status.next is None and not (returns and status.refused is not None):
        return None
    kept = msgspec.structs.replace(status, message="", counts=None, since=None, phase="", reason="")
    return UnderWay(config_set.metadata.name, kept)


def hosts(changes: Iterable[UnderWay], nodes: Sequence[ManagedNode]) -> dict[str, str]:
    """Return the hosts on their way, each with the name of the first set whose change it takes."""
    found: dict[str, str] = {}
    for name, status in changes:
        asked = facts.asking(name, status)
        for node in nodes:
            meta = node.metadata
            if meta.name in found or (status.next is not None and not choosing.has_turn(status, meta)):
                continue
            if not facts.is_concerned(status, node):
                continue
            if facts.progress(asked, node) is RolloutProgress.UNPROVEN:
                found[meta.name] = name
    return found
