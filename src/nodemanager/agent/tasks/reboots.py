"""Steps that reboot: done when the boot ID is another one, however often we are asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from nodemanager.agent.tasks.attempts import Attempt, AttemptResult
from nodemanager.api.maintenance.task_steps import RebootAction
from nodemanager.host.base import HostError, NotSupported
from nodemanager.host.inventory.boot import Boot
from nodemanager.host.process.runner import CommandNotFound, RunError

log = logging.getLogger(__name__)
POLL: Final = 1.0


class Reboots:
    """Reboots the host for tasks."""

    def __init__(self, boot: Boot, needed: Callable[[], Awaitable[str]]) -> None:
        self._boot = boot
        self._needed = needed

    async def perform(self, action: RebootAction, attempt: Attempt) -> AttemptResult:
        """Ask for a reboot, and do nothing more in this boot."""
        try:
            reason = "" if action.when == "always" else await self._needed()
            if action.when != "always" and not reason:
                return AttemptResult(succeeded=True, evidence={"reboot": "not needed"})
            log.info("rebooting: %s", reason or "the task says so")
            await self._boot.reboot()
        except (NotSupported, CommandNotFound) as error:
            return AttemptResult(succeeded=False, message=str(error))
        except (HostError, RunError) as error:
            # A host that goes down kills the program that asked for it; only time tells.
            log.warning("asking for a reboot went wrong, waiting whether it happens: %s", error)
        return await self.settle(action, attempt)

    async def settle(self, action: RebootAction, attempt: Attempt) -> AttemptResult:
        """Wait until this is another boot than the one in which it was asked for."""
        before = attempt.known.boot_id
        try:
            async with asyncio.timeout(attempt.timeout):
                while (now := await self._boot.boot_id()) == before:
                    await asyncio.sleep(POLL)
        except TimeoutError:
            said = f"the host did not go down within {attempt.timeout:g} s"
            return AttemptResult(succeeded=False, message=said)
        return AttemptResult(succeeded=True, changed=True, evidence={"bootBefore": before, "bootAfter": now})
