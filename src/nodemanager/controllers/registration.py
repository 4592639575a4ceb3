"""What a controller declares about itself, as data; `assembly` builds the rest from it.

    what it watches  ->  caches, the right to read it, and the names that a change puts into its queue
    its reconcile    ->  a Controller with metrics and a health check, while we lead or always

A request is a name. Which names a change wakes is a function of the change and of what is cached, so that it
can be read and tested by itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, NamedTuple, TypeVar

from nodemanager.api.rights.operator_rights import Right
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.fleet.audit.settings import AuditSettings
from nodemanager.kube.core import EVENTS
from nodemanager.kube.objects import HasMetadata, ObjectKey, Resource
from nodemanager.rendering.renderer import Rendering
from nodemanager.runtime import parts
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import Reconcile
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.queue import WorkQueue

T = TypeVar("T", bound=HasMetadata)

THE_ONE: Final = ObjectKey("", "all")
"""The name in the queue of a controller that has only one thing to do."""
STUCK_SECONDS: Final = 600.0
REPORTING: Final = Right(EVENTS, ("create", "patch"))
"""The right to report Events."""


class Wake(NamedTuple):
    """A name to look at, after so many seconds."""

    key: ObjectKey
    after: float = 0.0


class Caches:
    """The caches of the kinds that a controller declared, and no others."""

    def __init__(self, owner: str, found: Mapping[Resource[Any], Cache[Any]]) -> None:
        self._owner = owner
        self._found = found

    def of(self, resource: Resource[T]) -> Cache[T]:
        """Return the cache of a kind."""
        if resource not in self._found:
            raise LookupError(f"{self._owner} cannot read {resource.qualified_name}: it does not watch that")
        return self._found[resource]


@dataclass(frozen=True, slots=True)
class WatchedKind(Generic[T]):
    """A kind that is watched, and the names that a change of it wakes."""

    resource: Resource[T]
    wakes: Callable[[Change[T], Caches], Iterable[Wake]]
    labels: str = ""
    """A selector; objects that it does not select are invisible."""
    optional: bool = False
    """Whether the right to read it is granted separately, or never: then its cache says why
    (`Cache.refused`)."""

    def selection(self, namespace: str) -> Selection:
        """Return the selection that the operator of one namespace watches."""
        return Selection(namespace if self.resource.namespaced else "", self.labels)


def nobody(_change: Change[Any], _caches: Caches) -> Iterable[Wake]:
    """Wake no name: for kinds that are only read."""
    return ()


def itself(change: Change[Any], _caches: Caches) -> Iterable[Wake]:
    """Wake the name of the changed object."""
    return (Wake(change.key),)


class Periodic(NamedTuple):
    """A name that is looked at when the controller starts, and then periodically."""

    key: ObjectKey
    seconds: float


@dataclass(frozen=True, slots=True)
class PartContext:
    """What the operator gives each of its parts."""

    client: Client
    """For parts that need leadership, it refuses to write once leadership may be lost."""
    caches: Caches
    events: EventRecorder
    """A part that uses it needs the right `REPORTING`."""
    renderer: Rendering
    now: Callable[[], datetime]
    metrics: Registry
    namespace: str
    """The namespace of the operator, and of everything that it decides about."""
    audit: AuditSettings


@dataclass(frozen=True, slots=True)
class ControllerContext(PartContext):
    """The same for a part with a queue."""

    queue: WorkQueue[ObjectKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One controller of the operator."""

    name: str
    """The name of its queue, its metrics and its health check."""
    kind: Resource[Any] | None
    """The kind of the names in its queue; None = there is only `THE_ONE`."""
    watches: tuple[WatchedKind[Any], ...]
    build: Callable[[ControllerContext], Reconcile]
    periodic: tuple[Periodic, ...] = ()
    rights: tuple[Right, ...] = ()
    """The rights that it needs besides reading what it watches."""
    leader_only: bool = True
    """Whether at most one process may run it at a time."""
    concurrency: int = 1
    timeout: float | None = 60.0
    """Seconds that one reconcile may take; None = no limit."""
    stuck_after: float = STUCK_SECONDS
    """After so many seconds in one reconcile, the process counts as unhealthy."""

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in [watch.resource for watch in self.watches]:
            raise ValueError(
                f"cannot register {self.name}: it is for {self.kind.qualified_name}, which it does not watch"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRegistration:
    """A part of the operator without a queue: it may follow the caches of what it watches as it likes.

    It has no health check, so it has to limit each of its waits itself. What it does not handle ends the
    operator. Metrics report refusals of others (a receiver that is away), because a restart would not help.
    """

    name: str
    watches: tuple[WatchedKind[Any], ...] = ()
    build: Callable[[PartContext], parts.Part]
    rights: tuple[Right, ...] = ()
    leader_only: bool = True


Entry = Registration | PartRegistration


def connect(watches: Iterable[WatchedKind[Any]], caches: Caches, queue: WorkQueue[ObjectKey]) -> None:
    """Let every change put the names that it wakes into a queue."""
    for watch in watches:
        caches.of(watch.resource).subscribe(functools.partial(_wake, watch, caches, queue))


def _wake(watch: WatchedKind[T], caches: Caches, queue: WorkQueue[ObjectKey], change: Change[T]) -> None:
    for key, after in watch.wakes(change, caches):
        queue.add_after(key, after)
