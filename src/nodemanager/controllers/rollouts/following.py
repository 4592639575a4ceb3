"""Which rollout is in force for a set: its own, or else the default of its namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from nodemanager.api.common import rolloutpolicy
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.rollout import STAGED, PolicyRef, Rollout, RolloutStatus
from nodemanager.api.common.rolloutpolicy import DEFAULT, ROLLOUT_POLICIES, RolloutPolicy
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache


class FollowedSet(NamedTuple):
    """A set, as if it said by itself how it is rolled out."""

    config_set: ConfigSet
    policy: PolicyRef | None = None
    """What it follows; None = nothing but itself."""
    gone: bool = False
    """That is gone, and the set is half-way: no further host takes its change."""

    @property
    def is_edited(self) -> bool:
        """Whether somebody changed the set since the last look, or what it follows."""
        published, meta = self.config_set.status.rollout, self.config_set.metadata
        if published is None:
            return False
        return (published.observed_generation, published.policy) != (meta.generation, self.policy)

    def told(self, status: RolloutStatus) -> RolloutStatus:
        """Return a status that says what the set follows: by that, hosts know that they wait."""
        return msgspec.structs.replace(status, policy=self.policy)


def followed(config_set: ConfigSet, policy: RolloutPolicy | None, digest: str) -> FollowedSet:
    """Return what is in force for a set that says something with this digest; `policy` is the default."""
    if config_set.spec.rollout is not None:
        return FollowedSet(config_set)
    published = config_set.status.rollout
    if (found := rolloutpolicy.in_force(policy)) is not None:
        return FollowedSet(_with(config_set, found.spec), rolloutpolicy.reference(found))
    if published is not None and rolloutpolicy.is_half_way(published, digest):
        group = published.group.name if published.group is not None else ""
        return FollowedSet(
            _with(config_set, Rollout(strategy=STAGED, group=group)), published.policy, gone=True
        )
    return FollowedSet(config_set)


def _with(config_set: ConfigSet, rollout: Rollout) -> ConfigSet:
    spec = msgspec.structs.replace(config_set.spec, rollout=rollout)
    return ConfigSet(config_set.metadata, spec, config_set.status)


@dataclass(frozen=True, slots=True)
class Defaults:
    """The defaults of namespaces."""

    client: Client
    policies: Cache[RolloutPolicy]

    async def of(self, config_set: ConfigSet, digest: str) -> FollowedSet:
        """Return what is in force for a set.

        When a change of it is seen for the first time, the API is asked: the cache may have the change, and
        not yet the default that was made before it.
        """
        if config_set.spec.rollout is not None:
            return FollowedSet(config_set)
        namespace, published = config_set.metadata.namespace, config_set.status.rollout
        stable = published.stable if published is not None else None
        known = stable is not None and stable.digest == digest
        if known or rolloutpolicy.is_half_way(published, digest):
            return followed(config_set, self.policies.get(ObjectKey(namespace, DEFAULT)), digest)
        try:
            policy = await self.client.get(ROLLOUT_POLICIES, DEFAULT, namespace)
        except errors.NotFound:
            return followed(config_set, None, digest)
        return followed(config_set, policy, digest)
