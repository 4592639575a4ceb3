"""Steps on Kairos: a file in /oem, another image, and a stage of its own run by hand."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import msgspec

from nodemanager.agent.edge.bond_steps import BondReverts
from nodemanager.agent.tasks.attempts import Attempt, AttemptResult, Exclusive, Performer
from nodemanager.agent.tasks.programs import Programs
from nodemanager.api.maintenance.edge_steps import (
    OEM_NETWORK,
    BondRevertAction,
    KairosStageAction,
    KairosUpgradeAction,
    OemFileAction,
)
from nodemanager.api.maintenance.task_steps import ExecutionAction
from nodemanager.backends.systems.kairos import AGENT, Kairos, stage_argv, upgrade_argv
from nodemanager.host.base import HostError, NotSupported
from nodemanager.host.edge import boot_writes, kairos, oem
from nodemanager.host.edge.bond_changes import BondChanges, Evidence
from nodemanager.host.edge.bond_plans import Phase
from nodemanager.host.edge.oem import OemFiles

_SYSTEM: Final = Kairos()
"""The meaning of its words, and the name of its program; it looks up itself what this host has booted."""


class Before(msgspec.Struct, frozen=True):
    """What a file contained; None = it was not there."""

    content: str | None


@dataclass(frozen=True, slots=True)
class OemSteps(Performer):
    """Writes files into /oem."""

    files: OemFiles
    changes: BondChanges
    exclusive: Exclusive

    async def prepare(self, action: OemFileAction) -> bytes:
        """Return what is there."""
        return msgspec.json.encode(Before(self.files.read(_name(action))))

    async def perform(self, action: OemFileAction, attempt: Attempt) -> AttemptResult:
        """Write the file, if it takes effect at boot, kairos-agent accepts it, and its content is new."""
        del attempt
        name = _name(action)
        async with self.exclusive():
            there = self.files.read(name)
            content = await asyncio.to_thread(self._content, action, name, there)
            changed = await self.files.put(name, content)
        return AttemptResult(succeeded=True, changed=changed)

    async def take_back(self, action: OemFileAction, attempt: Attempt) -> AttemptResult:
        """Put back what was there, or remove what was not."""
        before = msgspec.json.decode(attempt.known.inverse, type=Before)
        async with self.exclusive():
            if before.content is None:
                self.files.remove(_name(action))
            else:
                self.files.put_back(_name(action), before.content)
        return AttemptResult(succeeded=True)

    def _content(self, action: OemFileAction, name: str, there: str | None) -> str:
        """Return the content to write; raises HostError if another file would override it at boot."""
        content, paths = action.content, None
        if action.bond:
            files = oem.files_of_bond(self.changes.tree, action.bond, self._settled_mode(action.bond))
            content = oem.of_bond(action.bond, files, name, there)
            paths = {one.path for one in files}
        boot_writes.need_last_word(self.files.tree, f"{boot_writes.OEM}/{name}", content, paths)
        return content

    def _settled_mode(self, bond: str) -> str:
        """Return the mode that a bond has permanently: that of a commit, or the one that was put back."""
        record = self.changes.record(bond)
        plan, phase = record.plan(), record.phase()
        if plan is not None and phase is Phase.COMMITTED:
            return plan.mode
        if plan is not None and phase in (Phase.REVERTED, Phase.FIRED) and record.restored() == 0:
            return plan.before_mode
        raise HostError(
            f"cannot keep the files of {bond} over a boot: no change of it is committed, or wholly put back"
        )


class TellingReverts(BondReverts):
    """Puts a bond back, and reports if a boot would change it again."""

    async def do(self, action: BondRevertAction, attempt: Attempt) -> Evidence:
        """Put back files and mode; a file in /oem stays, because another step wrote it."""
        evidence = await BondReverts.do(self, action, attempt)
        left = await asyncio.to_thread(self._left, action.bond, evidence.get("modeAfter", ""))
        return evidence | ({"oem": left} if left else {})

    def _left(self, bond: str, mode: str) -> str:
        """Return what to do about a file that overrides others at boot; empty = nothing."""
        try:
            found = oem.at_boot(self.changes.tree, bond) if mode else None
        except HostError as error:
            return str(error)
        if found is None or found.mode == mode:
            return ""
        return f"{found.by} makes it {found.mode or 'nobody knows what'} at the next boot: do oemFile again"


def _name(action: OemFileAction) -> str:
    return action.name or OEM_NETWORK


@dataclass(frozen=True, slots=True)
class KairosPrograms(Performer):
    """Lets kairos-agent do work that goes on without us, and is never repeated by itself."""

    programs: Programs
    root: str

    async def prepare(self, action: KairosUpgradeAction | KairosStageAction) -> bytes:
        """Refuse on a host that is no Kairos, and an upgrade of one that has not booted its active image."""
        boot = kairos.observe(self.root)
        if boot is None:
            raise NotSupported(f"cannot run {AGENT}: this host is no Kairos")
        upgrades = isinstance(action, KairosUpgradeAction) and not action.recovery
        if upgrades and not _SYSTEM.booted(boot.entry).good:
            raise HostError(
                f"cannot upgrade: this host has booted its {boot.entry} image, as after a failed upgrade;"
                " look why, and boot the active one"
            )
        return b""

    async def perform(
        self, action: KairosUpgradeAction | KairosStageAction, attempt: Attempt
    ) -> AttemptResult:
        """Run it to its end."""
        return await self.programs.perform(_execution(action), attempt)

    async def settle(
        self, action: KairosUpgradeAction | KairosStageAction, attempt: Attempt
    ) -> AttemptResult:
        """Wait for the work if it goes on, or read how it ended."""
        return await self.programs.settle(_execution(action), attempt)


def _execution(action: KairosUpgradeAction | KairosStageAction) -> ExecutionAction:
    return ExecutionAction(argv=argv_of(action))


def argv_of(action: KairosUpgradeAction | KairosStageAction) -> list[str]:
    """Return the command. Pure."""
    if isinstance(action, KairosUpgradeAction):
        return list(upgrade_argv(action.source, recovery=action.recovery))
    return list(stage_argv(action.stage, action.path))
