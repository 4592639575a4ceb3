"""What is to be done to a host, one dataclass per deed; a step says why, and does nothing by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nodemanager.api.common.declarations import Execution, Validation
from nodemanager.plan.desired import Content
from nodemanager.plan.facts import FileFact
from nodemanager.plan.resources import ResourceId


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something about one resource."""

    id: ResourceId
    sources: tuple[str, ...]
    """The ConfigSets it is done for."""
    reason: str
    """Why, in a few words: `content differs`, `is not running`; of a no-op: why nothing is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noop(Step):
    """Nothing: the resource is as declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked(Step):
    """Nothing, although something would be needed: the reason says what is in the way and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed(Step):
    """Nothing, although somebody else changed it: its drift policy says to leave it alone."""

    would: Step
    """What would put it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPackage(Step):
    """Install, upgrade or downgrade a package."""

    name: str
    version: str = ""
    """The exact version; empty = the newest that is offered."""
    newer: bool = False
    """Only a newer version is offered: nobody changed anything here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePackage(Step):
    """Remove a package, and nothing else."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStep(Step):
    """Something about one path."""

    path: str
    before: FileFact
    notifies: tuple[ResourceId, ...] = ()
    """Services and executions that are owed a restart or run once this is done."""
    needs: tuple[ResourceId, ...] = ()
    """Steps that must succeed first: the directory that it is in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFile(FileStep):
    """Put content at a path; what is there now is replaced at once, and kept in the bucket."""

    content: Content
    mode: int
    uid: int
    gid: int
    validation: Validation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAttributes(FileStep):
    """Set owner, group and mode of what is there; None = as it is."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeDirectory(FileStep):
    """Make a directory and, with mode 0755 and root as their owner, the parents that are missing."""

    mode: int
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeLink(FileStep):
    """Make a symbolic link, in place of the link or file that is there."""

    target: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePath(FileStep):
    """Remove a file (kept in the bucket), a link, or a directory that is empty."""

    purged: bool = False
    """Nobody declares the path: it goes because the directory that it is in is purged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeService(Step):
    """Enable, disable, start or stop a service, set its arguments; None = as it is."""

    name: str
    user: str = ""
    enable: bool | None = None
    arguments: str | None = None
    run: bool | None = None
    """True starts it, False stops it."""
    refresh: bool = False
    """The service manager has to read its unit files again first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartService(Step):
    """Restart or reload a running service because files that it subscribes to have changed."""

    name: str
    user: str = ""
    reload: bool = False
    lock_group: str = ""
    causes: tuple[str, ...] = ()
    refresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand(Step):
    """Run a program."""

    execution: Execution
    causes: tuple[str, ...] = ()


IDLE = (Noop, Blocked, Observed)


def changes(steps: Sequence[Step]) -> list[Step]:
    """Return the steps that would change something."""
    return [step for step in steps if not isinstance(step, IDLE)]
