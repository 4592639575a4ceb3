"""Steps that reboot: done when the boot ID has changed, however often they are repeated."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from nodemanager.agent.tasks.attempts import Attempt, AttemptResult, Exclusive, Performer
from nodemanager.api.maintenance.task_steps import RebootAction
from nodemanager.host.base import HostError, NotSupported
from nodemanager.host.inventory.boot import Boot
from nodemanager.host.process.runner import CommandNotFound, RunError

log = logging.getLogger(__name__)
POLL: Final = 1.0
ALWAYS: Final = "always"
BOOT_BEFORE: Final = "bootBefore"
"""Evidence: the boot that was left."""


async def _at_any_time() -> None:
    """Return at once."""


@dataclass(frozen=True, slots=True)
class Reboots(Performer):
    """Reboots the host for tasks."""

    boot: Boot
    needed: Callable[[], Awaitable[str]]
    """Returns why a reboot is needed; empty = none is."""
    exclusive: Exclusive
    ready: Callable[[], Awaitable[None]] = _at_any_time
    """Returns when the host may go down; raises HostError if it may not."""

    async def perform(self, action: RebootAction, attempt: Attempt) -> AttemptResult:
        """Ask for a reboot, and do nothing more in this boot; neither does anybody else."""
        if (now := await self.boot.boot_id()) != attempt.known.boot_id:
            return _proven(attempt.known.boot_id, now)
        reason = "" if action.when == ALWAYS else attempt.reboot or await self.needed()
        if action.when != ALWAYS and not reason:
            return AttemptResult(succeeded=True, evidence={"reboot": "not needed"})
        async with self.exclusive():
            await self.ready()
            log.info("rebooting: %s", reason or "the task says so")
            try:
                await self.boot.reboot()
            except (NotSupported, CommandNotFound) as error:
                return AttemptResult(succeeded=False, message=str(error))
            except (HostError, RunError) as error:
                # A host that goes down kills the program that asked for it; only time tells.
                log.warning("asking for a reboot went wrong, waiting to see whether it happens: %s", error)
            return await self._awaited(attempt)

    async def settle(self, action: RebootAction, attempt: Attempt) -> AttemptResult:
        """In another boot it is done; in the same one, asking once more does no harm."""
        if attempt.barred and (now := await self.boot.boot_id()) == attempt.known.boot_id:
            return AttemptResult(succeeded=False, message=f"still in boot {now}, and {attempt.barred}")
        return await self.perform(action, attempt)

    async def _awaited(self, attempt: Attempt) -> AttemptResult:
        before, until = attempt.known.boot_id, asyncio.get_running_loop().time() + attempt.timeout
        while (now := await self.boot.boot_id()) == before:
            if asyncio.get_running_loop().time() > until:
                said = f"the host did not go down within {attempt.timeout:g} s"
                return AttemptResult(succeeded=False, message=said)
            await asyncio.sleep(POLL)
        return _proven(before, now)


def _proven(before: str, now: str) -> AttemptResult:
    return AttemptResult(succeeded=True, changed=True, evidence={BOOT_BEFORE: before, "bootAfter": now})
