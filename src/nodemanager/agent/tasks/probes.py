"""Steps that prove something: a program, an address, a service, or everything that is declared."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from nodemanager.agent.tasks.attempts import Attempt, AttemptResult
from nodemanager.api.maintenance.task_steps import HttpProbe, ProbeAction
from nodemanager.host.base import Runner, ServiceKey, ServiceManager
from nodemanager.host.process.runner import tail

POLL: Final = 2.0
OK: Final = 200
Fetch = Callable[[str, float], Awaitable[int]]
"""Returns the status code that an address answers within so many seconds."""


@dataclass(frozen=True, slots=True)
class Probes:
    """Asks until something holds, or its time is up."""

    run: Runner
    services: ServiceManager | None
    fetch: Fetch
    unmet: Callable[[], str]
    """Returns why the declared state does not hold; empty = it does."""

    async def perform(self, action: ProbeAction, attempt: Attempt) -> AttemptResult:
        """Ask again and again until it holds."""
        why = "it was not asked"
        try:
            async with asyncio.timeout(attempt.timeout):
                while why := await self._failing(action, attempt.timeout):
                    await asyncio.sleep(POLL)
        except TimeoutError:
            return AttemptResult(succeeded=False, message=f"not within {attempt.timeout:g} s: {why}")
        return AttemptResult(succeeded=True)

    async def settle(self, action: ProbeAction, attempt: Attempt) -> AttemptResult:
        """Ask anew: asking changes nothing."""
        return await self.perform(action, attempt)

    async def _failing(self, action: ProbeAction, timeout: float) -> str:
        """Return why it does not hold."""
        try:
            if action.argv:
                ended = await self.run(action.argv, timeout=timeout)
                said = tail(ended.stdout + ended.stderr)
                return f"exit code {ended.returncode}: {said}" if ended.returncode else ""
            if action.http is not None:
                return await self._asked(action.http, timeout)
            if action.unit:
                return await self._stopped(action.unit)
            return self.unmet()
        except OSError as error:
            return str(error)

    async def _asked(self, probe: HttpProbe, timeout: float) -> str:
        status, wanted = await self.fetch(probe.url, timeout), probe.status or OK
        return "" if status == wanted else f"{probe.url} answers {status}, not {wanted}"

    async def _stopped(self, unit: str) -> str:
        if self.services is None:
            return "this host has no service manager that we know"
        fact = (await self.services.observe([ServiceKey(unit)]))[ServiceKey(unit)]
        return fact.error or ("" if fact.running else f"{unit} does not run")
