"""Observed facts about a host: with the declarations, the only input of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from nodemanager.plan.resources import ResourceId

NOBODY: Final = -1
"""No user but root."""
ANYBODY: Final = -2
"""More than one user besides root, or unknown."""


class Kind(StrEnum):
    """What is at a path."""

    ABSENT = "absent"
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"
    """A device, socket or pipe."""

    @property
    def words(self) -> str:
        """What it is, with its article, for a sentence."""
        return "a device, socket or pipe" if self is Kind.OTHER else f"a {self}"


@dataclass(frozen=True, slots=True)
class FileFact:
    """What is at a path, the last component not followed."""

    kind: Kind = Kind.ABSENT
    mode: int = 0
    """Permission bits with setuid, setgid and sticky; 0 for what is absent."""
    uid: int = 0
    gid: int = 0
    digest: str = ""
    """SHA-256 of the content of a file, in hex."""
    target: str = ""
    """Where a symlink points to."""
    links: int = 1
    """How many names the inode has."""
    error: str = ""
    """Why it could not be observed; everything else is then meaningless."""
    writer: int = NOBODY
    """Which user besides root can replace what is at this path: NOBODY, one user's number, or ANYBODY."""
    marked: bool = False
    """Whether we made this very directory for this path; looked for only where others can move one there."""
    acl: bool = False
    """Whether it has an access control list; checked only where another user could have made one."""


@dataclass(frozen=True, slots=True)
class PackageFacts:
    """What the package manager knows."""

    installed: Mapping[str, str] = field(default_factory=dict)
    """Version by name of everything that is installed."""
    candidates: Mapping[str, str] = field(default_factory=dict)
    """Newest version that is offered, by name, of the packages that were asked about."""
    error: str = ""
    """Why there are no facts: no package manager, or it failed."""


@dataclass(frozen=True, slots=True)
class ServiceFact:
    """The state of a service."""

    known: bool = False
    """Whether the service manager has such a service at all."""
    running: bool = False
    enabled: bool | None = None
    """Whether it starts at boot; None where that cannot be said (static, generated, or no such notion)."""
    state: str = ""
    """The service manager's own words, such as `failed` or `masked`."""
    arguments: str | None = None
    """Flags in rc.conf, on FreeBSD."""
    unsettled: bool = False
    """Neither running nor stopped: on its way, or it crashed and is about to be started again."""
    stale: bool = False
    """The unit file changed on disk since the service manager read it."""
    unit: str = field(default="", compare=False)
    """Its first name, which all its aliases lead to; empty where a service has one name only."""
    error: str = ""
    """Why it could not be observed."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A restart, reload or execution that is owed since a file was changed."""

    causes: tuple[str, ...]
    """The paths that changed."""
    since: float = 0.0
    """Unix time of the first of them."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the conditions of an execution say now; None = there is no such condition."""

    created: bool | None = None
    """Whether the path of `creates` exists."""
    only_if: bool | None = None
    """Whether the program of `onlyIf` ended with 0."""
    unless: bool | None = None
    """Whether the program of `unless` ended with 0."""
    error: str = ""
    """Why a condition could not be asked."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was observed for one plan; what was not asked for is missing."""

    files: Mapping[str, FileFact] = field(default_factory=dict)
    listings: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    """Names in the directories that are purged; None where listing failed."""
    packages: PackageFacts = field(default_factory=PackageFacts)
    services: Mapping[ResourceId, ServiceFact] = field(default_factory=dict)
    users: Mapping[str, int] = field(default_factory=dict)
    """Number of every user that was asked about and exists."""
    groups: Mapping[str, int] = field(default_factory=dict)
    pending: Mapping[ResourceId, Pending] = field(default_factory=dict)
    verdicts: Mapping[ResourceId, Verdicts] = field(default_factory=dict)
