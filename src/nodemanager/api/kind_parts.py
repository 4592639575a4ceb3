"""What is to be said of a kind: the parts of an entry in the registry (`api/kinds.py` has the list)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from nodemanager.kube.objects import Resource

READ: Final = ("get", "list", "watch")
WRITE: Final = ("create", "update", "patch", "delete")
CATEGORY: Final = "nodemanager"
_FORGOTTEN: Final[Any] = object()
"""Not None and not empty: "no right" is an answer, too, but it has to be given."""


class IncompleteKind(Exception):
    """A part of a kind was forgotten; the message names the kind, the part and the file to edit."""


class KindColumn(NamedTuple):
    """A column of `kubectl get`; priority 1 shows only with `-o wide`."""

    name: str
    path: str
    description: str
    type: str = "string"
    priority: int = 0


AGE: Final = KindColumn("Age", ".metadata.creationTimestamp", "Time since it was created.", "date")


def condition(kind: str, field: str = "status") -> str:
    """Return the path of a column that shows a condition."""
    return f'.status.conditions[?(@.type=="{kind}")].{field}'


@dataclass(frozen=True, slots=True)
class KindRight:
    """Verbs that somebody may use on a kind."""

    verbs: tuple[str, ...]
    subresource: str = ""
    own: bool = False
    """Only on the object that has the host's own name."""
    names: tuple[str, ...] = ()
    """Only on objects of these names."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KindEntry:
    """One of our kinds. Every part has to be given; those that live elsewhere call `kinds.require`."""

    resource: Resource[Any]
    short_names: tuple[str, ...] = _FORGOTTEN
    columns: tuple[KindColumn, ...] = _FORGOTTEN
    page: str = _FORGOTTEN
    """Where its reference is written to, below docs/."""
    hosts: tuple[KindRight, ...] = _FORGOTTEN
    """What every host may do with it."""
    operator: tuple[KindRight, ...] = _FORGOTTEN
    """What controllers may ask for at most, besides reading it: they say themselves what they need."""
    viewers: tuple[KindRight, ...] = _FORGOTTEN
    """The rights of people who only look at it."""
    editors: tuple[KindRight, ...] = _FORGOTTEN
    """The additional rights of people who declare objects of it."""

    def __post_init__(self) -> None:
        for part in fields(self):
            if getattr(self, part.name) is _FORGOTTEN:
                raise IncompleteKind(
                    f"cannot register {self.resource.kind}: it has no {part.name}; say so in {self.file}"
                )
        if self.hosts and not self.resource.namespaced:
            raise IncompleteKind(
                f"cannot register {self.resource.kind}: hosts have rights in one namespace, and it is in"
                f" none; leave hosts empty in {self.file}"
            )

    @property
    def file(self) -> str:
        """Where its entry is."""
        return f"src/nodemanager/api/{self.resource.group.partition('.')[0]}/kinds.py"

    @property
    def singular(self) -> str:
        """Its name in lower case, as kubectl takes it."""
        return self.resource.kind.lower()

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that people may call it: the plural first, the names with its group last."""
        resource = self.resource
        qualified = (resource.qualified_name, f"{self.singular}.{resource.group}")
        return (resource.plural, *self.short_names, self.singular, *qualified)

    def reference(self, name: str) -> str:
        """Return how scripts name one object: `managednode.common.nodemanager/web1`."""
        return f"{self.singular}.{self.resource.group}/{name}"
