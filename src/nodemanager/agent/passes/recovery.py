"""Finds out what became of runs that were under way when an earlier process of ours ended."""

from __future__ import annotations

import functools
from collections.abc import Set as AbstractSet

from nodemanager.agent.passes.background import BackgroundJob
from nodemanager.agent.passes.progress import PassProgress
from nodemanager.api.common.declarations import Execution
from nodemanager.host.apply import Tools
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.kube.go import durations
from nodemanager.plan.desired import Desired, Item


def jobs(
    desired: Desired, tools: Tools, progress: PassProgress, busy: AbstractSet[str]
) -> dict[str, list[BackgroundJob]]:
    """Return, by ConfigSet, what is to be found out: programs that still run are waited for, and no longer
    than they may take. Those of sets that are `busy` are our own, or have to wait for their turn.
    """
    known = {item.id: item for item in desired.executions}
    found: dict[str, list[BackgroundJob]] = {}
    for resource in tools.journal.started():
        item = known.get(resource)
        if item is not None and item.sources[0] not in busy:  # else nobody wants it: it may end by itself
            do = functools.partial(_recover, item, tools, progress)
            found.setdefault(item.sources[0], []).append(BackgroundJob(resource, item.sources, do))
    return found


async def _recover(item: Item[Execution], tools: Tools, progress: PassProgress) -> list[Result]:
    """Find out how a run ended; where that cannot be said or recorded now, it must not run again."""
    try:
        timeout = durations.parse(item.declaration.timeout)
        with progress.allowing(timeout):
            status = await tools.runs.recover(item.id, timeout)
        if status == 0:
            tools.journal.settle([item.id])
        else:
            tools.journal.end(item.id)
    except OSError as error:
        said = f"cannot tell how its last run ended: {error}"
        return [Result(item.id, item.sources, ResourceOutcome.BLOCKED, said)]
    return []
