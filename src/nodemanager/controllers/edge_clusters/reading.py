"""Reads what a profile names of a DaemonSet: only by get and list, so the DaemonSet cannot notice it.

It asks again and again instead of watching: `get` is all that it needs of ConfigMaps, by name, and what
is missing, or gets another name tomorrow, needs no stream to be built or ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

from nodemanager.api.edge.bridge_parts import Bridge
from nodemanager.api.edge.edgecluster import (
    MAX_EVENTS,
    MISSING,
    REFUSED,
    STALE,
    UNANSWERED,
    EdgeEvent,
)
from nodemanager.api.rights.operator_rights import Right
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.fleet.edge.decoding import printable
from nodemanager.fleet.edge.facts import MAX_LISTED, BridgeFacts, Read, SeenDaemonSet
from nodemanager.kube import core, errors, times
from nodemanager.kube.core import CONFIG_MAPS, EVENTS
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

SECONDS: Final = 10.0
"""How long one answer may take."""
MOST_EVENTS: Final = 1000
"""With more Events the newest may be missing; the status then says so."""
EVENTS_PAGE: Final = 500
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class DaemonSetStatus(Struct):
    """The numbers of pods."""

    desired_number_scheduled: int = 0
    number_ready: int = 0


class DaemonSet(Struct):
    """`apps/v1` DaemonSet, with the fields that we use."""

    metadata: ObjectMeta = ObjectMeta()
    status: DaemonSetStatus = DaemonSetStatus()


DAEMON_SETS: Final = Resource("apps", "v1", "DaemonSet", "daemonsets", DaemonSet)


def rights(bridge: Bridge) -> list[Right]:
    """Return the rights to read all of that, in the namespace of the DaemonSet."""
    names = bridge.state.config_map, bridge.heartbeats.config_map
    found = [Right(CONFIG_MAPS, ("get",), names=tuple(dict.fromkeys(names)))]
    found += [Right(DAEMON_SETS, ("list",))] if bridge.daemon_set else []
    return [*found, Right(EVENTS, ("list",))] if bridge.component else found


async def read(client: Client, bridge: Bridge) -> BridgeFacts:
    """Read all that the profile names in parallel; what cannot be read does not affect the rest."""
    space = bridge.namespace

    async def config_map(name: str) -> Read:
        found = await client.get(CONFIG_MAPS, name, space)
        return Read(data=found.data or {})

    sets: list[SeenDaemonSet] = []
    events: list[EdgeEvent] = []

    async def daemon_sets() -> Read:
        if bridge.daemon_set is not None:
            found = await client.list(DAEMON_SETS, Selection(space), most=MAX_LISTED)
            sets.extend(_seen(one) for one in found.items)
        return Read()

    async def warnings() -> Read:
        if bridge.component:
            found, all_of_them = await _warnings(client, space, bridge.component)
            events.extend(latest(found))
            if not all_of_them:
                said = f"there are more than {MOST_EVENTS} warnings, and the newest may be among the others"
                return Read(STALE, message=said)
        return Read()

    state, beats, listed, told = await asyncio.gather(
        answer(lambda: config_map(bridge.state.config_map)),
        answer(lambda: config_map(bridge.heartbeats.config_map)),
        answer(daemon_sets),
        answer(warnings),
    )
    return BridgeFacts(state, beats, sets, listed, events, told)


async def _warnings(client: Client, space: str, component: str) -> tuple[list[core.Event], bool]:
    """Return Events ordered by name, which is not the order in time, and whether these are all."""
    chosen = Selection(space, fields=f"source={component},type=Warning")
    found: list[core.Event] = []
    token = ""
    while len(found) < MOST_EVENTS:
        page = await client.page(EVENTS, chosen, limit=EVENTS_PAGE, continue_token=token)
        found += page.items
        if not (token := page.continue_token):
            return found, True
    return found, False


async def answer(ask: Callable[[], Awaitable[Read]]) -> Read:
    """Return the answer, or why there is none."""
    try:
        async with asyncio.timeout(SECONDS):
            return await ask()
    except errors.NotFound as error:
        return Read(MISSING, message=_short(error))
    except (errors.Forbidden, errors.Unauthorized) as error:
        return Read(REFUSED, message=f"{_short(error)}; see nodemanager edge rbac")
    except (errors.KubeError, TimeoutError) as error:
        return Read(UNANSWERED, message=_short(error) or f"no answer within {SECONDS:.0f}s")


def _short(error: Exception) -> str:
    return printable(str(error), 400)


def _seen(one: DaemonSet) -> SeenDaemonSet:
    status = one.status
    return SeenDaemonSet(
        one.metadata.name, one.metadata.labels, status.desired_number_scheduled, status.number_ready
    )


def latest(found: list[core.Event]) -> list[EdgeEvent]:
    """Return the newest warning of each of the newest reasons, oldest first."""
    by_reason: dict[str, tuple[datetime, core.Event]] = {}
    for one in found:
        told = times.parse(one.last_timestamp) or times.parse(one.metadata.creation_timestamp) or _NEVER
        if one.reason not in by_reason or by_reason[one.reason][0] <= told:
            by_reason[one.reason] = told, one
    newest = sorted(by_reason.values(), key=lambda pair: (pair[0], pair[1].reason))[-MAX_EVENTS:]
    return [
        EdgeEvent(
            reason=printable(one.reason, 128),
            message=printable(one.message),
            at=times.rfc3339(at) if at > _NEVER else None,
        )
        for at, one in newest
    ]
