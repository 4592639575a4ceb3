"""Steps that do something to a service, once; doing it a second time changes nothing more, but for a restart."""

from __future__ import annotations

import asyncio
from typing import Final

from nodemanager.agent.tasks.attempts import INTERRUPTED, Attempt, AttemptResult
from nodemanager.api.maintenance.task_steps import ServiceAction
from nodemanager.host.base import HostError, ServiceKey, ServiceManager
from nodemanager.host.process.runner import RunError

_LASTING: Final = frozenset(("start", "stop", "enable", "disable"))
"""What leads to a state that can be asked for, and reached again without harm."""


class Services:
    """Does what tasks say to services."""

    def __init__(self, manager: ServiceManager) -> None:
        self._manager = manager

    async def perform(self, action: ServiceAction, attempt: Attempt) -> AttemptResult:
        """Do it, and fail unless the service manager says that it worked."""
        key = ServiceKey(action.name)
        try:
            async with asyncio.timeout(attempt.timeout):
                await self._do(action.do, key)
        except TimeoutError:
            said = f"cannot {action.do} {action.name}: not done within {attempt.timeout:g} s"
            return AttemptResult(succeeded=False, message=said)
        except (HostError, RunError) as error:
            return AttemptResult(succeeded=False, message=str(error))
        return AttemptResult(succeeded=True, changed=True)

    async def settle(self, action: ServiceAction, attempt: Attempt) -> AttemptResult:
        """Bring about a state again; whether something was restarted nobody can tell."""
        return await self.perform(action, attempt) if action.do in _LASTING else INTERRUPTED

    async def _do(self, what: str, key: ServiceKey) -> None:
        match what:
            case "start":
                await self._manager.start(key)
            case "stop":
                await self._manager.stop(key)
            case "restart":
                await self._manager.restart(key)
            case "reload":
                await self._manager.reload(key)
            case "enable" | "disable":
                if await self._manager.enable(key, enabled=what == "enable"):
                    await self._manager.refresh()
            case _:
                raise HostError(f"cannot {what} {key.name}: this agent does not know how; upgrade it")
