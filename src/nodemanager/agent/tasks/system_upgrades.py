"""Steps that change packages, including the upgrade of the whole system: at most once, in any case."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from nodemanager.agent.tasks.attempts import REBOOT_NEEDED, Attempt, AttemptResult, Performer
from nodemanager.agent.tasks.packages import Packages
from nodemanager.api.maintenance.task_steps import SYSTEM, PackagesAction
from nodemanager.kube import wording

MAX_REASON: Final = 256
WENT_DOWN: Final = AttemptResult(
    succeeded=False, message="the agent or the host went down during the upgrade of its packages"
)
"""An upgrade that crashed the host may do so again: it is not tried once more."""
Base = Callable[[], Awaitable[bool]]
"""Upgrades parts that are no packages, such as FreeBSD's base system, and tells whether there was an upgrade.
"""


@dataclass(frozen=True, slots=True)
class SystemUpgrades(Performer):
    """Changes packages for tasks; an upgrade of the system includes parts that are no packages."""

    UNBROKEN = True
    packages: Packages
    needed: Callable[[], Awaitable[str]]
    """Returns why a reboot is needed; empty = none is."""
    base: Base | None = None

    async def prepare(self, action: PackagesAction) -> bytes:
        """Return what is installed."""
        return await self.packages.prepare(action)

    async def perform(self, action: PackagesAction, attempt: Attempt) -> AttemptResult:
        """Change the packages, then what is none."""
        found = await self.packages.perform(action, attempt)
        return await self.completed(found) if action.upgrade == SYSTEM and found.succeeded else found

    async def completed(self, found: AttemptResult) -> AttemptResult:
        """Upgrade what is no package, and note why the host has to reboot for all of it."""
        reason = ""
        if self.base is not None:
            async with self.packages.exclusive():
                reason = "the base system was upgraded" if await self.base() else ""
        reason = wording.flat(reason or await self.needed(), MAX_REASON)
        told = {**found.evidence, REBOOT_NEEDED: reason} if reason else found.evidence
        return replace(found, evidence=told)

    async def settle(self, action: PackagesAction, attempt: Attempt) -> AttemptResult:
        """Begin no upgrade of the system twice; all else leads to a state."""
        return WENT_DOWN if action.upgrade == SYSTEM else await self.packages.settle(action, attempt)

    async def take_back(self, action: PackagesAction, attempt: Attempt) -> AttemptResult:
        """Bring back the packages as they were; what is no package stays."""
        return await self.packages.take_back(action, attempt)
