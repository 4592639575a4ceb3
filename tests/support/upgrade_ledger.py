"""What upgrades write down, in memory; and tools that ask a host by script."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from nodemanager.agent.tasks.ledger import Entry, LedgerError, LedgerFolder
from nodemanager.agent.tasks.packages import Packages
from nodemanager.agent.tasks.probes import Probes
from nodemanager.agent.tasks.reboots import Reboots
from nodemanager.agent.upgrades import own_task
from nodemanager.agent.upgrades.own_task import REBOOT, UPGRADE, Stage, UpgradeEntry, UpgradeTools
from nodemanager.host.base import WantedPackage
from nodemanager.host.inventory.boot import Boot
from nodemanager.plan.tasks.record import StepPhase
from support.fake_tools import MemoryPackages

WORDS = {
    (StepPhase.RUNNING, StepPhase.PENDING): "Upgrading",
    (StepPhase.SUCCEEDED, StepPhase.PENDING): "Upgraded",
    (StepPhase.SUCCEEDED, StepPhase.RUNNING): "Rebooting",
    (StepPhase.SUCCEEDED, StepPhase.SUCCEEDED): "Proving",
}


def at(entry: UpgradeEntry) -> str:
    """Return where an upgrade is, in one word."""
    if entry.stage is not Stage.WORKING:
        return str(entry.stage)
    if entry.record.phase.is_end:
        return "Returning"
    steps = entry.record.steps
    return WORDS.get((steps[UPGRADE].phase, steps[REBOOT].phase), str(entry.stage))


def _nothing() -> None:
    """Let it be written."""


class MemoryLedger(LedgerFolder):
    """A ledger whose files are in a dictionary."""

    def __init__(
        self,
        files: dict[str, bytes],
        before: Callable[[], None] = _nothing,
        after: Callable[[], None] = _nothing,
    ) -> None:
        self.files, self.before, self.after = files, before, after
        found = [msgspec.json.decode(one, type=UpgradeEntry) for one in files.values()]
        self.entries: dict[str, Entry] = {one.record.uid: one for one in found}
        self.fence = 0
        self.full = ""
        """Why nothing can be written."""

    @property
    def last(self) -> UpgradeEntry:
        return own_task.latest(self.entries.values())

    def _write(self, name: str, data: bytes) -> None:
        self.before()
        if self.full:
            raise LedgerError(self.full)
        self.files[name] = data
        self.after()


class ScriptedHost(Boot, Protocol):
    """A host that can be upgraded."""

    async def upgrade(self) -> None: ...

    async def reboot_needed(self) -> str: ...


class ScriptedPackages(MemoryPackages):
    """Packages whose upgrade is that of a host."""

    def __init__(self, host: ScriptedHost) -> None:
        super().__init__({})
        self._host = host

    async def upgrade_all(self, hold: Sequence[WantedPackage] = ()) -> None:
        del hold
        await self._host.upgrade()


async def no_program(*_: Any, **__: Any) -> Any:
    raise NotImplementedError


def tools_of(
    host: ScriptedHost,
    prove: Callable[[], Awaitable[None]],
    may_act: Callable[[], bool],
    base: Callable[[], Awaitable[bool]] | None = None,
) -> UpgradeTools:
    """Return real performers that ask such a host."""
    return UpgradeTools(
        Packages(ScriptedPackages(host), tuple, contextlib.nullcontext),
        Reboots(host, host.reboot_needed, contextlib.nullcontext),
        Probes(no_program, None, prove, may_act),
        base,
    )
