"""One stage of a pass, and what its steps and results mean for the others. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.plan.host_kinds import AnyKind
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import Blocked, Step
from nodemanager.plan.unmade import HeldBack

_NOTHING: Final[frozenset[ResourceId]] = frozenset()


@dataclass(frozen=True, slots=True)
class PassStage:
    """One kind in a pass or in a repair."""

    kind: AnyKind
    observe_only: AbstractSet[ResourceId]
    """Resources that are only looked at."""
    unknown: Mapping[ResourceId, str] = field(default_factory=dict)
    """Executions that must not run now, and why."""
    held_back: HeldBack = field(default_factory=dict)
    """Resources that must not begin before a file that cannot be made yet."""
    busy: AbstractSet[str] = frozenset()
    """ConfigSets that were busy earlier in this pass: they are not changed in all of it, because later parts
    of a set must not come before earlier ones."""
    held: bool = False
    """Whether a hold stopped an earlier stage: if it has ended since, the next pass does all of the work."""
    changed: AbstractSet[ResourceId] = _NOTHING
    """Changes earlier in this pass or repair: a run that these require is a new one."""
    shut: AbstractSet[str] = frozenset()
    """ConfigSets whose window was shut when the pass or the repair began."""


def was_held(results: Sequence[Result]) -> bool:
    """Tell whether a hold kept anything from being done."""
    return any(one.outcome is ResourceOutcome.HELD for one in results)


def newer(old: list[Result], new: list[Result]) -> list[Result]:
    """Return the results of a second look; what only the first one changed still counts as changed."""
    changed = {one.id: one for one in old if one.outcome is ResourceOutcome.CHANGED}
    both = [changed.pop(one.id, one) if one.outcome is ResourceOutcome.UNCHANGED else one for one in new]
    again = {one.id for one in both}
    return both + [one for one in changed.values() if one.id not in again]


def changed_by(results: Sequence[Result]) -> set[ResourceId]:
    """Return what was changed."""
    return {one.id for one in results if one.outcome is ResourceOutcome.CHANGED}


def bad_sets(results: Sequence[Result]) -> set[str]:
    """Return the sets that do not hold, whether it was tried or not."""
    return {name for one in results if one.bad or one.put_off for name in one.sources}


def without(steps: list[Step], unknown: Mapping[ResourceId, str]) -> list[Step]:
    """Hold back the steps that must not be done now."""
    if not unknown:
        return steps
    return [
        Blocked(id=step.id, sources=step.sources, reason=unknown[step.id]) if step.id in unknown else step
        for step in steps
    ]


def without_aborted(steps: list[Step], aborted: set[str]) -> list[Step]:
    """Hold back the steps of ConfigSets that a failed validation has aborted."""
    if not aborted:
        return steps
    kept: list[Step] = []
    for step in steps:
        if step.sources and aborted.issuperset(step.sources):
            reason = f"ConfigSet {step.sources[0]} was aborted by a validation that failed before"
            kept.append(Blocked(id=step.id, sources=step.sources, reason=reason))
        else:
            kept.append(step)
    return kept
