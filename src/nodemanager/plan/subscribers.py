"""Which services restart, and which executions run, when a path changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from nodemanager.plan import resources
from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import FileStep, Step


def subscribers(desired: Desired) -> Mapping[str, tuple[ResourceId, ...]]:
    """Return the subscribers of each path; services before executions, as in a pass."""
    found: dict[str, dict[ResourceId, None]] = defaultdict(dict)
    for items in desired.items.values():
        for item in items:
            for path in item.subscribes:
                found[path][item.id] = None
    return {path: tuple(owed) for path, owed in found.items()}


def owed(steps: Iterable[Step]) -> Mapping[ResourceId, tuple[str, ...]]:
    """Return what the changes of files in a plan would make restart or run, with the paths."""
    found: dict[ResourceId, dict[str, None]] = defaultdict(dict)
    for step in steps:
        if isinstance(step, FileStep):
            for resource in step.notifies:
                found[resource][resources.shown(step.path)] = None
    return {resource: tuple(paths) for resource, paths in found.items()}


def because(causes: Sequence[str]) -> str:
    """Return, in words, that these paths changed."""
    if len(causes) == 1:
        return f"{causes[0]} changed"
    return f"{causes[0]} and {len(causes) - 1} more changed"


def held_cause(paths: Iterable[str], desired: Desired) -> str:
    """Return the first of these paths that is in conflict, as a resource; empty if none is."""
    return next((str(one) for one in map(resources.file_id, paths) if one in desired.held), "")
