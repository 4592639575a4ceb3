"""systemd, over D-Bus: looks at all units at once, follows every job to its end, and says why one failed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from nodemanager.host.base import HostError, NotSupported, Runner, ServiceKey, ToolFailed
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import users
from nodemanager.host.process import runner
from nodemanager.host.services import systemd_bus, systemd_files, systemd_units
from nodemanager.host.services.dbus import BusError, BusUnreachable, CallRefused
from nodemanager.host.services.systemd_bus import ManagerSession
from nodemanager.host.services.systemd_units import UnitStatus
from nodemanager.plan.facts import ServiceFact

JOB_SECONDS: Final = 300.0
"""How long a job may take; units have time limits of their own, 90 seconds by default."""
SETTLE_SECONDS: Final = 3.0
"""How long an observation waits for units that are changing state."""
JOURNAL_SECONDS: Final = 5.0
JOURNAL_LINES: Final = 5
_SHOWN: Final = 600
_SERVICE: Final = (
    "Type", "Result", "NRestarts", "ExecMainCode", "ExecMainStatus", "ExecMainStartTimestampMonotonic",
)  # fmt: skip

_BOTH: Final = frozenset(("enabled", "disabled"))

_Place = tuple[str, str]
"""A user, empty for the host's own manager, and a unit."""


@dataclass(frozen=True, slots=True)
class _Deed:
    """An action on a unit, for messages."""

    verb: str
    key: ServiceKey

    @property
    def unit(self) -> str:
        return systemd_units.unit_name(self.key.name)

    @property
    def failed(self) -> str:
        return f"cannot {self.verb} {self.unit}" + (f" of {self.key.user}" if self.key.user else "")

    @property
    def advice(self) -> str:
        whose = f"--user -M {self.key.user}@ " if self.key.user else ""
        return f"run systemctl {whose}status {self.unit}"


@contextmanager
def _naming(deed: _Deed) -> Iterator[None]:
    """Have what the bus says begin with what could not be done."""
    try:
        yield
    except CallRefused as error:
        raise ToolFailed(f"{deed.failed}: {error}; {deed.advice}") from error
    except BusUnreachable as error:
        raise BusUnreachable(f"{deed.failed}: {error}") from error


