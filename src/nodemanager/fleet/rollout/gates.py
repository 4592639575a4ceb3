"""Conditions besides its own hosts that keep further hosts from a change. Pure.

None of these keeps hosts from returning to the stable revision.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.kube import times

LOOK_SECONDS: Final = 300.0
"""How often to look at what a rollout waits for, because no event comes when a calendar of holidays changes,
or when a silent host no longer counts as being worked on."""
ASK_SECONDS: Final = 10.0
"""How often gates of health are asked."""


class Obstacle(NamedTuple):
    """Why no further host may take the change now."""

    reason: RolloutReason
    message: str
    again: float | None = None
    """When to look again, in seconds; None = only when an event comes."""


class WindowGate(NamedTuple):
    """The window of a rollout, in its present state."""

    name: str
    view: WindowView = WindowView()
    problem: Obstacle | None = None
    """Why its next opening is not known: it is shut until then."""


class HealthFinding(NamedTuple):
    """A gate of health that does not hold, or whose answer is not known."""

    reason: RolloutReason
    said: str
    patience: float = 0.0
    """How many seconds a stage with healthy hosts waits for the gate."""
    no_since: datetime | None = None
    """Since when the asked service says no or does not answer; None = as long as the status says."""

    @property
    def is_no(self) -> bool:
        """Whether the answer is no; a missing answer is not."""
        return self.reason is RolloutReason.GATE_FAILS


class RolloutGates(NamedTuple):
    """What a look knows about the gates."""

    window: WindowGate | None = None
    """None = the rollout may go on at any time."""
    health: HealthFinding | None = None
    """None = all gates of health hold."""
    unapproved: str = ""
    """The hash that still needs an approval; empty = none is needed."""
    gone: bool = False
    """The missing default of the namespace by which the rollout began."""
    unrecorded: str = ""
    """Why the audit log cannot be relied on, if that stops new work."""
    mismatch: str = ""
    """Where sets that move together contradict each other."""
    settling: float = 0.0
    """For how many seconds other sets of the group may still change."""


def obstacle(gates: RolloutGates, now: datetime) -> Obstacle | None:
    """Return the first condition that keeps further hosts from the change; None = they may take it."""
    return shut(gates, now) or unwell(gates)


def shut(gates: RolloutGates, now: datetime) -> Obstacle | None:
    """Return what keeps further hosts from the change, even if those that have it are well."""
    if gates.gone:
        said = "the RolloutPolicy by which it began is gone, or does not ask for stages any more"
        return Obstacle(RolloutReason.DEFAULT_GONE, said)
    if gates.unrecorded:
        return Obstacle(RolloutReason.AUDIT_BROKEN, gates.unrecorded)
    if gates.mismatch:
        return Obstacle(RolloutReason.GROUP_MISMATCH, gates.mismatch)
    if gates.settling > 0:
        said = "waits a moment for changes of the other sets of the group"
        return Obstacle(RolloutReason.GROUP_SETTLING, said, gates.settling)
    if gates.unapproved:
        return Obstacle(RolloutReason.NOT_APPROVED, f"waits for an approval of {gates.unapproved}")
    return _closed(gates.window, now) if gates.window is not None else None


def unwell(gates: RolloutGates) -> Obstacle | None:
    """Return the gate of health that also prevents the end of the rollout."""
    found = gates.health
    return Obstacle(found.reason, f"gate {found.said}", ASK_SECONDS) if found is not None else None


def says_no(gates: RolloutGates) -> bool:
    """Tell whether a gate of health is known not to hold."""
    return gates.health is not None and gates.health.is_no


def _closed(window: WindowGate, now: datetime) -> Obstacle | None:
    view = window.view
    if window.problem is not None:
        return window.problem
    if view.has_time(now, timedelta()):
        return None
    opens = view.opens_at
    until = f"it opens at {times.rfc3339(opens)}" if opens is not None else "no opening is in sight"
    closing = f", or too little of its time is left: {until}" if view.open else f": {until}"
    left = (opens - now).total_seconds() if opens is not None else LOOK_SECONDS
    said = f"MaintenanceWindow {window.name} is shut{closing}"
    return Obstacle(RolloutReason.WINDOW_CLOSED, said, min(left, LOOK_SECONDS))
