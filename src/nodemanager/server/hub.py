"""What every handler needs: the store, the kinds, the clock; and one request, read once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from nodemanager.kube import times
from nodemanager.kube.objects import Untyped
from nodemanager.kube.rbac.identity import User
from nodemanager.server.http.negotiation import Form
from nodemanager.server.http.routing import RequestInfo
from nodemanager.server.kinds.resources import Catalogue, ServedKind
from nodemanager.store.base import Store


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """A write that admission may refuse: the object before and after, None where there is none."""

    verb: str
    kind: ServedKind
    namespace: str
    name: str
    subresource: str
    new: Untyped | None
    old: Untyped | None
    user: User
    dry_run: bool = False
    asked: str = ""
    """The verb of the request, which is what was authorised: a patch may create."""
    options: Untyped = field(default_factory=dict)
    """CreateOptions, UpdateOptions or DeleteOptions, as far as they were given."""
    object_kind: ServedKind | None = None
    """The kind of `new` where that is another one than the resource's: a TokenRequest."""


class Admission(Protocol):
    """Something that may refuse a write by raising a StatusError."""

    async def review(self, change: AdmissionRequest) -> None:
        """Return if the change may happen."""


class ValidatingAdmission(Protocol):
    """Something that sees a write after everything else has found it good, and may still refuse it."""

    def validate(self, change: AdmissionRequest) -> tuple[str, ...]:
        """Return warnings for the client; raise a StatusError to refuse."""


class MutatingAdmission(Protocol):
    """Something that may change a write before anything else looks at it."""

    def mutate(self, change: AdmissionRequest) -> Untyped | None:
        """Return the object as it shall be, the same one if so; raise a StatusError to refuse."""


class Quota(Protocol):
    """Something that may refuse to keep more for a user, by raising a StatusError."""

    def check(self, call: ApiCall, key: str, size: int, before: int | None) -> None:
        """Return if an object of that size may be stored; `before` is the size of what it replaces."""


def utc_now() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)


async def at_once(_revision: int) -> None:
    """Wait for nothing: no garbage collector runs."""


class BlockingTurn:
    """Lets one task at a time do work that blocks the event loop; between two of them all others run."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def take(self) -> None:
        """Return when it is our turn, and every task that was ready has run since the turn before."""
        async with self._lock:
            await asyncio.sleep(0)


@dataclass(slots=True)
class Hub:
    """The server's state, shared by all requests of one event loop."""

    store: Store
    catalogue: Catalogue
    admission: Sequence[Admission] = ()
    mutation: Sequence[MutatingAdmission] = ()
    validation: Sequence[ValidatingAdmission] = ()
    now: Callable[[], datetime] = utc_now
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server stops: watches end."""
    ending: set[str] = field(default_factory=set)
    """The store's keys of namespaces and definitions that wait for their objects to go."""
    swept: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the deletion of one of those may be able to go on."""
    collected: Callable[[int], Awaitable[None]] = at_once
    """Waits until the garbage collector has dealt with all changes up to a revision."""

    quota: Quota | None = None
    """Says how much single users may keep here; None = as much as they like."""

    turn: BlockingTurn = field(default_factory=BlockingTurn)
    """Taken before large answers are made."""

    def validate(self, change: AdmissionRequest) -> tuple[str, ...]:
        """Return the warnings that go with a write; raise if it is refused."""
        return tuple([text for each in self.validation for text in each.validate(change)])

    def timestamp(self) -> str:
        """Return the present time as metadata writes it."""
        return times.rfc3339(self.now())


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request about objects of a kind."""

    info: RequestInfo
    kind: ServedKind
    query: Mapping[str, str]
    user: User
    form: Form
    body: bytes = b""
    content_type: str = ""
    user_agent: str = ""

    @property
    def namespace(self) -> str:
        """The namespace that matters: none for kinds outside of namespaces."""
        return self.info.namespace if self.kind.namespaced else ""

    @property
    def key(self) -> str:
        """The store's key of the object the request names."""
        return self.kind.key(self.namespace, self.info.name)


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """What a handler returns: a body still to be shaped and encoded."""

    body: Any
    status: int = 200
    warnings: tuple[str, ...] = ()
