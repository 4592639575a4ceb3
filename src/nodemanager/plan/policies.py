"""Drift policies in a plan: what somebody else changed is left alone where that is declared."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from nodemanager.plan import resources
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import (
    ChangeService,
    FileStep,
    InstallPackage,
    Observed,
    RemovePackage,
    RemovePath,
    Step,
)

_REPAIRS: Final = (FileStep, InstallPackage, RemovePackage, ChangeService)
"""What puts something back; a restart or a run does not."""


def leave_alone(
    steps: Iterable[Step], alone: AbstractSet[ResourceId], declared: AbstractSet[str] = frozenset()
) -> list[Step]:
    """Return the steps with those turned into observations that would put back one of `alone`.

    `declared` are all paths that somebody declares: any other that is removed is purged, which is up to
    the directory.
    """
    if not alone:
        return list(steps)
    return [
        Observed(id=step.id, sources=step.sources, reason=step.reason, would=step)
        if isinstance(step, _REPAIRS) and _keeper(step, declared) in alone and not _is_news(step)
        else step
        for step in steps
    ]


def _keeper(step: Step, declared: AbstractSet[str]) -> ResourceId:
    """Return the resource whose policy a step follows."""
    if isinstance(step, RemovePath) and step.path not in declared:
        return resources.file_id(step.path.rpartition("/")[0] or "/")
    return step.id


def _is_news(step: Step) -> bool:
    return isinstance(step, InstallPackage) and step.newer
