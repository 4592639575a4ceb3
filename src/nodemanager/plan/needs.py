"""What has to be observed for a plan, so that no more is looked at on the host."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Final

from nodemanager.api.common.declarations import Execution, Service
from nodemanager.plan.desired import Content, Contents, Desired, Item
from nodemanager.plan.resources import ResourceId

ANY_SIZE: Final = -1
"""Stands for a size: the file has to be read, however long it is."""


@dataclass(frozen=True, slots=True)
class FileNeeds:
    """For the stage of files."""

    sizes: Mapping[str, int | None]
    """Every relevant path, with the size that its content should have if that matters: a file of another size
    differs, so it need not be read."""
    purged: tuple[str, ...]
    """Directories whose entries matter."""
    users: frozenset[str]
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class PackageNeeds:
    """For the stage of packages."""

    any: bool
    latest: tuple[str, ...]
    """Packages whose newest version on offer matters."""


ServiceNeeds = tuple[Item[Service], ...]
"""For the stage of services."""

ExecutionNeeds = tuple[Item[Execution], ...]
"""For the stage of executions: those with conditions."""


def file_needs(desired: Desired, contents: Contents) -> FileNeeds:
    """Return what the plan for files looks at."""
    files = [item.declaration for item in desired.files]
    sizes: dict[str, int | None] = {}
    for file in files:
        content = None if file.create_only else contents.get(file.path)
        sizes[file.path] = content.size if isinstance(content, Content) else None
    return FileNeeds(
        sizes=sizes,
        purged=tuple(file.path for file in files if file.purge and file.ensure == "directory"),
        users=frozenset(file.owner for file in files if file.owner),
        groups=frozenset(file.group for file in files if file.group),
    )


def package_needs(desired: Desired) -> PackageNeeds:
    """Return what the plan for packages looks at."""
    latest = (item.declaration.name for item in desired.packages if item.declaration.ensure == "latest")
    return PackageNeeds(bool(desired.packages), tuple(latest))


def execution_needs(desired: Desired, owed: Container[ResourceId]) -> ExecutionNeeds:
    """Return what the plan for executions has to observe; nothing about those that would not run anyway."""
    conditional = []
    for item in desired.executions:
        execution = item.declaration
        may_run = not execution.subscribe_files or item.id in owed
        if may_run and (execution.creates or execution.only_if or execution.unless):
            conditional.append(item)
    return tuple(conditional)