class Systemd:
    """The running systemd of this host, and those of its users."""

    name = "systemd"

    def __init__(self, tree: Tree, run: Runner, start_delay: float | None) -> None:
        """`start_delay` None is for those who hear of changes: nothing that is on its way is waited for."""
        self._tree = tree
        self._run = run
        self._start_delay = start_delay or 0.0
        self._no_wait = start_delay is None
        self._patience = 0.0 if self._no_wait else SETTLE_SECONDS
        self._unread: dict[_Place, frozenset[str]] = {}
        """Files that systemd had not read at our last look at a unit; and links, as sentences."""
        self._ignored: dict[_Place, frozenset[str]] = {}
        """Those of them that it does not read even after a reload, for its own reasons."""

    async def observe(self, keys: Iterable[ServiceKey]) -> Mapping[ServiceKey, ServiceFact]:
        """Return the state of each unit; one connection for the host and one for each user."""
        facts: dict[ServiceKey, ServiceFact] = {}
        by_user: dict[str, list[ServiceKey]] = {}
        for key in keys:
            by_user.setdefault(key.user, []).append(key)
        for user, group in by_user.items():
            try:
                async with systemd_bus.visit(self._tree, user) as manager:
                    facts.update(await self._look(manager, group, user))
            except HostError as error:
                facts.update(dict.fromkeys(group, ServiceFact(error=_reach(error, user))))
        return facts

    async def _look(
        self, manager: ManagerSession, keys: Iterable[ServiceKey], user: str
    ) -> dict[ServiceKey, ServiceFact]:
        facts: dict[ServiceKey, ServiceFact] = {}
        units: dict[str, list[ServiceKey]] = {}
        for key in keys:
            unit = systemd_units.unit_name(key.name)
            if not systemd_units.is_unit_name(unit):
                facts[key] = ServiceFact(error=f"cannot look at {key.name}: that is no name for a unit")
            elif systemd_units.is_template(unit):
                facts[key] = await _look_at_template(manager, unit)
            else:
                units.setdefault(unit, []).append(key)
        found = await _settle_all(manager, list(units), self._patience) if units else {}
        found = self._with_unread(found, await self._misremembered(manager, found, user), user)
        for unit, asked in units.items():
            status = found.get(unit)
            facts.update(dict.fromkeys(asked, systemd_units.fact(status) if status else ServiceFact()))
        return facts

    async def _misremembered(
        self, manager: ManagerSession, found: Mapping[str, UnitStatus], user: str
    ) -> dict[str, str]:
        """Return what is true of boot, by unit, where systemd remembers something else than the links say."""
        linked = None if user else systemd_files.linked(self._tree)  # of users, only their own manager knows
        states: dict[str, str] = {}
        for name, status in found.items():
            doubtful = _BOTH if linked is None else {"disabled" if status.id in linked else "enabled"}
            if status.file in doubtful:
                with suppress(CallRefused):
                    states[name] = str(await manager.method("GetUnitFileState", "s", status.id))
        return {name: state for name, state in states.items() if state != found[name].file}

    def _with_unread(
        self, found: dict[str, UnitStatus], misremembered: Mapping[str, str], user: str
    ) -> dict[str, UnitStatus]:
        """Count units as stale, too, that have files or links which systemd does not know about.

        A repair does not count links: it puts them right first, and systemd is told later.
        """
        folders = systemd_files.USER if user else systemd_files.SYSTEM
        unread = {name: systemd_files.unread(self._tree, status, folders) for name, status in found.items()}
        self._tree.forget()
        if not self._no_wait:
            for name, state in misremembered.items():
                unread[name] |= {f"{name} is {state}"}
        for name, files in unread.items():
            place = user, name
            self._unread[place], self._ignored[place] = files, self._ignored.get(place, frozenset()) & files
        return {
            name: replace(
                status,
                file=misremembered.get(name, status.file),
                stale=status.stale or bool(unread[name] - self._ignored[user, name]),
            )
            for name, status in found.items()
        }

    async def refresh(self, user: str = "") -> None:
        """Have unit files read again."""
        whose = f" of {user}" if user else ""
        unread = dict(self._unread)  # another reader may see files that come too late
        async with systemd_bus.visit(self._tree, user) as manager:
            try:
                await manager.method("Reload", seconds=systemd_bus.RELOAD_SECONDS)
                self._ignored.update({place: files for place, files in unread.items() if place[0] == user})
            except BusError as error:
                raise ToolFailed(
                    f"cannot reload the unit files{whose}: {error}; run systemctl daemon-reload"
                ) from error

    async def enable(self, key: ServiceKey, *, enabled: bool) -> bool:
        """Make it start at boot, or not; systemd learns of changes with the next `refresh`."""
        deed = _Deed("enable" if enabled else "disable", key)
        async with systemd_bus.visit(self._tree, key.user) as manager:
            try:
                first_name, remembers = deed.unit, True
                if not systemd_units.is_template(first_name):
                    status = await manager.status(first_name)
                    first_name = status.id  # an alias itself cannot be enabled
                    remembers = systemd_units.starts_at_boot(status.file) is enabled
                changes = await _enable(manager, first_name, enabled=enabled)
                if changes is None:
                    raise NotSupported(
                        f"{deed.failed}: its unit file has no [Install] section, so nothing starts it at"
                        " boot; leave enable out, or declare a unit file that has one"
                    )
            except BusError as error:
                raise ToolFailed(f"{deed.failed}: {error}") from error
        return bool(changes) or not remembers

    async def set_arguments(self, key: ServiceKey, arguments: str) -> None:
        """Refuse: arguments are part of a unit file."""
        del arguments
        unit = systemd_units.unit_name(key.name)
        raise NotSupported(
            f"cannot set the arguments of {unit}: systemd has none besides the unit file; declare a file"
            f" /etc/systemd/system/{unit}.d/arguments.conf"
        )

    async def start(self, key: ServiceKey) -> None:
        """Start it, and fail unless it still runs after a moment."""
        await self._bring_up(_Deed("start", key), "StartUnit")

    async def restart(self, key: ServiceKey) -> None:
        """Restart it, and fail unless it still runs after a moment."""
        await self._bring_up(_Deed("restart", key), "RestartUnit")

    async def reload(self, key: ServiceKey) -> bool:
        """Reload it; systemd restarts it where it cannot reload. Return whether it was reloaded."""
        deed = _Deed("reload", key)
        with _naming(deed):
            async with systemd_bus.visit(self._tree, key.user) as manager:
                status = await manager.status(deed.unit)
                found = await manager.properties(status.path, "Unit", "CanReload")
        await self._bring_up(deed, "ReloadOrRestartUnit")
        return bool(found.get("CanReload", True))

    async def stop(self, key: ServiceKey) -> None:
        """Stop it and wait until it has stopped."""
        deed = _Deed("stop", key)
        with _naming(deed):
            await self._job(deed, "StopUnit")
            async with systemd_bus.visit(self._tree, key.user) as manager:
                status = await _settle(manager, deed.unit)
        if status.running:
            raise ToolFailed(f"{deed.failed}: it is {status.words} again; {deed.advice}")

    async def _bring_up(self, deed: _Deed, method: str) -> None:
        with _naming(deed):
            await self._job(deed, method)
            async with systemd_bus.visit(self._tree, deed.key.user) as manager:
                before = await _service(manager, deed.unit)
                await asyncio.sleep(self._start_delay)
                status = await _settle(manager, deed.unit)
                after = await _service(manager, deed.unit)
                again = after.get("NRestarts", 0) > before.get("NRestarts", 0)
                if (status.running and not again) or _has_done_its_work(status, after):
                    return
                why = await _unmet(manager, status)
        raise await self._failure(deed, status, after, exited=True, why=why)

    async def _job(self, deed: _Deed, method: str) -> None:
        job = result = ""
        try:
            async with systemd_bus.visit(self._tree, deed.key.user) as manager:
                if method != "StopUnit":
                    await _forget_failure(manager, deed.unit)
                job = await manager.submit(method, deed.unit)
                result = await manager.outcome(job, JOB_SECONDS)
        except BusUnreachable:
            if not job:
                raise
            if await systemd_bus.wait_idle(self._tree, deed.key.user, deed.unit, job, JOB_SECONDS):
                result = "done"  # or not: the caller looks at the unit next
        if result in ("done", "skipped"):
            return
        async with systemd_bus.visit(self._tree, deed.key.user) as manager:
            status, service = await manager.status(deed.unit), await _service(manager, deed.unit)
        why = _JOB_RESULTS.get(result, "") if result else f"it was not done after {JOB_SECONDS:g} s"
        raise await self._failure(deed, status, service, exited=False, why=why)

    async def _failure(
        self, deed: _Deed, status: UnitStatus, service: Mapping[str, Any], *, exited: bool, why: str
    ) -> ToolFailed:
        how = systemd_units.ending(service)
        if not why:
            why = "it started and exited" if exited else "it failed"
            why += f" ({how})" if how else ""
        lines = await self._journal(deed.key, status.id)
        said = f"; it said last:\n{lines}" if lines else ""
        return ToolFailed(f"{deed.failed}: {why}, and is {status.words} now; {deed.advice}{said}")

    async def _journal(self, key: ServiceKey, unit: str) -> str:
        """Return the last lines a unit logged; nothing where there is no journal."""
        whose = [f"--unit={unit}"]
        if key.user:
            number = users.user_numbers(self._tree, [key.user]).get(key.user, -1)
            whose = [f"_SYSTEMD_USER_UNIT={unit}", f"_UID={number}"]
        argv = ["journalctl", "--no-pager", "--quiet", "--output=cat", f"--lines={JOURNAL_LINES}", *whose]
        with suppress(runner.RunError):
            done = await self._run(argv, timeout=JOURNAL_SECONDS)
            if done.returncode == 0:
                return runner.tail(done.stdout, _SHOWN)
        return ""


