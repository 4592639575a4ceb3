"""Reads windows and the calendars that they name, for all controllers that look at windows."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Final

from nodemanager.api.maintenance.windows import WindowSpec
from nodemanager.client.verbs import Client
from nodemanager.fleet.maintenance import openings
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.windows import exclusions, holidays, wall_clock
from nodemanager.fleet.windows.calendar import Calendar
from nodemanager.fleet.windows.exclusions import CalendarKey, Calendars
from nodemanager.fleet.windows.spans import Span
from nodemanager.kube import errors
from nodemanager.kube.core import CONFIG_MAPS

AHEAD: Final = timedelta(days=400)
"""How far ahead events of calendars are read; later events are read in time."""


async def read(client: Client, window: WindowSpec, namespace: str, now: datetime) -> Calendars:
    """Return the events of all calendars that a window names; a missing calendar is missing here, too."""
    found: dict[CalendarKey, list[Span] | str] = {}
    limits = Span(now - AHEAD, now + AHEAD)
    for where in (exclusions.calendar_of(one, window.time_zone) for one in window.exclude):
        if where is None:
            continue
        try:
            kept = await client.get(CONFIG_MAPS, where.name, namespace)
            text = (kept.data or {})[where.key]
            zone = wall_clock.zone(where.zone)
            found[where] = await asyncio.to_thread(holidays.events, text, limits, zone)
        except (errors.NotFound, KeyError):
            continue
        except (errors.Forbidden, ValueError) as error:
            found[where] = str(error)
    return found


async def view(
    client: Client, window: WindowSpec, namespace: str, now: datetime
) -> tuple[Calendar, WindowView]:
    """Return a window and what it allows now; raise ValueError if it cannot be read."""
    calendar = Calendar(window, await read(client, window, namespace, now))
    return calendar, await asyncio.to_thread(openings.view, calendar, now)
