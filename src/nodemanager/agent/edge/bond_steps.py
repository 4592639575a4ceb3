"""Steps that change the mode of a bond: staged, armed, flipped, committed, or put back.

The result of a step is a visible state, so a try with an unknown end is repeated. If
no agent is left to do that, the dead-man puts the bond back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from nodemanager.agent.tasks.attempts import Attempt, AttemptResult, Exclusive, Performer
from nodemanager.api.maintenance.edge_steps import (
    BondArmAction,
    BondCommitAction,
    BondFlipAction,
    BondRevertAction,
    BondStageAction,
)
from nodemanager.host.edge.bond_changes import BondChanges, Evidence
from nodemanager.kube.go import durations

DEADLINE: Final = 300.0
_BEGUN: Final = b"1"
"""There is something to take back; the record of the bond says what."""


@dataclass(frozen=True, slots=True)
class BondSteps(Performer):
    """The common parts of all steps with a bond."""

    UNBROKEN: ClassVar[bool] = True

    changes: BondChanges
    exclusive: Exclusive
    done: Callable[[], None]
    """Called when the host looks different."""

    async def prepare(self, action: Any) -> bytes:
        """Return that there will be something to take back.

        Raises HostError where the step cannot begin: what it then took back, another task has done.
        """
        await self.check(action)
        return _BEGUN

    async def check(self, action: Any) -> None:
        """Raise HostError where the step cannot begin."""
        raise NotImplementedError

    async def perform(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Do the step, and look at the result."""
        async with self.exclusive():
            evidence = await self._told(self.do(action, attempt))
        return AttemptResult(succeeded=True, changed=True, evidence=evidence)

    async def take_back(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Put files and mode back as they were when the change was staged."""
        del attempt
        async with self.exclusive():
            evidence = await self._told(self.changes.revert(action.bond))
        return AttemptResult(succeeded=True, evidence=evidence)

    async def _told(self, doing: Awaitable[Evidence]) -> Evidence:
        try:
            return await doing
        finally:
            self.done()

    async def do(self, action: Any, attempt: Attempt) -> Evidence:
        """Do the work of the step; raises HostError or RunError if it cannot."""
        raise NotImplementedError


class BondStages(BondSteps):
    """Prepares a change."""

    async def check(self, action: BondStageAction) -> None:
        """Raise where it cannot be staged; nothing is written."""
        await self.changes.planned(action.bond, action.mode, action.from_mode, action.primary)

    async def do(self, action: BondStageAction, attempt: Attempt) -> Evidence:
        """Write the new files beside the old ones."""
        del attempt
        return await self.changes.stage(action.bond, action.mode, action.from_mode, action.primary)

    async def take_back(self, action: BondStageAction, attempt: Attempt) -> AttemptResult:
        """Forget what was prepared."""
        del attempt
        async with self.exclusive():
            self.changes.forget(action.bond)
        self.done()
        return AttemptResult(succeeded=True)


class BondArms(BondSteps):
    """Starts the dead-man."""

    async def check(self, action: BondArmAction) -> None:
        """Raise where no such change is staged, or it is committed."""
        self.changes.need_open(action.bond, action.mode)

    async def do(self, action: BondArmAction, attempt: Attempt) -> Evidence:
        """Start it, once for each try."""
        seconds = durations.parse(action.deadline) if action.deadline else DEADLINE
        return await self.changes.arm(action.bond, action.mode, int(seconds), attempt.key)


class BondFlips(BondSteps):
    """Gives a bond its mode."""

    async def check(self, action: BondFlipAction) -> None:
        """Raise where no such change is staged, or it is committed."""
        self.changes.need_open(action.bond, action.mode)

    async def do(self, action: BondFlipAction, attempt: Attempt) -> Evidence:
        """Do it now; it is never interrupted."""
        return await self.changes.flip(action.bond, action.mode, attempt.timeout)


class BondCommits(BondSteps):
    """Keeps a change."""

    async def check(self, action: BondCommitAction) -> None:
        """Raise where no such change is staged; one that is committed already may be so again."""
        self.changes.need_staged(action.bond, action.mode)

    async def do(self, action: BondCommitAction, attempt: Attempt) -> Evidence:
        """Take the change from the dead-man, and put its files in place."""
        del attempt
        return await self.changes.commit(action.bond, action.mode)


class BondReverts(BondSteps):
    """Puts a bond back."""

    async def prepare(self, action: BondRevertAction) -> bytes:
        """Return that nothing can be taken back."""
        del action
        return b""

    async def do(self, action: BondRevertAction, attempt: Attempt) -> Evidence:
        """Put back files and mode."""
        del attempt
        return await self.changes.revert(action.bond)
