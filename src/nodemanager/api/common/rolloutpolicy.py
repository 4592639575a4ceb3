"""RolloutPolicy: how changes of those ConfigSets of a namespace reach their hosts that do not say it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.api.common.configset import GROUP, VERSION
from nodemanager.api.common.rollout import PolicyRef, Rollout, RolloutStatus, is_staged
from nodemanager.kube.hints import Rule, meta
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

DEFAULT: Final = "default"
"""The one name: hosts may read this one, and no two can contradict each other."""


class RolloutPolicy(Struct):
    """How changes reach hosts where a ConfigSet has no spec.rollout: the default of its namespace."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.metadata.name == '{DEFAULT}'",
            f"metadata.name must be {DEFAULT}: a namespace has one RolloutPolicy, for all ConfigSets that do"
            " not say how they are rolled out",
        ),
    )

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        Rollout,
        meta(
            "As spec.rollout of a ConfigSet.",
            Rule(
                "!has(self.approval) || !has(self.approval.differentUser) || !self.approval.differentUser",
                "must be said in spec.rollout of each ConfigSet, which names its requester",
                ".approval.differentUser",
            ),
            required=True,
        ),
    ] = Rollout()


ROLLOUT_POLICIES: Final = Resource(GROUP, VERSION, "RolloutPolicy", "rolloutpolicies", RolloutPolicy)


def reference(policy: RolloutPolicy) -> PolicyRef:
    """Return what is published of a policy that a set follows."""
    one = policy.metadata
    return PolicyRef(name=one.name, uid=one.uid, generation=one.generation)


def in_force(policy: RolloutPolicy | None) -> RolloutPolicy | None:
    """Return a policy that has hosts wait for their turn; one that does not is as good as none."""
    return policy if policy is not None and is_staged(policy.spec) else None


def is_half_way(published: RolloutStatus | None, digest: str) -> bool:
    """Tell whether a set that follows a policy says something that not all its hosts may have.

    An edit or deletion of the policy does not send that content to all of them.
    """
    if published is None or published.policy is None:
        return False
    return any(one is not None and one.digest == digest for one in (published.next, published.refused))