_JOB_RESULTS: Final = {
    "timeout": "it took longer than its unit file allows",
    "dependency": "a unit that it requires failed",
    "canceled": "somebody else changed it meanwhile",
    "assert": "an assertion of its unit file does not hold",
    "unsupported": "this system does not support units of its type",
}
"""Results of jobs that say more than the unit itself."""


async def _look_at_template(manager: ManagerSession, unit: str) -> ServiceFact:
    try:
        return systemd_units.template_fact(str(await manager.method("GetUnitFileState", "s", unit)))
    except CallRefused:
        return ServiceFact()


async def _settle_all(
    manager: ManagerSession, names: list[str], seconds: float = SETTLE_SECONDS
) -> dict[str, UnitStatus]:
    """Look until nothing is on its way any more, but not for long."""
    found = await manager.statuses(names)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while moving := [name for name, status in found.items() if not status.settled]:
                await asyncio.sleep(systemd_bus.POLL_SECONDS)
                found |= await manager.statuses(moving)
    return found


async def _settle(manager: ManagerSession, unit: str) -> UnitStatus:
    found = await _settle_all(manager, [unit])
    return found.get(unit) or await manager.status(unit)


async def _service(manager: ManagerSession, unit: str) -> dict[str, Any]:
    status = await manager.status(unit)
    return await manager.properties(status.path, "Service", *_SERVICE)


def _has_done_its_work(status: UnitStatus, service: Mapping[str, Any]) -> bool:
    """A oneshot is not there to stay."""
    succeeded = status.active == "inactive" and service.get("Result") == "success"
    return succeeded and service.get("Type") == "oneshot"


async def _unmet(manager: ManagerSession, status: UnitStatus) -> str:
    """Return that conditions kept a unit from starting, if so."""
    found = await manager.properties(status.path, "Unit", "ConditionResult", "ConditionTimestampMonotonic")
    checked = found.get("ConditionTimestampMonotonic", 0)  # 0: never, or it is unloaded and forgotten
    return "its conditions are not met" if checked and not found.get("ConditionResult", True) else ""


async def _forget_failure(manager: ManagerSession, unit: str) -> None:
    """A unit that failed too often refuses to be started; that we are asked to is reason enough."""
    status = await manager.status(unit)
    if status.active == "failed":
        await manager.method("ResetFailedUnit", "s", status.id)


async def _enable(manager: ManagerSession, unit: str, *, enabled: bool) -> list[Any] | None:
    """Return what changed on disk; None where the unit file does not say what enabling it would mean."""
    if not enabled:
        return list(await manager.method("DisableUnitFiles", "asb", [unit], False))
    carries, changes = await manager.answer("EnableUnitFiles", "asbb", [unit], False, True)
    return list(changes) if carries or changes else None


def _reach(error: HostError, user: str) -> str:
    text = str(error)
    return (
        text
        if text.startswith("cannot ")
        else f"cannot look at the services{f' of {user}' if user else ''}: {text}"
    )
