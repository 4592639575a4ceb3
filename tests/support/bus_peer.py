"""A systemd that is only a script: answers D-Bus calls on a real socket from dictionaries.

peer = SystemdPeer(); peer.units["x.service"] = Unit(active="active", sub="running")
async with peer.listen(path, bus=True): ...
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from jeepney.low_level import HeaderFields, Message, Parser
from jeepney.wrappers import DBusAddress, new_error, new_method_return, new_signal

MANAGER = DBusAddress("/org/freedesktop/systemd1", interface="org.freedesktop.systemd1.Manager")
NO_SUCH_UNIT = "org.freedesktop.systemd1.NoSuchUnit"


@dataclass
class Unit:
    """A unit of the peer."""

    load: str = "loaded"
    active: str = "inactive"
    sub: str = "dead"
    file: str = "disabled"
    file_on_disk: str = ""
    """The state of its file, if systemd remembers another one."""
    stale: bool = False
    id: str = ""
    properties: dict[str, tuple[str, Any]] = field(default_factory=dict)


class SystemdPeer:
    """The state of a systemd, and what it was asked to do."""

    def __init__(self) -> None:
        self.units: dict[str, Unit] = {}
        self.asked: list[str] = []
        """Methods of the manager with their first argument, but for looking."""
        self.on_job: Callable[[str, Unit], str] = _obey
        """Does a job to a unit and returns how it ended; an empty string: it never does."""
        self.hang_up_on: str = ""
        """Name of a method at which the connection is closed instead of answered."""
        self.forgets = False
        """Whether it goes on remembering whether a unit is enabled, as it does until it reloads."""
        self.raw: bytes | None = None
        """Bytes to send instead of any answer."""
        self.most = 0
        """The most calls that arrived at once, before any of them was answered."""
        self._jobs = count(1)
        self._paths: dict[str, str] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._said = count(1_000_000)

    def tell(self, address: DBusAddress, name: str, signature: str, body: tuple[Any, ...]) -> None:
        """Send a signal to everybody who is connected."""
        for writer in self._writers:
            writer.write(new_signal(address, name, signature, body).serialise(next(self._said)))

    def tell_state(self, name: str, active: str, sub: str, job: int = 0) -> None:
        """Have a unit be in a state, and tell so."""
        self.units[name].active, self.units[name].sub = active, sub
        path = f"/unit/{name.encode().hex()}"
        changed = {"ActiveState": ("s", active), "SubState": ("s", sub), "Job": ("(uo)", (job, "/"))}
        address = DBusAddress(path, interface="org.freedesktop.DBus.Properties")
        self.tell(address, "PropertiesChanged", "sa{sv}as", ("org.freedesktop.systemd1.Unit", changed, []))

    def hang_up(self) -> None:
        """Close all connections."""
        for writer in self._writers:
            writer.close()

    @contextlib.asynccontextmanager
    async def listen(self, path: Path) -> AsyncIterator[None]:
        """Answer at this socket."""
        path.parent.mkdir(parents=True, exist_ok=True)
        links: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}

        def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writers.add(writer)  # not in a coroutine: nobody would know of one that has not begun
            links[writer] = asyncio.create_task(serve(reader, writer))

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                with contextlib.suppress(EOFError, ConnectionError):
                    await self._serve(reader, writer)
            finally:
                writer.close()
                self._writers.discard(writer)

        server = await asyncio.start_unix_server(meet, str(path))
        try:
            yield
        finally:
            for _ in range(4):  # let those in who have knocked, or nobody closes their sockets
                await asyncio.sleep(0)
            server.close()
            for writer, task in links.items():
                task.cancel()
                writer.transport.abort()
                self._writers.discard(writer)
            await asyncio.gather(*links.values(), return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readuntil(b"\r\n")).startswith(b"\0AUTH EXTERNAL ")
        assert await reader.readuntil(b"\r\n") == b"BEGIN\r\n"
        writer.write(b"OK 0123456789abcdef0123456789abcdef\r\n")
        parser, serials = Parser(), count(1)
        while data := await reader.read(65536):
            messages = parser.feed(data)
            self.most = max(self.most, len(messages))
            for message in messages:
                name = message.header.fields[HeaderFields.member]
                if name == self.hang_up_on:
                    self.hang_up_on = ""
                    return
                if self.raw is not None:
                    writer.write(self.raw)
                    continue
                for answer in self._answers(message, name):
                    writer.write(answer.serialise(next(serials)))
            await writer.drain()

    def _answers(self, message: Message, name: str) -> list[Message]:
        body = message.body
        if name not in ("Get", "ListUnitsByNames", "Hello", "AddMatch", "Subscribe", "GetUnitFileState"):
            self.asked.append(" ".join([name, *(str(one) for one in body[:1])]))
        if name == "Reload":
            self._reread()
        match name:
            case "Hello":
                return [new_method_return(message, "s", (":1.1",))]
            case "AddMatch" | "Subscribe" | "Reload" | "ResetFailedUnit":
                return [new_method_return(message)]
            case "ListUnitsByNames":
                return [new_method_return(message, "a(ssssssouso)", ([self._row(one) for one in body[0]],))]
            case "Get":
                return [self._get(message, *body)]
            case "GetUnitFileState":
                unit = self.units.get(body[0], Unit())
                return [new_method_return(message, "s", (unit.file_on_disk or unit.file,))]
            case "EnableUnitFiles":
                return [new_method_return(message, "ba(sss)", (True, self._enable(body[0][0], "enabled")))]
            case "DisableUnitFiles":
                return [new_method_return(message, "a(sss)", (self._enable(body[0][0], "disabled"),))]
            case _:
                return self._job(message, name, body[0])

    def _row(self, name: str) -> tuple[Any, ...]:
        unit = self.units.get(name, Unit(load="not-found"))
        path = f"/unit/{name.encode().hex()}"
        self._paths[path] = name
        return (unit.id or name, name, unit.load, unit.active, unit.sub, "", path, 0, "", "/")

    def _get(self, message: Message, interface: str, name: str) -> Message:
        del interface
        unit = self.units.get(self._paths[message.header.fields[HeaderFields.path]], Unit())
        known = {
            "UnitFileState": ("s", unit.file), "NeedDaemonReload": ("b", unit.stale),
            "FragmentPath": ("s", ""), "DropInPaths": ("as", []), **unit.properties,
        }  # fmt: skip
        if name not in known:
            return new_error(message, "org.freedesktop.DBus.Error.UnknownProperty", "s", ("no such",))
        return new_method_return(message, "v", (known[name],))

    def _enable(self, name: str, state: str) -> list[tuple[str, str, str]]:
        unit = self.units[name]
        changed = (unit.file_on_disk or unit.file) != state
        if self.forgets:
            unit.file_on_disk = state
        else:
            unit.file = state
        if changed:
            for unit in self.units.values():
                unit.stale = True  # as from systemd 255 on, until it is told to reload
        return [("symlink", "/a", "/b")] if changed else []

    def _reread(self) -> None:
        for unit in self.units.values():
            unit.stale = False

    def _job(self, message: Message, method: str, name: str) -> list[Message]:
        unit = self.units.get(name)
        if unit is None:
            return [new_error(message, NO_SUCH_UNIT, "s", (f"Unit {name} not found.",))]
        number = next(self._jobs)
        path = f"/org/freedesktop/systemd1/job/{number}"
        result = self.on_job(method, unit)
        other = new_signal(MANAGER, "JobRemoved", "uoss", (0, "/other/job", "other.service", "failed"))
        end = new_signal(MANAGER, "JobRemoved", "uoss", (number, path, name, result))
        reply = new_method_return(message, "o", (path,))
        return [other, end, reply] if result else [other, reply]  # its end may come before its answer


def _obey(method: str, unit: Unit) -> str:
    running = method != "StopUnit"
    unit.active, unit.sub = ("active", "running") if running else ("inactive", "dead")
    return "done"
