"""Which ConfigSets are looked at together: those that move together."""

from __future__ import annotations

from collections.abc import Iterable

from nodemanager.api.common import rolloutpolicy
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.rollout import is_staged
from nodemanager.api.common.rolloutpolicy import RolloutPolicy


def group_of(config_set: ConfigSet, default: RolloutPolicy | None) -> str:
    """Return the group of a set in a namespace with this default; empty = it moves alone.

    A set that follows a deleted default stays in its group while it is half-way.
    """
    rollout, published = config_set.spec.rollout, config_set.status.rollout
    if config_set.metadata.deletion_timestamp:
        return ""
    if rollout is not None:
        return rollout.group if is_staged(rollout) else ""
    if (found := rolloutpolicy.in_force(default)) is not None:
        return found.spec.group
    if published is None or published.policy is None or published.group is None:
        return ""
    return published.group.name if published.next is not None or published.refused is not None else ""


def together(
    config_set: ConfigSet, sets: Iterable[ConfigSet], default: RolloutPolicy | None
) -> list[ConfigSet]:
    """Return the sets that move with a set, itself included, by name: the first one is woken for all."""
    group, namespace = group_of(config_set, default), config_set.metadata.namespace
    if not group:
        return [config_set]
    here = (one for one in sets if one.metadata.namespace == namespace)
    return sorted((one for one in here if group_of(one, default) == group), key=lambda one: one.metadata.name)
