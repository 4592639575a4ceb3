"""What the manager runs, as small Protocols that a part fulfils without importing the manager."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable


class LeadershipLost(Exception):
    """Another process took the lease, or it could not be renewed in time."""


class Part(Protocol):
    """Something that runs until it is cancelled; returning or raising before that is a failure.

    On the first cancellation a part ends in good order; cancelled again, it ends at once.
    """

    @property
    def name(self) -> str:
        """The name in messages, unique within a manager."""

    async def run(self) -> None:
        """Work until cancelled."""


@runtime_checkable
class Ready(Protocol):
    """A part that takes a moment to be of use, such as a server that must listen first."""

    async def ready(self) -> None:
        """Wait until the part is of use; may be called before `run`, and by several at once."""


@runtime_checkable
class Synced(Protocol):
    """A cache: of use once it has seen everything that existed when it started."""

    async def synced(self) -> None:
        """Wait until the first list is complete; may be called before `run`, and by several at once."""


class Elector(Protocol):
    """Decides when this process leads, and makes sure that no two do.

    The promise that everything else relies on: while `lead()` runs, no other process leads. So it is
    cancelled and *awaited* before the lease is given up, and cancelled early enough before the
    lease may expire when it cannot be renewed. If it does not end in time, the elector raises
    LeadershipLost without waiting longer; the process must then end at once.
    """

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for leadership, then await `lead()`; raise LeadershipLost when leadership is lost.

        When cancelled: cancel `lead()`, wait for its end, give up the lease, and only then return.
        When cancelled again meanwhile: cancel `lead()` again, and still wait for its end.
        When `lead()` ends by itself: give up the lease, and return or raise as it did.
        """
