"""What the agent knows of its host right now, for people on that host: pure data, kept nowhere.

    last pass, journal, reachability, token, ... --sources--> Snapshot --socket--> nodemanager status

Each source fills in the part that it knows. So a part of the agent can be shown without anybody else knowing
it, and an agent without that part says nothing about it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Final

import msgspec

from nodemanager.api.common import node_conditions
from nodemanager.api.common.managednode import DriftRecord
from nodemanager.kube import conditions
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import Struct

log = logging.getLogger(__name__)
LINUX: Final = os.uname().sysname == "Linux"
SOCKET: Final = f"{'' if LINUX else '/var'}/run/nodemanager/agent.sock"
"""Where the agent answers, below its root."""
MAX_SHOWN: Final = 64
"""Entries of a list that are passed on; a host in trouble must not grow an answer without end."""

NOT_LOOKED_YET: Final = "no pass is over yet"
AS_DECLARED: Final = "as declared"
FAULTY: Final = "does not hold"
UNKNOWN: Final = "not known yet"


class Api(Struct, omit_defaults=False):
    """How the agent stands with the API."""

    state: str = "unknown"
    """connected, alone (it does not answer), refused (it does not know us), unasked (we have no credential to
    show), unknown."""
    server: str = ""
    since: str | None = None
    """Since when it does not answer, or refuses us."""
    why: str = ""
    last_contact: str | None = None


class Token(Struct, omit_defaults=False):
    """The credential of the host."""

    expires: str
    renewal: str
    """When it is renewed; in the past: that has been failing since."""


class SetState(Struct, omit_defaults=False):
    """How a ConfigSet went."""

    name: str
    last_applied: str | None = None
    error: str = ""
    waiting: str = ""
    conflicts: list[str] = []
    held: int = 0
    """Resources that wait for the end of a hold."""


class Owed(Struct, omit_defaults=False):
    """A restart or a run that has to follow."""

    resource: str
    since: str = ""
    causes: list[str] = []


class HeldState(Struct, omit_defaults=False):
    """What keeps the agent from changing anything."""

    reason: str = ""
    until: str = ""
    by: str = ""
    origin: str = ""
    """HeldByAPI or HeldByHost."""
    seconds: float = 0.0
    """How long it lasts yet."""


class TaskState(Struct, omit_defaults=False):
    """A task of this host."""

    name: str
    owner: str = ""
    """Which object wanted it, such as nodemaintenance/monday."""
    phase: str = ""
    step: str = ""
    """The step that it is at, or ended with."""
    place: int = 0
    """Which one that is, beginning with 1."""
    steps: int = 0
    since: str | None = None
    """When it was taken, or ended."""
    message: str = ""
    """Why it pauses, or ended so."""


class Tasks(Struct, omit_defaults=False):
    """What this host does and did once, for others."""

    running: TaskState | None = None
    recent: list[TaskState] = []
    """Those that ended in the last days, the newest first."""


class Passes(Struct, omit_defaults=False):
    """When the agent looks at the whole host."""

    running_since: str | None = None
    last: str | None = None
    """When the last one ended."""
    seconds: float = 0.0
    next: str | None = None
    """When it looks again although nothing happens; None = only if something does."""
    error: str = ""
    """Why the last one was broken off."""


class Drifts(Struct, omit_defaults=False):
    """What was changed behind the agent's back."""

    repaired: int = 0
    observed: int = 0
    last_time: str | None = None
    last_resource: str = ""
    unreported: int = 0
    """Of how many the API has not heard yet."""
    recent: list[DriftRecord] = []


class Snapshot(Struct, omit_defaults=False):
    """Everything at one moment."""

    host: str = ""
    namespace: str = ""
    version: str = ""
    root: str = "/"
    pid: int = 0
    started: str | None = None
    time: str | None = None
    """When this was put together."""
    api: Api = Api()
    token: Token | None = None
    hold: HeldState | None = None
    passes: Passes = Passes()
    conditions: list[Condition] = []
    config_sets: list[SetState] = []
    managed: dict[str, int] = {}
    """How many resources of each kind are declared and not in conflict."""
    owed: list[Owed] = []
    drift: Drifts = Drifts()
    tasks: Tasks = Tasks()
    unwatched: list[str] = []
    """What is looked at only with every pass, why, and what helps."""
    memory: int = 0
    """Resident bytes of the agent."""

    def faults(self) -> list[str]:
        """Return what does not hold, in words; empty = the host is as declared."""
        found = [f"{one.type}: {_why(one)}" for one in self.conditions if _is_fault(one)]
        if not any(one.type == conditions.READY for one in self.conditions):
            found.append(NOT_LOOKED_YET)
        if self.passes.error:
            found.append(f"the last pass was broken off: {self.passes.error}")
        if self.owed:
            found.append(f"owed: {', '.join(one.resource for one in self.owed[:5])}")
        return found

    @property
    def state(self) -> str:
        """How the host is, in few words."""
        faults = self.faults()
        if not faults:
            return AS_DECLARED
        return UNKNOWN if NOT_LOOKED_YET in faults else FAULTY

    def line(self) -> str:
        """Return all of it in one line, for `systemctl status`."""
        total = sum(self.managed.values())
        sets = len(self.config_sets)
        faults = self.faults()
        held = f"{sets} ConfigSet{'' if sets == 1 else 's'}, {total} resource{'' if total == 1 else 's'}"
        parts = [f"{held}: {f'{self.state}: {faults[0]}' if faults else f'all {AS_DECLARED}'}"]
        if self.hold:
            parts.append(f"held until {self.hold.until}: {self.hold.reason}")
        if self.drift.last_time:
            parts.append(f"last drift {self.drift.last_time} {self.drift.last_resource}")
        parts.append(f"API {self.api.state}")
        return "; ".join(parts)


Source = Callable[[Snapshot], Snapshot]
"""Returns the snapshot with what it knows filled in; called on the event loop, so it must be quick."""


class Board:
    """Puts snapshots together, and tells those who watch that there is news."""

    def __init__(self, *sources: Source) -> None:
        self._sources = list(sources)
        self._news = asyncio.Event()
        self.version = 0
        """Counts the changes."""

    def plug(self, source: Source) -> None:
        """Add a source."""
        self._sources.append(source)

    def snapshot(self) -> Snapshot:
        """Return what is known now; a source that is broken costs only what it would have said."""
        found = Snapshot()
        for source in self._sources:
            try:
                found = source(found)
            except Exception:
                log.exception("a source of the local status is broken")
        return found

    def changed(self) -> None:
        """Wake up everybody who watches."""
        self.version += 1
        self._news.set()
        self._news = asyncio.Event()

    async def news(self, version: int) -> None:
        """Wait until there is something newer than a version; what came before that is not missed."""
        while self.version == version:
            await self._news.wait()


def _is_fault(condition: Condition) -> bool:
    if condition.type == conditions.READY:
        return condition.status != conditions.TRUE
    if condition.type == node_conditions.LABELLED:
        return condition.status == conditions.FALSE
    bad = (node_conditions.DRIFTED, node_conditions.CONTESTED, node_conditions.CONFLICTED)
    return condition.type in bad and condition.status == conditions.TRUE


def _why(condition: Condition) -> str:
    return condition.message or condition.reason


def with_(snapshot: Snapshot, **fields: object) -> Snapshot:
    """Return a snapshot with some fields filled in."""
    return msgspec.structs.replace(snapshot, **fields)
