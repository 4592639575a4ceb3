"""Steps on Kairos: a file in /oem, another image, and a stage of its own run by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from nodemanager.agent.tasks.attempts import Attempt, AttemptResult, Exclusive, Performer
from nodemanager.agent.tasks.programs import Programs
from nodemanager.api.maintenance.edge_steps import KairosStageAction, KairosUpgradeAction, OemFileAction
from nodemanager.api.maintenance.task_steps import ExecutionAction
from nodemanager.host.base import HostError, NotSupported
from nodemanager.host.edge import kairos, oem
from nodemanager.host.edge.bond_changes import BondChanges
from nodemanager.host.edge.bond_plans import Phase
from nodemanager.host.edge.oem import OemFiles

AGENT: Final = "kairos-agent"


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
        return msgspec.json.encode(Before(self.files.read(action.name)))

    async def perform(self, action: OemFileAction, attempt: Attempt) -> AttemptResult:
        """Write it, if kairos-agent finds it good and it is another one."""
        del attempt
        content = action.content or self._of_bond(action.bond)
        async with self.exclusive():
            changed = await self.files.put(action.name, content)
        return AttemptResult(succeeded=True, changed=changed)

    async def take_back(self, action: OemFileAction, attempt: Attempt) -> AttemptResult:
        """Put back what was there, or remove what was not."""
        before = msgspec.json.decode(attempt.known.inverse, type=Before)
        async with self.exclusive():
            if before.content is None:
                self.files.remove(action.name)
            else:
                self.files.put_back(action.name, before.content)
        return AttemptResult(succeeded=True)

    def _of_bond(self, bond: str) -> str:
        record = self.changes.record(bond)
        plan = record.plan()
        if plan is None or record.phase() is not Phase.COMMITTED:
            raise HostError(f"cannot keep the files of {bond} over a boot: no change of it is committed")
        return oem.of_bond(bond, oem.files_of_bond(self.changes.tree, bond, plan.mode))


@dataclass(frozen=True, slots=True)
class KairosPrograms(Performer):
    """Has kairos-agent do something that goes on without us, and is never done twice by itself."""

    programs: Programs
    root: str

    async def prepare(self, action: KairosUpgradeAction | KairosStageAction) -> bytes:
        """Refuse on a host that is no Kairos, and an upgrade of one that has not booted its active image."""
        boot = kairos.observe(self.root)
        if boot is None:
            raise NotSupported(f"cannot run {AGENT}: this host is no Kairos")
        if isinstance(action, KairosUpgradeAction) and not action.recovery and boot.entry != kairos.ACTIVE:
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
        """Wait for it if it goes on, or take how it ended."""
        return await self.programs.settle(_execution(action), attempt)


def _execution(action: KairosUpgradeAction | KairosStageAction) -> ExecutionAction:
    return ExecutionAction(argv=argv_of(action))


def argv_of(action: KairosUpgradeAction | KairosStageAction) -> list[str]:
    """Return what is run; pure."""
    if isinstance(action, KairosUpgradeAction):
        return [AGENT, "upgrade", "--source", action.source, *(["--recovery"] if action.recovery else [])]
    paths = ["--cloud-init-paths", action.path] if action.path else []
    return [AGENT, "run-stage", action.stage, "--strict", *paths]
