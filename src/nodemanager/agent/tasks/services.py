"""Steps that do something to a service, once; a second time changes nothing more, but for a restart."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from nodemanager.agent.tasks.attempts import INTERRUPTED, Attempt, AttemptResult, Exclusive, Performer
from nodemanager.api.maintenance.task_steps import ServiceAction
from nodemanager.host.base import HostError, NotSupported, ServiceKey, ServiceManager
from nodemanager.host.process.runner import RunError
from nodemanager.host.process.threads import to_the_end

_LASTING: Final = frozenset(("start", "stop", "enable", "disable"))
"""Actions that lead to a visible state, which can be reached again without harm."""


@dataclass(frozen=True, slots=True)
class Services(Performer):
    """Carries out actions on services for tasks."""

    manager: ServiceManager | None
    exclusive: Exclusive

    async def perform(self, action: ServiceAction, attempt: Attempt) -> AttemptResult:
        """Do it, and fail unless the service manager says that it worked.

        It is not broken off: what was stopped for a restart has to be started again.
        """
        clock = asyncio.get_running_loop().time
        async with self.exclusive():
            began = clock()
            try:
                await to_the_end(self._do(action.do, ServiceKey(action.name)))
            except (HostError, RunError) as error:
                return AttemptResult(succeeded=False, message=str(error))
        took = clock() - began
        late = f"it took {took:.0f} s, and {attempt.timeout:g} s are its timeout"
        return AttemptResult(took <= attempt.timeout, "" if took <= attempt.timeout else late, changed=True)

    async def settle(self, action: ServiceAction, attempt: Attempt) -> AttemptResult:
        """Bring about a state again; whether something was restarted nobody can tell."""
        if action.do not in _LASTING or attempt.barred:
            return INTERRUPTED
        return await self.perform(action, attempt)

    async def _do(self, what: str, key: ServiceKey) -> None:
        manager = self.manager
        if manager is None:
            raise NotSupported(f"cannot {what} {key.name}: this host has no service manager that we know")
        match what:
            case "start":
                await manager.start(key)
            case "stop":
                await manager.stop(key)
            case "restart":
                await manager.restart(key)
            case "reload":
                await manager.reload(key)
            case "enable" | "disable":
                if await manager.enable(key, enabled=what == "enable"):
                    await manager.refresh()
            case _:
                raise HostError(f"cannot {what} {key.name}: this agent does not know how; upgrade it")
