"""Steps that change packages: what was installed before is on disk before anything changes, and can be had back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from nodemanager.agent.tasks.attempts import Attempt, AttemptResult
from nodemanager.api.maintenance.task_steps import PackagesAction
from nodemanager.host.base import HostError, PackageManager, Wanted
from nodemanager.host.process.runner import RunError
from nodemanager.host.process.threads import to_the_end

MAX_EVIDENCE: Final = 250
"""Packages whose versions before and after are reported."""
Versions = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Packages:
    """Changes packages for tasks."""

    manager: PackageManager
    pins: Callable[[], Sequence[Wanted]]
    """What ConfigSets want at a certain version: it stays there."""

    async def prepare(self) -> bytes:
        """Return what is installed, to be remembered before anything changes."""
        return msgspec.json.encode(dict(await self.manager.installed()))

    async def perform(self, action: PackagesAction, attempt: Attempt) -> AttemptResult:
        """Change the packages, in one transaction, to its end."""
        before = msgspec.json.decode(attempt.known.inverse, type=dict[str, str])
        try:
            await to_the_end(self._change(action))
        except (HostError, RunError) as error:
            return self._result(before, await self.manager.installed(), str(error))
        return self._result(before, await self.manager.installed())

    async def settle(self, action: PackagesAction, attempt: Attempt) -> AttemptResult:
        """Bring it about again: packages that are as they shall be are left alone."""
        return await self.perform(action, attempt)

    async def take_back(self, attempt: Attempt) -> AttemptResult:
        """Install what was there, at the versions that were there, and remove what was not."""
        before = msgspec.json.decode(attempt.known.inverse, type=dict[str, str])
        now = await self.manager.installed()
        lost, new = changes(before, now)
        try:
            if lost:
                await to_the_end(self.manager.install([Wanted(*one) for one in sorted(lost.items())]))
            if new:
                await to_the_end(self.manager.remove(sorted(new)))
        except (HostError, RunError) as error:
            return AttemptResult(succeeded=False, message=str(error))
        return self._result(now, await self.manager.installed())

    async def _change(self, action: PackagesAction) -> None:
        if action.upgrade:
            await self.manager.upgrade_all(self.pins())
        elif action.install:
            await self.manager.install([Wanted(one.name, one.version) for one in action.install])
        else:
            await self.manager.remove(action.remove)

    def _result(self, before: Versions, after: Versions, problem: str = "") -> AttemptResult:
        lost, new = changes(before, after)
        told = {**{name: f"{version} -> {after.get(name, 'removed')}" for name, version in lost.items()},
                **{name: f"-> {after[name]}" for name in new}}  # fmt: skip
        some = dict(sorted(told.items())[:MAX_EVIDENCE])
        return AttemptResult(not problem, problem, changed=bool(told), evidence=some)


def changes(before: Versions, after: Versions) -> tuple[dict[str, str], set[str]]:
    """Return what is gone or has another version, with the one it had, and what is new; pure."""
    lost = {name: version for name, version in before.items() if after.get(name) != version}
    return lost, set(after) - set(before)
