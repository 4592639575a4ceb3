"""Which rollout applies to a set: its own, or else the default of its namespace."""

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
    """A set, treated as if it declared its rollout itself."""

    config_set: ConfigSet
    policy: PolicyRef | None = None
    """The default that it follows; None = it follows none."""
    gone: bool = False
    """Whether the default is gone while the set is half-way: then no further host takes its change."""

    @property
    def is_edited(self) -> bool:
        """Whether the set, or the default that it follows, was changed since the last look."""
        published, meta = self.config_set.status.rollout, self.config_set.metadata
        if published is None:
            return False
        return (published.observed_generation, published.policy) != (meta.generation, self.policy)

    def told(self, status: RolloutStatus) -> RolloutStatus:
        """Return a status that names the default of the set: by that, hosts know that they have to wait."""
        return msgspec.structs.replace(status, policy=self.policy)


def followed(config_set: ConfigSet, policy: RolloutPolicy | None, digest: str) -> FollowedSet:
    """Return the rollout of a set with this digest; `policy` is the default."""
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
        """Return the rollout that applies to a set.

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
