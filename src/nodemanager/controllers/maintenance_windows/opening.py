"""Keeps the status of every window true: looks again when it opens or closes, and reports both."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from nodemanager.api.maintenance.maintenancewindow import (
    MAINTENANCE_WINDOWS,
    VALID,
    MaintenanceWindow,
    MaintenanceWindowStatus,
)
from nodemanager.client.subresources import write_status
from nodemanager.client.verbs import Client
from nodemanager.controllers import window_calendars
from nodemanager.controllers.maintenance_windows import judging
from nodemanager.controllers.registration import Caches, ControllerContext, Wake
from nodemanager.kube import conditions
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import Reconcile, ReconcileResult
from nodemanager.runtime.events import EventRecorder

log = logging.getLogger("nodemanager.operator")
LOOK_SECONDS: Final = 60.0
"""The longest time between two looks at a window: a clock may be set, or a calendar changed."""
OPENED: Final = "WindowOpened"
CLOSED: Final = "WindowClosed"
UNREADABLE: Final = "WindowUnreadable"


@dataclass(frozen=True, slots=True)
class WindowWatcher:
    """Writes the status of windows, when they open, close or change."""

    client: Client
    windows: Cache[MaintenanceWindow]
    events: EventRecorder
    now: Callable[[], datetime]

    async def reconcile(self, key: ObjectKey) -> ReconcileResult | None:
        """Judge a window anew, write what has changed, and say when to look again."""
        window = self.windows.get(key)
        if window is None or window.metadata.deletion_timestamp:
            return None
        now = self.now()
        calendars = await window_calendars.read(self.client, window.spec, key.namespace, now)
        wanted = await asyncio.to_thread(judging.judge, window, calendars, now)  # others go on meanwhile
        if await write_status(self.client, MAINTENANCE_WINDOWS, window, window.status, wanted):
            self._tell(window, wanted)
        return ReconcileResult(_until_edge(wanted, now))

    def _tell(self, window: MaintenanceWindow, wanted: MaintenanceWindowStatus) -> None:
        """Report that a window opened, closed or cannot be read."""
        valid = conditions.get(wanted.conditions, VALID)
        before = conditions.get(window.status.conditions, VALID)
        if valid and valid.status == conditions.FALSE and (before is None or before.message != valid.message):
            log.warning("window %s is shut: %s", window.metadata.name, valid.message)
            self.events.warning(MAINTENANCE_WINDOWS, window, UNREADABLE, valid.message)
        if wanted.open != window.status.open:
            until = f"until {wanted.closes_at}" if wanted.closes_at else "with no end in sight"
            later = f"it opens again at {wanted.opens_at}" if wanted.opens_at else "no opening is in sight"
            reason, said = (OPENED, f"open {until}") if wanted.open else (CLOSED, later)
            self.events.normal(MAINTENANCE_WINDOWS, window, reason, said)


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile of windows."""
    windows = context.caches.of(MAINTENANCE_WINDOWS)
    return WindowWatcher(context.client, windows, context.events, context.now).reconcile


def on_window(change: Change[MaintenanceWindow], _caches: Caches) -> Iterator[Wake]:
    """Wake a window for a change of its spec, not of the status that we wrote."""
    if change.new is None:
        return
    if change.old is None or change.old.metadata.generation != change.new.metadata.generation:
        yield Wake(change.key)


def _until_edge(status: MaintenanceWindowStatus, now: datetime) -> float:
    edges = [datetime.fromisoformat(edge) for edge in (status.closes_at, status.opens_at) if edge]
    ahead = [(edge - now).total_seconds() for edge in edges]
    return max(0.05, min([LOOK_SECONDS, *ahead]))
