"""The states of a visit as data: what each one orders, what ends it, and what follows otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from nodemanager.api.maintenance.disruption import SKIP
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.facts import HostFacts, TaskFacts
from nodemanager.fleet.maintenance.reasons import Reason


class VisitOrder(StrEnum):
    """What the operator does in a state; every look may do it again."""

    CORDON = "cordon"
    DRAIN = "drain"
    CREATE_TASK = "createTask"
    CREATE_UNDO = "createUndo"
    GIVE_BACK = "giveBack"
    """Delete the task if nobody took it, and uncordon the Node if it was us who cordoned it."""
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class StateRules:
    """The rules of one state."""

    order: VisitOrder
    reason: Reason
    """The reason code while a host is in this state."""
    gate: str
    """What must be true before the state is entered."""
    evidence: str
    """What proves that the state has ended."""
    compensation: str
    """What happens if that proof does not come."""


STATES: Final[dict[State, StateRules]] = {
    State.CORDONING: StateRules(
        VisitOrder.CORDON,
        Reason.CORDONING,
        "window, budget, health.before",
        "the Node takes no new pods",
        "given back",
    ),
    State.DRAINING: StateRules(
        VisitOrder.DRAIN, Reason.DRAINING, "the Node is cordoned", "no pod is left to move", "drain.onTimeout"
    ),
    State.WORKING: StateRules(
        VisitOrder.CREATE_TASK,
        Reason.WORKING,
        "the window has time left",
        "the NodeTask has ended",
        "as its steps say",
    ),
    State.REBOOTING: StateRules(
        VisitOrder.NOTHING,
        Reason.REBOOTING,
        "a step reboots the host",
        "the NodeTask has ended",
        "Halted if it is lost",
    ),
    State.PROVING: StateRules(
        VisitOrder.NOTHING,
        Reason.PROVING,
        "the NodeTask succeeded",
        "alive, Ready, booted anew, health.after",
        "undone",
    ),
    State.SOAKING: StateRules(
        VisitOrder.NOTHING, Reason.SOAKING, "the host is proven", "it stayed so for spec.soak", "proven anew"
    ),
    State.UNDOING: StateRules(
        VisitOrder.CREATE_UNDO,
        Reason.UNDOING,
        "not proven, or aborted",
        "the NodeTask of it has succeeded",
        "Halted",
    ),
    State.RETURNING: StateRules(
        VisitOrder.GIVE_BACK, Reason.RETURNING, "nothing is at work", "the Node is as it was found", "Halted"
    ),
}


@dataclass(frozen=True, slots=True)
class VisitRules:
    """What a maintenance says about all its visits."""

    cordons: bool = False
    drains: bool = False
    drain_timeout: timedelta = timedelta(minutes=30)
    on_drain_timeout: str = SKIP
    proof_timeout: timedelta = timedelta(minutes=10)
    soak: timedelta = timedelta()
    can_undo: bool = False
    undo_expired: bool = False
    """Whether work that the end of the window interrupted is undone: onClose is abortAndUndo."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A visit, and all that is known about it now."""

    claim: Claim
    host: HostFacts
    rules: VisitRules
    now: datetime
    task: TaskFacts | None = None
    undo: TaskFacts | None = None
    may_work: bool = True
    """Whether the window stays open long enough to begin the work."""

    @property
    def passed(self) -> timedelta:
        """How long the visit is in its state."""
        return self.now - self.claim.since


@dataclass(frozen=True, slots=True)
class Move:
    """The claim has to be written anew; the order of its new state comes after that."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class VisitHold:
    """The visit waits: the state stays until something happens."""

    reason: Reason
    object: str = ""
    next_check: datetime | None = None
