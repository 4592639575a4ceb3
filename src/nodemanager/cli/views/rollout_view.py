"""How far the rollout of a ConfigSet is, in words. Pure."""

from __future__ import annotations

from typing import Final

from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.rollout import STABLE
from nodemanager.fleet.rollout.reasons import REMEDIES, RolloutReason

TOLD_UNDECIDED: Final = (RolloutReason.REVISION_TOO_LARGE, RolloutReason.GROUP_TOO_LARGE)
"""Why there is no decision about the content of a set."""


def words(config_set: ConfigSet) -> str:
    """Return how far a rollout is, and what to do about it."""
    status, name = config_set.status.rollout, config_set.metadata.name
    undecided = status is None or status.observed_generation < config_set.metadata.generation
    if status is None or (undecided and status.reason not in TOLD_UNDECIDED):
        return f"{name}: waits for the operator"
    counts = status.counts
    said = f"{name}: {status.phase} ({status.reason})"
    if status.policy is not None:
        said += ", by the default of the namespace"
    if status.group is not None:
        others = [one.name for one in status.group.members if one.name != name]
        said += f", together with group {status.group.name}" + (f" ({', '.join(others)})" if others else "")
    if status.next is not None and counts is not None:
        said += f", {counts.healthy} of {counts.hosts} hosts are healthy with revision {status.next.revision}"
    if status.message:
        said += f": {status.message}"
    known = status.reason in list(RolloutReason) and status.phase != STABLE
    return f"{said}. {REMEDIES[RolloutReason(status.reason)]}" if known else said
