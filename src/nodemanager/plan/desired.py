"""What a host shall be: the declarations of all its ConfigSets, merged into one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from nodemanager.api.common.declarations import Execution, File, Package, Service
from nodemanager.plan.resources import ResourceId

D = TypeVar("D", Package, File, Service, Execution)


@dataclass(frozen=True, slots=True)
class Item(Generic[D]):
    """One resource and how it is declared."""

    id: ResourceId
    declaration: D
    sources: tuple[str, ...]
    """Names of the ConfigSets that declare it so; its result is reported for each of them."""
    observe: bool = False
    """What somebody else changes after it held is reported and left alone."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a file shall contain."""

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
    """With the same inputs it may be otherwise the next time."""


Contents = Mapping[str, Content | Failure]
"""By path, for every item of `Desired.files` that is a file."""


@dataclass(frozen=True, slots=True)
class Desired:
    """All resources of a host, each declared once."""

    packages: tuple[Item[Package], ...] = ()
    files: tuple[Item[File], ...] = ()
    services: tuple[Item[Service], ...] = ()
    executions: tuple[Item[Execution], ...] = ()
    conflicts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By ConfigSet: what is held back because another one says otherwise, in the words of the Go project."""
    held: Mapping[ResourceId, str] = field(default_factory=dict)
    """Resources in conflict, which are in none of the lists above, and why in one sentence."""
