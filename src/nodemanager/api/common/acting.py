"""Decides whether a host may act now; no other code does. Pure; the caller has the clock.

    the hold in its ManagedNode, the hold that root made on it  --decide-->  act, or keep still and why

Passes, repairs and upgrades ask before every step that changes something.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from nodemanager.kube.hints import PRINTABLE, meta
from nodemanager.kube.objects import Struct

REASON_MAX: Final = 1024
BY_MAX: Final = 256


class Hold(Struct):
    """Keeps a host as it is: nothing on it is changed until it ends."""

    reason: Annotated[
        str, meta("Why, for people.", required=True, min_length=1, max_length=REASON_MAX, pattern=PRINTABLE)
    ] = ""
    until: Annotated[
        str, meta("When it ends by itself, such as 2026-03-01T04:00:00Z.", required=True, format="date-time")
    ] = ""
    by: Annotated[
        str, meta("Who asked for it, as they say themselves.", max_length=BY_MAX, pattern=PRINTABLE)
    ] = ""


class HoldOrigin(StrEnum):
    """Where a hold was made; the reason of the condition Held."""

    API = "HeldByAPI"
    HOST = "HeldByHost"


@dataclass(frozen=True, slots=True)
class RunningHold:
    """A hold, and how long it lasts."""

    hold: Hold
    origin: HoldOrigin
    left: float
    """Seconds until it ends by itself."""

    def words(self) -> str:
        """Return it in one line: why, until when, by which user."""
        by = f", by {self.hold.by}" if self.hold.by else ""
        where = " on the host itself" if self.origin is HoldOrigin.HOST else ""
        return f"{self.hold.reason}; held{where} until {self.hold.until}{by}"


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether a host may act."""

    hold: RunningHold | None = None
    """What keeps it from acting; None = nothing does."""
    again_in: float = math.inf
    """Seconds after which to ask again, if nothing is heard before."""

    @property
    def may_act(self) -> bool:
        """Whether something on the host may be changed."""
        return self.hold is None


def decide(holds: Iterable[RunningHold]) -> Permission:
    """Return whether a host with these holds may act: not before the last of them has ended."""
    lasting = [one for one in holds if one.left > 0]
    if not lasting:
        return Permission()
    last = max(lasting, key=lambda one: one.left)
    return Permission(last, last.left)
