"""What the agent knows of its host right now, for people on that host. Pure data, stored nowhere.

    last pass, journal, reachability, token, ... --sources--> Snapshot --socket--> nodemanager status

Each source fills in the part that it knows. So a part of the agent can be shown while no other part knows
it, and an agent without that part shows nothing of it.
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
"""The socket on which the agent answers, below its root."""
MAX_SHOWN: Final = 64
"""How many entries of a list are shown, because the answer of a host in trouble must not grow without end."""

NOT_LOOKED_YET: Final = "no pass is over yet"
AS_DECLARED: Final = "as declared"
FAULTY: Final = "does not hold"
UNKNOWN: Final = "not known yet"


class Api(Struct, omit_defaults=False):
    """How the API treats the agent."""

    state: str = "unknown"
    """connected, alone (it does not answer), refused (it does not know us), unasked (we have no credential to
    show), unknown."""
    server: str = ""
    since: str | None = None
    """Since when the API does not answer, or refuses us."""
    why: str = ""
    last_contact: str | None = None


class Token(Struct, omit_defaults=False):
    """The credential of the host."""

    expires: str
    renewal: str
    """When it is renewed; if that is in the past, renewal has failed since."""


class SetState(Struct, omit_defaults=False):
    """The state of a ConfigSet here."""

    name: str
    last_applied: str | None = None
    error: str = ""
    waiting: str = ""
    conflicts: list[str] = []
    held: int = 0
    """Resources that wait for the end of a hold."""


class Owed(Struct, omit_defaults=False):
    """A restart or a run that is still to come."""

    resource: str
    since: str = ""
    causes: list[str] = []


class HeldState(Struct, omit_defaults=False):
    """The hold that keeps the agent from changing anything."""

    reason: str = ""
    until: str = ""
    by: str = ""
    origin: str = ""
    """HeldByAPI or HeldByHost."""
    seconds: float = 0.0
    """How long it still lasts."""


class TaskState(Struct, omit_defaults=False):
    """A task of this host."""

    name: str
    owner: str = ""
    """The object that ordered it, such as nodemaintenance/monday."""
    phase: str = ""
    step: str = ""
    """The current step, or the last one."""
    place: int = 0
    """The number of that step, beginning with 1."""
    steps: int = 0
    since: str | None = None
    """When it was taken, or ended."""
    message: str = ""
    """Why it pauses, or why it ended so."""


class Tasks(Struct, omit_defaults=False):
    """The tasks of this host, current and past."""

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
    """When it looks again without any event; None = it does not."""
    error: str = ""
    """Why the last one was aborted."""


class Drifts(Struct, omit_defaults=False):
    """Foreign changes on this host."""

    repaired: int = 0
    observed: int = 0
    last_time: str | None = None
    last_resource: str = ""
    unreported: int = 0
    """How many of them the API does not know yet."""
    recent: list[DriftRecord] = []


class Snapshot(Struct, omit_defaults=False):
    """The whole status at one moment."""

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
    """What only passes look at, why, and how to solve that."""
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
"""Returns the snapshot with its own part filled in; it is called on the event loop, so it must be quick."""


class Board:
    """Builds snapshots, and wakes their readers when there is news."""

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
