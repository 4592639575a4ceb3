"""A write on its way to the store, as a value: each step takes one and returns the next.

No step changes what it was given. So a write that lost a race can begin again from any value that it had.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nodemanager.kube import errors
from nodemanager.kube.objects import Untyped
from nodemanager.server.hub import ApiAnswer, ApiCall, Hub
from nodemanager.server.kinds import kind_schema
from nodemanager.server.kinds.kind_schema import KindSchema
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import stored
from nodemanager.server.verbs.options import WriteOptions
from nodemanager.store.base import StoreRecord


class Live(NamedTuple):
    """What the store has under the name that is written to."""

    record: StoreRecord
    obj: Untyped


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """One create, update, patch or apply."""

    hub: Hub
    call: ApiCall
    options: WriteOptions
    obj: Untyped = field(default_factory=dict)
    """The object as far as it has come; empty until it is decoded."""
    live: Live | None = None
    """What is replaced; None when the object is new."""
    warnings: tuple[str, ...] = ()
    """The warnings for the client besides the answer."""
    answer: ApiAnswer | None = None
    """What the client gets; None until the object is stored."""

    @property
    def kind(self) -> ServedKind:
        """The kind of the object."""
        return self.call.kind

    @property
    def schema(self) -> KindSchema:
        """The compiled schema of the object."""
        return kind_schema.of(self.call.kind)

    @property
    def old(self) -> Untyped | None:
        """The object that is replaced, if there is one."""
        return None if self.live is None else self.live.obj

    @property
    def name(self) -> str:
        """The name of the object; a generated one is there once it is prepared."""
        return str(self.obj["metadata"].get("name", ""))

    def with_object(self, obj: Untyped) -> PendingWrite:
        """Return this write with another object; what most steps do, so it is quick."""
        return PendingWrite(self.hub, self.call, self.options, obj, self.live, self.warnings, self.answer)

    def over(self, record: StoreRecord) -> PendingWrite:
        """Return this write as one that replaces the object of a record."""
        return replace(self, live=Live(record, stored.load(self.kind, record)))


Step = Callable[[PendingWrite], Awaitable[PendingWrite]]


async def advance(write: PendingWrite, steps: Sequence[Step]) -> PendingWrite:
    """Take a write through steps; a refusal carries the warnings of the steps before it."""
    try:
        for step in steps:
            write = await step(write)
    except errors.StatusError as error:
        error.warnings = (*write.warnings, *error.warnings)
        raise
    return write
