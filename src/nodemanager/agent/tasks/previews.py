"""Steps that report what would be done, and change nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from nodemanager.agent.tasks.attempts import Attempt, AttemptResult, Exclusive, Performer
from nodemanager.agent.tasks.packages import MAX_EVIDENCE, planner
from nodemanager.api.maintenance.nodetask import OUTPUT_MAX
from nodemanager.api.maintenance.task_previews import ProposalRef, TaskPreview
from nodemanager.api.maintenance.task_steps import PreviewAction
from nodemanager.host.base import HostError, PackageManager, WantedPackage
from nodemanager.kube import wording
from nodemanager.plan.steps import Blocked, Step


@dataclass(frozen=True, slots=True)
class PlanPreviews(Performer):
    """Makes plans for tasks."""

    DROPPED = True
    manager: PackageManager | None
    pins: Callable[[], Sequence[WantedPackage]]
    plan: Callable[[], Awaitable[Sequence[Step]]]
    """Returns what a pass would do."""
    exclusive: Exclusive
    propose: Callable[[ProposalRef], Awaitable[TaskPreview]] | None = None
    """Returns what a proposal would do."""

    async def perform(self, action: PreviewAction, attempt: Attempt) -> AttemptResult:
        """Ask the package manager, and look at everything that is declared."""
        evidence: dict[str, str] = {}
        lines: list[str] = []
        async with self.exclusive() if action.packages or action.config_sets else contextlib.nullcontext():
            if action.packages:
                security = action.packages == "security"
                found = await planner(self.manager).upgrades(self.pins(), security=security)
                lines.append(f"{wording.plural(len(found), 'package')} would be upgraded")
                told = {name: f"{before} -> {after}" for name, (before, after) in sorted(found.items())}
                evidence = dict(list(told.items())[:MAX_EVIDENCE])
            if action.config_sets:
                steps = [one for one in await self.plan() if one.ACTS or isinstance(one, Blocked)]
                lines.append(f"{wording.plural(len(steps), 'resource')} would be changed")
                lines += [f"{one.words.verb} {one.id}: {one.reason}" for one in steps]
        preview = None
        if action.proposal is not None and self.propose is not None:
            preview = await _in_time(self.propose(action.proposal), attempt.timeout)
            lines.append(f"{wording.plural(preview.changed, 'resource')} would be changed by the proposal")
        output = wording.shorten("\n".join(lines), OUTPUT_MAX - 1)
        return AttemptResult(succeeded=True, output=f"{output}\n", evidence=evidence, preview=preview)


async def _in_time(work: Awaitable[TaskPreview], seconds: float) -> TaskPreview:
    """Wait for an answer, but not for ever: other tasks wait behind it."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise HostError(
            f"cannot preview within {seconds:g} s; see what this host is at, or propose less at once"
        ) from None
