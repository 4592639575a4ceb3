"""Which steps of a plan are left out: by a drift policy, a hold of the host, or a shut window."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import HeldStep, Observed, ShutStep, Step


def leave_alone(steps: Iterable[Step], observe_only: AbstractSet[ResourceId]) -> list[Step]:
    """Return the steps; those that would put back a resource of `observe_only` become observations."""
    if not observe_only:
        return list(steps)
    return [
        Observed(id=step.id, sources=step.sources, reason=step.reason, would=step)
        if step.follows_policy and step.owning_resource in observe_only
        else step
        for step in steps
    ]


def hold_back(steps: Iterable[Step]) -> list[Step]:
    """Return the steps of a host that is held: none of them changes anything."""
    return [
        HeldStep(id=step.id, sources=step.sources, reason=step.reason, would=step) if step.ACTS else step
        for step in steps
    ]


def put_off(steps: Iterable[Step], shut: AbstractSet[str]) -> list[Step]:
    """Return the steps, with those delayed that only ConfigSets with a shut window want."""
    if not shut:
        return list(steps)
    return [
        ShutStep(id=step.id, sources=step.sources, reason=step.reason, would=step)
        if step.ACTS and step.sources and shut >= set(step.sources)
        else step
        for step in steps
    ]
