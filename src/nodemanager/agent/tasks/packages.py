"""Steps that change packages: the installed versions are recorded before, and can be restored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from nodemanager.agent.tasks.attempts import Attempt, AttemptResult, Exclusive, Performer
from nodemanager.api.maintenance.nodetask import CUT
from nodemanager.api.maintenance.task_steps import PackagesAction, PackagesBefore, TaskPackage
from nodemanager.host.base import HostError, NotSupported, PackageManager, UpgradePlanner, WantedPackage
from nodemanager.host.process.runner import RunError
from nodemanager.kube import wording

MAX_EVIDENCE: Final = 100
"""How many packages are reported with versions before and after; the package manager logs all of them."""
Versions = Mapping[str, str]


class VersionsBefore(msgspec.Struct, frozen=True, omit_defaults=True):
    """How packages were before a step."""

    versions: dict[str, str]
    added: list[str] | None = None
    """What the step added. Until that is known, `versions` has everything that was installed."""


@dataclass(frozen=True, slots=True)
class Packages(Performer):
    """Changes packages for tasks."""

    UNBROKEN = True
    manager: PackageManager | None
    pins: Callable[[], Sequence[WantedPackage]]
    """Packages that ConfigSets keep at a certain version."""
    exclusive: Exclusive
    earlier: Callable[[PackagesBefore], bytes] = lambda _wanted: b""
    """The record of an earlier step about former packages; empty = there is none."""

    async def prepare(self, action: PackagesAction) -> bytes:
        """Return what is installed."""
        manager = self._known()
        async with self.exclusive():
            self._check(action)
            return msgspec.json.encode(VersionsBefore(plain(await manager.installed())))

    async def perform(self, action: PackagesAction, attempt: Attempt) -> AttemptResult:
        """Change the packages, in one transaction, to its end; nobody breaks off a package manager."""
        manager, problem = self._known(), ""
        async with self.exclusive():
            before = _before(attempt) or VersionsBefore(plain(await manager.installed()))
            try:
                await self._change(action, manager)
            except (HostError, RunError) as error:
                problem = str(error)
            after = plain(await manager.installed())
        lost, new = changes(before.versions, after)
        inverse = msgspec.json.encode(VersionsBefore(lost, sorted(new)))
        return _told(before.versions, after, problem, inverse)

    async def take_back(self, action: PackagesAction, attempt: Attempt) -> AttemptResult:
        """Install what was there, at the versions that were there, and remove what was not."""
        del action
        manager, before = self._known(), _before(attempt) or VersionsBefore({}, [])
        async with self.exclusive():
            await _bring_back(manager, before)
        return AttemptResult(succeeded=True)

    def _known(self) -> PackageManager:
        if self.manager is None:
            raise NotSupported("cannot change packages: this host has no package manager that we know")
        return self.manager

    def _check(self, action: PackagesAction) -> None:
        """Refuse what a ConfigSet pins at another version."""
        pins = {one.name: one.version for one in self.pins()}
        wanted = [*action.install, *(TaskPackage(name=name) for name in action.remove)]
        if action.restore is not None:
            before = self._earlier(action.restore)
            wanted += [TaskPackage(name=name, version=version) for name, version in before.versions.items()]
            wanted += [TaskPackage(name=name) for name in before.added or ()]
        for one in wanted:
            if one.name in pins and one.version != pins[one.name]:
                raise HostError(
                    f"cannot change {one.name}: a ConfigSet of this host pins it at {pins[one.name]};"
                    " change that"
                )

    def _earlier(self, wanted: PackagesBefore) -> VersionsBefore:
        found = self.earlier(wanted)
        before = msgspec.json.decode(found, type=VersionsBefore) if found else None
        if before is None or before.added is None:  # without what it brought, we would remove what others did
            raise HostError(
                f"cannot bring back packages: this host does not remember step {wanted.step} of the task"
                f" with uid {wanted.task}; install the versions that its status names"
            )
        return before

    async def _change(self, action: PackagesAction, manager: PackageManager) -> None:
        if action.upgrade == "security":
            offered = await planner(manager).upgrades(self.pins(), security=True)
            if offered:
                await manager.install(
                    [WantedPackage(name, new) for name, (_, new) in sorted(offered.items())]
                )
        elif action.upgrade:
            await manager.upgrade_all(self.pins())
        elif action.restore is not None:
            await _bring_back(manager, self._earlier(action.restore))
        elif action.install:
            await manager.install([WantedPackage(one.name, one.version) for one in action.install])
        else:
            await manager.remove(action.remove)


async def _bring_back(manager: PackageManager, before: VersionsBefore) -> None:
    """Install what was there, at the versions that were there, and remove what was not."""
    lost, new = missing(before, plain(await manager.installed()))
    if lost:
        await manager.install([WantedPackage(*one) for one in sorted(lost.items())])
    if new:
        await manager.remove(sorted(new))
    lost, new = missing(before, plain(await manager.installed()))
    if names := sorted({*lost, *new}):
        raise HostError(f"not as before: {wording.shorten(', '.join(names), 512)}")


def planner(manager: PackageManager | None) -> UpgradePlanner:
    """Return what can tell upgrades beforehand, and which of them are about security."""
    found: object = manager
    if isinstance(found, UpgradePlanner):
        return found
    name = manager.name if manager else "no package manager"
    raise NotSupported(
        f"cannot tell which upgrades {name} would do, nor which are about security: only apt can be asked for"
        " that; upgrade all instead"
    )


def _before(attempt: Attempt) -> VersionsBefore | None:
    inverse = attempt.known.inverse
    return msgspec.json.decode(inverse, type=VersionsBefore) if inverse else None


def _told(before: Versions, after: Versions, problem: str, inverse: bytes) -> AttemptResult:
    lost, new = changes(before, after)
    told = {name: f"{version} -> {after.get(name, 'removed')}" for name, version in lost.items()}
    told |= {name: f"-> {after[name]}" for name in new}
    some = shown(told)
    said = f"{wording.plural(len(told), 'package')} changed" if told else "no package changed"
    return AttemptResult(
        not problem, problem, changed=bool(told), output=f"{said}\n", evidence=some, inverse=inverse
    )


def shown(told: Mapping[str, str]) -> dict[str, str]:
    """Return as much as is reported; who takes it back has to know that there was more."""
    some = dict(sorted(told.items())[:MAX_EVIDENCE])
    return some if len(some) == len(told) else {**some, CUT: f"and {len(told) - len(some)} more"}


def plain(installed: Versions) -> dict[str, str]:
    """Return each package once: apt has the host's own architecture also as `name:arch`; pure."""
    return {
        name: version for name, version in installed.items()
        if installed.get(name.partition(":")[0]) != version or ":" not in name
    }  # fmt: skip


def changes(before: Versions, after: Versions) -> tuple[dict[str, str], set[str]]:
    """Return what is gone or has another version, with the one it had, and what is new; pure."""
    lost = {name: version for name, version in before.items() if after.get(name) != version}
    return lost, set(after) - set(before)


def missing(before: VersionsBefore, now: Versions) -> tuple[dict[str, str], set[str]]:
    """Return what has to be installed, at which version, and what has to go, to have it as before; pure."""
    lost, new = changes(before.versions, now)
    return lost, new if before.added is None else set(before.added) & set(now)
