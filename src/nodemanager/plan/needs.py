"""What has to be observed for a plan: no more than that is looked at on the host."""

from __future__ import annotations

from dataclasses import dataclass

from nodemanager.api.declarations import Execution, Service
from nodemanager.plan.desired import Desired, Item


@dataclass(frozen=True, slots=True)
class FileNeeds:
    """For the stage of files."""

    paths: tuple[str, ...]
    digests: frozenset[str]
    """Those of `paths` whose content matters."""
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


@dataclass(frozen=True, slots=True)
class ServiceNeeds:
    """For the stage of services."""

    services: tuple[Item[Service], ...]


@dataclass(frozen=True, slots=True)
class ExecutionNeeds:
    """For the stage of executions: those with conditions."""

    executions: tuple[Item[Execution], ...]


def file_needs(desired: Desired) -> FileNeeds:
    """Return what the plan for files looks at."""
    files = [item.declaration for item in desired.files]
    return FileNeeds(
        paths=tuple(file.path for file in files),
        digests=frozenset(file.path for file in files if file.ensure == "file" and not file.create_only),
        purged=tuple(file.path for file in files if file.purge and file.ensure == "directory"),
        users=frozenset(file.owner for file in files if file.owner),
        groups=frozenset(file.group for file in files if file.group),
    )


def package_needs(desired: Desired) -> PackageNeeds:
    """Return what the plan for packages looks at."""
    latest = (item.declaration.name for item in desired.packages if item.declaration.ensure == "latest")
    return PackageNeeds(bool(desired.packages), tuple(latest))


def service_needs(desired: Desired) -> ServiceNeeds:
    """Return what the plan for services looks at."""
    return ServiceNeeds(desired.services)


def execution_needs(desired: Desired) -> ExecutionNeeds:
    """Return what the plan for executions looks at."""
    conditional = (
        item
        for item in desired.executions
        if item.declaration.creates or item.declaration.only_if or item.declaration.unless
    )
    return ExecutionNeeds(tuple(conditional))
