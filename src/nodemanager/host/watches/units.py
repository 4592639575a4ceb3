"""Hears from systemd what becomes of units: one connection that stays, and no more signals than needed.

A unit that is on its way, or that a job is at work on, is nothing to look at yet; the signal of its
arrival comes by itself. A bus in between gets rules for the declared units, and passes on only
theirs, so that a daemon-reload, which has systemd tell of every unit it has, costs next to nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.services import systemd_bus, systemd_files, systemd_units
from nodemanager.host.services.dbus import CallRefused
from nodemanager.host.services.systemd_bus import ManagerSession
from nodemanager.host.services.systemd_units import UnitStatus
from nodemanager.host.watches.inbox import Concern, Inbox
from nodemanager.host.watches.paths import Interest
from nodemanager.plan.resources import ResourceId

if TYPE_CHECKING:
    from nodemanager.host.services.dbus_messages import Signal

Units = Mapping[str, frozenset[ResourceId]]
"""The declared services by the full name of their unit."""

FIRST_RETRY: Final = 0.1
LAST_RETRY: Final = 60.0
MANY: Final = 64
BREATH: Final = 0.01
"""Seconds to pause after so many signals: the manager of a user can be any program, and send anything."""
MAX_DROP_INS: Final = 64
NONSENSE: Final = (ValueError, LookupError, TypeError, AttributeError)
"""Errors that come from reading an answer of the wrong shape."""
QUIET: Final = 0.05
"""Seconds without news of unit files after which units are looked up again: repairs go first."""
RELOADING: Final = 10.0
"""Seconds that systemd may take to read all units again: until it has, it would not answer anyway."""
LIMIT: Final = 2.0
MAX_RULES: Final = 200
"""Up to so many units have a match rule each; a bus allows 512 for a connection."""

_SYSTEMD: Final = "org.freedesktop.systemd1"
_UNIT: Final = f"{_SYSTEMD}.Unit"
_OBJECT: Final = "/org/freedesktop/systemd1"
_RULES: Final = (
    f"sender='{_SYSTEMD}',path='{_OBJECT}',interface='{_SYSTEMD}.Manager',member='UnitFilesChanged'",
    f"sender='{_SYSTEMD}',path='{_OBJECT}',interface='{_SYSTEMD}.Manager',member='Reloading'",
    f"sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0='{_SYSTEMD}'",
)
_PROPERTIES: Final = "interface='org.freedesktop.DBus.Properties',member='PropertiesChanged'"
_CHANGED: Final = f"sender='{_SYSTEMD}',{_PROPERTIES},arg0='{_UNIT}'"


class UnitCallbacks(NamedTuple):
    """What a watch of units calls besides adding to the inbox."""

    files_found: Callable[[list[Interest]], Awaitable[None]]
    """Called with the files that units are made of."""
    ended: Callable[[asyncio.Task[None]], None]
    """Called when listening ended, for any reason."""


class UnitWatch:
    """The units of one manager: that of the host, or of a user."""

    def __init__(self, tree: Tree, user: str, inbox: Inbox, callbacks: UnitCallbacks) -> None:
        self._tree = tree
        self._user = user
        self._inbox = inbox
        self._callbacks = callbacks
        self._wanted: Units = {}
        self._statuses: dict[str, UnitStatus | str] = {}
        self._names: dict[str, list[str]] = {}
        """The units by their object on the bus; aliases of one unit share it."""
        self._rules: set[str] = set()
        self._link_folders: set[str] = set()
        """The folders of links that start units at boot: systemd removes a folder with its last link."""
        self.task: asyncio.Task[None] | None = None
        self.shortfall = ""
        """Why no events come at present; empty = they come."""

    def follow(self, wanted: Units) -> None:
        """Listen for these units; their present state is reported once."""
        if wanted == self._wanted and (self.task is None or not self.shortfall):
            return
        self._wanted = wanted
        self.close()
        if wanted:
            self.task = asyncio.create_task(self._run(), name=f"units of {self._user or 'the host'}")
            self.task.add_done_callback(self._callbacks.ended)

    def close(self) -> None:
        """Hang up."""
        if self.task is not None:
            self.task.cancel()
            self.task = None

    async def _run(self) -> None:
        delay = FIRST_RETRY
        while True:
            self._statuses, self._names, self._rules = {}, {}, set()
            try:
                async with systemd_bus.visit(self._tree, self._user) as manager:
                    await self._begin(manager)
                    delay, self.shortfall = FIRST_RETRY, ""
                    await self._listen(manager)
            except HostError as error:
                self.shortfall = self._unheard(str(error))
            except NONSENSE as error:
                self.shortfall = self._unheard(f"its service manager answers nonsense ({error})")
            if self._statuses:  # we had begun, so something may have gone by unheard
                self._touch(self._wanted)
            delay = FIRST_RETRY if await self._pause(delay) else min(2 * delay, LAST_RETRY)

    def _unheard(self, why: str) -> str:
        return f"the services{f' of {self._user}' if self._user else ''} are not watched at present: {why}"

    async def _pause(self, seconds: float) -> bool:
        """Wait so long, or until a manager seems to come up, and return whether it does."""
        wake, concern = asyncio.Event(), _concern(self._wanted.values())
        if seconds > FIRST_RETRY:
            paths = systemd_bus.whereabouts(self._tree, self._user)
            await self._callbacks.files_found([Interest(path, concern, wake=wake) for path in paths])
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await wake.wait()
        return wake.is_set()

    async def _begin(self, manager: ManagerSession) -> None:
        await manager.listen(*_RULES)
        with suppress(CallRefused):  # it may remember us from before it was replaced
            await manager.method("Subscribe")
        await self._look_up(manager)

    async def _listen(self, manager: ManagerSession) -> None:
        """Hear signals until systemd is replaced, or the connection breaks."""
        loop = asyncio.get_running_loop()
        first = due = 0.0
        reloading = False
        for number in count(1):
            if number % MANY == 0:
                await asyncio.sleep(BREATH)
            timeout = max(0.0, due - loop.time()) if due else None
            signal = await manager.connection.signal(lambda _: True, timeout)
            now = loop.time()
            if signal is None:
                due, reloading = 0.0, False
                await self._look_up(manager)
                if self._user:  # whose links we do not watch: what a manager remembers of them may be old
                    self._touch(self._wanted)
            elif signal.name == "PropertiesChanged":
                self._changed(signal)
            elif signal.name == "Reloading":
                reloading, first = signal.body == (True,), first if due else now
                due = now + RELOADING if reloading else min(now + QUIET, max(now, first + LIMIT))
            elif signal.name == "UnitFilesChanged" and not reloading:
                first = first if due else now
                due = min(now + QUIET, first + LIMIT)
            elif signal.name == "NameOwnerChanged" and len(signal.body) == 3 and signal.body[2]:
                return

    async def _look_up(self, manager: ManagerSession) -> None:
        """Ask for all units, tell of those that changed, and watch the files that they are made of now."""
        found = await self._ask(manager)
        if await self._listen_to(manager, found):
            found = await self._ask(manager)  # what happened before we listened was not heard
        self._names = {}
        for name, status in found.items():
            if isinstance(status, UnitStatus):
                self._names.setdefault(status.path, []).append(name)
        before, self._statuses = self._statuses, found
        self._touch({name for name in self._wanted if not before or before.get(name) != found.get(name)})
        await self._callbacks.files_found(list(self._files(found)))

    async def _ask(self, manager: ManagerSession) -> dict[str, UnitStatus | str]:
        """Return the state of each unit by its declared name; of a template, that of its file."""
        found: dict[str, UnitStatus | str] = {}
        units = [name for name in self._wanted if systemd_units.is_unit_name(name)]
        plain = [name for name in units if not systemd_units.is_template(name)]
        for name, status in (await manager.statuses(plain) if plain else {}).items():
            # From 255 on, all units are stale after any of them was enabled; their files are watched anyway.
            found[name] = replace(status, job=0, stale=False)
        for name in filter(systemd_units.is_template, units):
            with suppress(CallRefused):
                found[name] = str(await manager.method("GetUnitFileState", "s", name))
        return found

    async def _listen_to(self, manager: ManagerSession, found: Mapping[str, UnitStatus | str]) -> bool:
        """Have the signals of these units sent to us; return whether some of them were not before."""
        rules = {f"{_CHANGED},path='{one.path}'" for one in found.values() if isinstance(one, UnitStatus)}
        if len(rules | self._rules) > MAX_RULES:
            rules = {f"{_CHANGED},path_namespace='{_OBJECT}/unit'"}
        fresh = rules - self._rules
        await manager.listen(*fresh)
        self._rules |= fresh
        return bool(fresh)

    def _changed(self, signal: Signal) -> None:
        """Take note of what became of a unit, if it is there to stay."""
        names = self._names.get(signal.path)
        if names is None or len(signal.body) != 3 or signal.body[0] != _UNIT:
            return
        now: Mapping[str, tuple[str, Any]] = signal.body[1]
        job = now["Job"][1][0] if "Job" in now else 0
        for name in names:
            before = self._statuses[name]
            if not isinstance(before, UnitStatus) or job:
                continue
            active, sub = (str(now[key][1]) if key in now else "" for key in ("ActiveState", "SubState"))
            status = replace(before, active=active, sub=sub)
            if status.settled and status != before:
                self._statuses[name] = status
                self._touch({name})

    def _touch(self, names: Mapping[str, object] | set[str]) -> None:
        concern = _concern(self._wanted[name] for name in names)
        if concern.resources:
            self._inbox.add(concern)

    def _files(self, found: Mapping[str, UnitStatus | str]) -> Iterator[Interest]:
        """Return the files of units, and where more of them would be; systemd tells only of what it read."""
        if not self._user:
            self._link_folders.update(systemd_files.link_folders(self._tree))
        for name in self._wanted:
            status, concern = found.get(name), _concern((self._wanted[name],))
            unit = status.id if isinstance(status, UnitStatus) else name
            # Also links that are not there now: one that is put back may be gone again before we look next.
            paths = {f"{folder}/{unit}" for folder in self._link_folders}
            if isinstance(status, UnitStatus):
                paths |= {status.fragment, *status.drop_ins[:MAX_DROP_INS]}
            for folder in systemd_files.USER if self._user else systemd_files.SYSTEM:
                paths.update(f"{folder}/{one}" for one in {name, *systemd_files.names(unit)})
                for one in systemd_files.names(unit):
                    yield Interest(f"{folder}/{one}.d", concern, entries=True)
            yield from (
                Interest(path, concern) for path in paths if path.startswith("/") and "\0" not in path
            )


def _concern(declared: Iterable[frozenset[ResourceId]]) -> Concern:
    return Concern(tuple(sorted(frozenset().union(*declared))))
