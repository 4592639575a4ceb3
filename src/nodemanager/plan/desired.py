"""The wanted state of a host: the declarations of all its ConfigSets, merged into one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from nodemanager.api.common.declarations import REPAIR, Execution, File, Package, Service
from nodemanager.plan.resources import EXEC, FILE, PACKAGE, SERVICE, ResourceId

D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Item(Generic[D]):
    """One resource and how it is declared."""

    id: ResourceId
    declaration: D
    sources: tuple[str, ...]
    """Names of the ConfigSets that declare it so; its result is reported for each of them."""
    policy: str = REPAIR
    """What happens after a foreign change to a resource that held: one of `DRIFT_POLICIES`."""
    turns: tuple[str, ...] = ()
    """Where the policy is in-turn: the ConfigSets that say so. A turn for one of them is enough."""
    subscribes: tuple[str, ...] = ()
    """Paths whose change causes a restart or a run of it."""

    @property
    def observe(self) -> bool:
        """Whether a foreign change after it held is reported, and not repaired automatically."""
        return self.policy != REPAIR


@dataclass(frozen=True, slots=True)
class Content:
    """The wanted content of a file."""

    source: bytes | str
    """Text as it was declared, not a copy of it: most files are never written again."""
    digest: str
    """SHA-256 of `data` in hex."""
    secret: bool = False
    """It was made of a Secret: never shown, never logged, not readable by others unless a mode says so."""

    @property
    def data(self) -> bytes:
        """What is written."""
        return self.source if isinstance(self.source, bytes) else encoded(self.source)

    @property
    def size(self) -> int:
        """How many bytes that are."""
        plain = isinstance(self.source, bytes) or self.source.isascii()
        return len(self.source) if plain else len(self.data)


def encoded(text: str) -> bytes:
    """Return a text as it is written into a file."""
    return text.encode(errors="surrogateescape")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a file's content cannot be had: a template that does not render, a Secret that is missing."""

    message: str
    passing: bool = False
    """The next try may succeed with the same inputs."""
    awaits: str = ""
    """What it is made of that may be on its way, such as `Secret db`; empty = waiting does not help."""


Contents = Mapping[str, Content | Failure]
"""The contents by path, for every item of `Desired.files` that is a file."""


@dataclass(frozen=True, slots=True)
class Desired:
    """All resources of a host, each declared once."""

    items: Mapping[str, tuple[Item[Any], ...]] = field(default_factory=dict)
    """Resources by name of their kind, in the order of a pass; each kind in the order of its declarations."""
    conflicts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By ConfigSet: what is held back because another set contradicts it, in the words of the Go project."""
    held: Mapping[ResourceId, str] = field(default_factory=dict)
    """Resources in conflict, which are in none of the lists, and why in one sentence."""
    whole: Desired | None = None
    """What this is a part of; a sentence about a resource may need to know one of another kind."""

    def installs(self, name: str) -> bool:
        """Whether a package of this name should be installed, even if it is outside this part."""
        packages = (self.whole or self).packages
        return any(item.declaration.name == name and item.declaration.ensure != "absent" for item in packages)

    @property
    def packages(self) -> tuple[Item[Package], ...]:
        """The packages that are declared."""
        return self.items.get(PACKAGE, ())

    @property
    def files(self) -> tuple[Item[File], ...]:
        """The files, directories and links."""
        return self.items.get(FILE, ())

    @property
    def services(self) -> tuple[Item[Service], ...]:
        """The services."""
        return self.items.get(SERVICE, ())

    @property
    def executions(self) -> tuple[Item[Execution], ...]:
        """The executions."""
        return self.items.get(EXEC, ())
