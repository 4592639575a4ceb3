"""What keeps further hosts from a change, besides those that have it. Pure.

Nothing here keeps hosts from returning to what is stable.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.kube import times

LOOK_SECONDS: Final = 300.0
"""What is waited for is looked at this often: nobody tells when a calendar of holidays changes, or when a
host has been silent for so long that nobody works on it."""
ASK_SECONDS: Final = 10.0
"""Gates of health are asked this often."""


class Obstacle(NamedTuple):
    """Why no further host may take the change now."""

    reason: RolloutReason
    message: str
    again: float | None = None
    """When to look again, in seconds; None = only when something happens."""


class WindowGate(NamedTuple):
    """The window of a rollout, as it is now."""

    name: str
    view: WindowView = WindowView()
    problem: Obstacle | None = None
    """Why nobody knows when it opens: it is shut until then."""


class HealthFinding(NamedTuple):
    """A gate of health that does not hold, or of which nobody knows whether it does."""

    reason: RolloutReason
    said: str
    patience: float = 0.0
    """Seconds that a stage whose hosts are healthy waits for it."""
    no_since: datetime | None = None
    """Since when somebody who is asked says no, or nothing; None = see since when it is published."""

    @property
    def is_no(self) -> bool:
        """Whether that is the answer, and not that there is none."""
        return self.reason is RolloutReason.GATE_FAILS


class RolloutGates(NamedTuple):
    """What is known of them at a look."""

    window: WindowGate | None = None
    """None = it may go on at any time."""
    health: HealthFinding | None = None
    """None = all gates of health hold."""
    unapproved: str = ""
    """The hash that nobody has approved, if somebody has to."""
    gone: bool = False
    """The default of the namespace is gone, by which it began."""
    unrecorded: str = ""
    """Why the audit log cannot be relied on, if nothing new may begin then."""
    mismatch: str = ""
    """What sets that move together say otherwise than each other."""
    settling: float = 0.0
    """Seconds for which other sets of the group may still change."""


def obstacle(gates: RolloutGates, now: datetime) -> Obstacle | None:
    """Return the first thing that keeps further hosts from the change; None = they may take it."""
    return shut(gates, now) or unwell(gates)


def shut(gates: RolloutGates, now: datetime) -> Obstacle | None:
    """Return what keeps further hosts from the change, however well those are that have it."""
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
    """Return the gate of health that is in the way also of the end."""
    found = gates.health
    return Obstacle(found.reason, f"gate {found.said}", ASK_SECONDS) if found is not None else None


def says_no(gates: RolloutGates) -> bool:
    """Tell whether a gate of health does not hold, as far as anybody knows."""
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
