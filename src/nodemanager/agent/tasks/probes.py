"""Steps that prove something: a program, an address, a service, or everything that is declared."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from nodemanager.agent.holds import held_timeout
from nodemanager.agent.tasks.attempts import Attempt, AttemptResult, Performer
from nodemanager.api.maintenance.task_steps import HttpProbe, ProbeAction
from nodemanager.host.base import Runner, ServiceKey, ServiceManager
from nodemanager.host.process.runner import tail
from nodemanager.host.process.threads import in_thread

POLL: Final = 2.0
OK: Final = 200
ONE_TRY: Final = 30.0
"""Seconds for one request to an address."""


@dataclass(frozen=True, slots=True)
class Probes(Performer):
    """Asks until a condition holds, or the time is up."""

    run: Runner
    services: ServiceManager | None
    settled: Callable[[], Awaitable[None]]
    """Returns when a pass that begins from now on has found, or made, everything as declared."""
    may_act: Callable[[], bool] = lambda: True
    """Tells whether a pass may change the host; the time in which it may not does not count."""
    unsettled: str = "not all ConfigSets of this host hold; see the status of its ManagedNode"

    async def perform(self, action: ProbeAction, attempt: Attempt) -> AttemptResult:
        """Ask again and again until it holds."""
        loop, why = asyncio.get_running_loop(), "it was not asked"
        until = loop.time() + attempt.timeout
        may_act = self.may_act if action.config_sets_hold else lambda: True
        try:
            async with held_timeout.timeout(attempt.timeout, may_act, POLL):
                while why := await self._failing(action, max(until - loop.time(), 0.1)):  # noqa: ASYNC110
                    await asyncio.sleep(POLL)  # nobody tells when it holds
        except TimeoutError:
            if action.config_sets_hold:
                why = self.unsettled
            return AttemptResult(succeeded=False, message=f"not within {attempt.timeout:g} s: {why}")
        return AttemptResult(succeeded=True)

    async def _failing(self, action: ProbeAction, left: float) -> str:
        """Return why it does not hold."""
        try:
            if action.argv:
                ended = await self.run(action.argv, timeout=left)
                said = tail(ended.stdout + ended.stderr)
                return f"exit code {ended.returncode}{said and ': '}{said}" if ended.returncode else ""
            if action.http is not None:
                return await _asked(action.http, min(left, ONE_TRY))
            if action.unit:
                return await self._stopped(action.unit)
            await self.settled()
        except OSError as error:
            return str(error)
        return ""

    async def _stopped(self, unit: str) -> str:
        if self.services is None:
            return "this host has no service manager that we know"
        fact = (await self.services.observe([ServiceKey(unit)]))[ServiceKey(unit)]
        return fact.error or ("" if fact.running else f"{unit} does not run")


async def _asked(probe: HttpProbe, seconds: float) -> str:
    from nodemanager.agent.tasks.http_status import http_status

    status, wanted = await in_thread(lambda: http_status(probe.url, seconds)), probe.status or OK
    return "" if status == wanted else f"{probe.url} answers {status}, not {wanted}"
