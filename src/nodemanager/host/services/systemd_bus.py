"""The manager interface of systemd: its requests and its jobs, over one connection."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import users
from nodemanager.host.services.dbus import BusConnection, BusError, BusUnreachable, CallRefused
from nodemanager.host.services.systemd_units import UnitStatus

if TYPE_CHECKING:
    from nodemanager.host.services.dbus_messages import BusCall, Signal

SYSTEM_BUS: Final = "/run/dbus/system_bus_socket"
SYSTEM_PRIVATE: Final = "/run/systemd/private"
USER_PRIVATE: Final = "/run/user/{}/systemd/private"

CALL_SECONDS: Final = 30.0
HELLO_SECONDS: Final = 5.0
RELOAD_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.25

_DESTINATION: Final = "org.freedesktop.systemd1"
_PATH: Final = "/org/freedesktop/systemd1"
_MANAGER: Final = "org.freedesktop.systemd1.Manager"
_UNIT: Final = "org.freedesktop.systemd1.Unit"
_OF_FILES: Final = ("UnitFileState", "NeedDaemonReload", "FragmentPath", "DropInPaths")
_BUS: Final = "org.freedesktop.DBus"
_MATCH: Final = f"sender='{_DESTINATION}',interface='{_MANAGER}',member='JobRemoved'"


@dataclass(frozen=True, slots=True)
class ManagerSession:
    """A conversation with one manager."""

    connection: BusConnection
    has_bus: bool
    """Whether a bus is in between, which needs a greeting and rules for signals."""

    async def method(
        self, name: str, signature: str = "", *arguments: Any, seconds: float = CALL_SECONDS
    ) -> Any:
        """Call a method of the manager and return the first thing it answers; raises Refused."""
        answer = await self.answer(name, signature, *arguments, seconds=seconds)
        return answer[0] if answer else None

    async def answer(
        self, name: str, signature: str = "", *arguments: Any, seconds: float = CALL_SECONDS
    ) -> tuple[Any, ...]:
        """Call a method of the manager and return all of its answer."""
        call = _call(_DESTINATION, _PATH, _MANAGER, name, signature, *arguments)
        return await self.connection.call(call, seconds)

    async def statuses(self, names: Sequence[str]) -> dict[str, UnitStatus]:
        """Return the state of units by the name they were asked for, in two round trips for all of them."""
        rows = await self.method("ListUnitsByNames", "as", list(names))
        if len(rows) != len(names):  # they answer in the order of the names, or leave one out that is none
            rows = [row for name in names for row in rows if row[0] == name]
            names = [row[0] for row in rows]
        found = [UnitStatus(row[0], row[2], row[3], row[4], row[6], row[7]) for row in rows]
        asked = [_get(one.path, _UNIT, name) for one in found for name in _OF_FILES]
        answers = [_value(one) for one in await self.connection.ask(asked, CALL_SECONDS)]
        of_each = (answers[at : at + len(_OF_FILES)] for at in range(0, len(answers), len(_OF_FILES)))
        return {
            name: replace(
                status, file=file or "", stale=bool(stale), fragment=path or "", drop_ins=tuple(more or ())
            )
            for name, status, (file, stale, path, more) in zip(names, found, of_each, strict=True)
        }

    async def status(self, name: str) -> UnitStatus:
        """Return the state of one unit."""
        found = await self.statuses([name])
        if name not in found:
            raise CallRefused(f"{_DESTINATION}.NoSuchUnit", f"systemd does not take {name} for a unit")
        return found[name]

    async def properties(self, path: str, interface: str, *names: str) -> dict[str, Any]:
        """Return those of these properties that a unit has; interface is Unit, Service, ..."""
        calls = [_get(path, f"{_DESTINATION}.{interface}", name) for name in names]
        answers = [_value(one) for one in await self.connection.ask(calls, CALL_SECONDS)]
        return {name: value for name, value in zip(names, answers, strict=True) if value is not None}

    async def listen(self, *rules: str) -> None:
        """Have signals sent to us: where there is a bus, those that a rule matches; without, all."""
        if self.has_bus:
            calls = [_to_bus("AddMatch", "s", f"type='signal',{rule}") for rule in rules]
            for answer in await self.connection.ask(calls, CALL_SECONDS):
                if isinstance(answer, CallRefused):
                    raise answer

    async def submit(self, method: str, unit: str) -> str:
        """Have a job done on a unit, StartUnit or alike, and return the job; its end can be waited for."""
        await self.listen(_MATCH)
        await self.method("Subscribe")
        return str(await self.method(method, "ss", unit, "replace"))

    async def outcome(self, job: str, seconds: float) -> str:
        """Return how a job ended: done, failed, timeout, canceled, ...; an empty string if it did not."""

        def is_its_end(signal: Signal) -> bool:
            return signal.name == "JobRemoved" and len(signal.body) == 4 and signal.body[1] == job

        heard = await self.connection.signal(is_its_end, seconds)
        return str(heard.body[3]) if heard else ""


@asynccontextmanager
async def visit(tree: Tree, user: str = "") -> AsyncIterator[ManagerSession]:
    """Talk to the manager of the host, or to that of a user."""
    found = await (_open_user(tree, user) if user else _open_system(tree))
    try:
        yield found
    finally:
        await found.connection.close()


def whereabouts(tree: Tree, user: str = "") -> tuple[str, ...]:
    """Return the paths, below the root, of which one changes when a manager that is not there comes up."""
    if not user:
        return SYSTEM_BUS, SYSTEM_PRIVATE
    number = users.user_numbers(tree, [user]).get(user)
    return ("/etc/passwd",) if number is None else (USER_PRIVATE.format(number),)


async def _open_system(tree: Tree) -> ManagerSession:
    """Over the bus, which is the documented way; straight to systemd where no bus runs, as systemctl does."""
    try:
        return await _open_bus(tree.outside(SYSTEM_BUS))
    except BusError as error:
        try:
            return ManagerSession(await BusConnection.open(tree.outside(SYSTEM_PRIVATE)), has_bus=False)
        except BusUnreachable as second:
            raise BusUnreachable(f"cannot reach systemd: {error}; {second}") from second


async def _open_bus(path: str) -> ManagerSession:
    connection = await BusConnection.open(path)
    try:
        await connection.call(_to_bus("Hello"), HELLO_SECONDS)
    except BaseException:
        await connection.close()
        raise
    return ManagerSession(connection, has_bus=True)


async def _open_user(tree: Tree, user: str) -> ManagerSession:
    """Connect directly to the user's systemd, which accepts root; a user's bus accepts only that user."""
    await users.learn(tree, [user])
    number = users.user_numbers(tree, [user]).get(user)
    if number is None:
        raise HostError(f"cannot reach the services of {user}: there is no such user; declare what brings it")
    path = tree.outside(USER_PRIVATE.format(number))
    try:
        return ManagerSession(await BusConnection.open(path, owner=number), has_bus=False)
    except BusUnreachable as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in (errno.ENOENT, errno.ECONNREFUSED):
            raise BusUnreachable(
                f"cannot reach {user}'s services: no user manager runs; loginctl enable-linger {user}"
            ) from error
        raise BusUnreachable(f"cannot reach {user}'s services: {error}") from error


async def wait_idle(tree: Tree, user: str, unit: str, job: str, seconds: float) -> bool:
    """Return whether a job ended in time, by looking again and again.

    For when the connection broke in between: perhaps it was the bus that was restarted.
    """
    number = int(job.rpartition("/")[2])
    for _ in range(int(seconds / POLL_SECONDS)):
        if not await _has_job(tree, user, unit, number):
            return True
        await asyncio.sleep(POLL_SECONDS)
    return False


async def _has_job(tree: Tree, user: str, unit: str, number: int) -> bool:
    try:
        async with visit(tree, user) as manager:
            return (await manager.status(unit)).job == number
    except BusUnreachable:
        return True


def _call(
    destination: str, path: str, interface: str, method: str, signature: str, *arguments: Any
) -> BusCall:
    from nodemanager.host.services import dbus_messages  # not before a service is declared

    return dbus_messages.BusCall(destination, path, interface, method, signature, arguments)


def _to_bus(method: str, signature: str = "", *arguments: Any) -> BusCall:
    return _call(_BUS, "/org/freedesktop/DBus", _BUS, method, signature, *arguments)


def _get(path: str, interface: str, name: str) -> BusCall:
    return _call(_DESTINATION, path, f"{_BUS}.Properties", "Get", "ss", interface, name)


def _value(answer: tuple[Any, ...] | CallRefused) -> Any:
    """Return a property: a variant is a pair of type and value; one that does not exist is None."""
    return None if isinstance(answer, CallRefused) else answer[0][1]
