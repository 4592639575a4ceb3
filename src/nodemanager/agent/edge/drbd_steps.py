"""Steps with resources of DRBD: resyncs paused and resumed by this host's own flag, and a verify."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from nodemanager.agent.tasks.attempts import Attempt, AttemptResult, Performer
from nodemanager.api.maintenance.edge_steps import DrbdVerifyAction
from nodemanager.host.edge.drbd_control import DrbdControl, Target


@dataclass(frozen=True, slots=True)
class DrbdPauses(Performer):
    """Pauses or resumes resyncs; the undoing changes only volumes that the step changed."""

    control: DrbdControl
    done: Callable[[], None]
    paused: bool = True
    """Whether this class pauses."""

    async def prepare(self, action: Any) -> bytes:
        """Return the volumes that will be changed."""
        there = await self.control.paused(action.resource, paused=not self.paused)
        return msgspec.json.encode(there) if there else b""

    async def perform(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Do it, and look whether it is so."""
        del attempt
        count = await self.control.set_paused(action.resource, None, paused=self.paused)
        self.done()
        word = "paused" if self.paused else "resumed"
        return AttemptResult(succeeded=True, changed=count > 0, evidence={word: str(count)})

    async def take_back(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Restore the former state of these volumes."""
        wanted = msgspec.json.decode(attempt.known.inverse, type=list[Target])
        count = await self.control.set_paused(action.resource, wanted, paused=not self.paused)
        self.done()
        return AttemptResult(succeeded=True, changed=count > 0)


@dataclass(frozen=True, slots=True)
class DrbdVerifies(Performer):
    """Compares a resource with its peers; waits for a comparison that is already running."""

    DROPPED: ClassVar[bool] = True

    control: DrbdControl
    done: Callable[[], None]

    async def perform(self, action: DrbdVerifyAction, attempt: Attempt) -> AttemptResult:
        """Verify to the end; what differs is a failure, and stays: which side is right, people know."""
        try:
            async with asyncio.timeout(attempt.timeout):
                differs = await self.control.verify(action.resource)
        except TimeoutError:
            said = f"not within {attempt.timeout:g} s; the verify goes on in the kernel"
            return AttemptResult(succeeded=False, message=said)
        finally:
            self.done()
        evidence = {"outOfSyncKiB": str(differs)}
        if differs:
            said = (
                f"{differs} KiB of {action.resource} differ between this host and its peers; decide which"
                " side is right, then disconnect and connect it to have these resynced"
            )
            return AttemptResult(succeeded=False, message=said, evidence=evidence)
        return AttemptResult(succeeded=True, evidence=evidence)
