"""What the plan of one file needs to know about all other declarations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nodemanager.plan import resources
from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.subscribers import subscribers


@dataclass(frozen=True, slots=True)
class Layout:
    """What each file has to know of all others."""

    notified: Mapping[str, tuple[ResourceId, ...]]
    """Subscribers to restart or run when a path changes."""
    declared: frozenset[str]
    """Declared paths, including those in conflict."""
    leaves: Mapping[str, str]
    """Paths below which nothing can be: those that are declared to be absent, or files."""


def layout(desired: Desired) -> Layout:
    """Return what each file has to know of the others."""
    declared = frozenset(item.declaration.path for item in desired.files) | frozenset(
        resource.name for resource in desired.held if resource.kind == resources.FILE
    )
    leaves = {
        item.declaration.path: "absent" if item.declaration.ensure == "absent" else "a file"
        for item in desired.files
        if item.declaration.ensure in ("absent", "file")
    }
    return Layout(subscribers(desired), declared, leaves)
