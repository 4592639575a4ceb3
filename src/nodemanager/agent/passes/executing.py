"""How passes and repairs have something done in the background, and take from there what came of it."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from nodemanager.agent.passes.background import Background, BackgroundJob
from nodemanager.agent.passes.stage import PassStage
from nodemanager.host.kind_parts import StageWork
from nodemanager.host.results import ResourceOutcome, Result, result
from nodemanager.host.state.journal import Journal
from nodemanager.plan.desired import Item
from nodemanager.plan.resources import file_id
from nodemanager.plan.steps import Blocked, Noop, Step


def start(
    background: Background, steps: list[Step], stage: PassStage, work: StageWork,
    apply: Callable[[Step, StageWork], Awaitable[list[Result]]],
) -> list[Step]:  # fmt: skip
    """Start the steps that act in the background, each ConfigSet in its order; return the other steps.

    A job that has ended is not started again at once, unless a file that it subscribes to changed since.
    One that failed is tried again by a later pass, like all failures.
    """
    jobs: dict[str, list[BackgroundJob]] = {}
    rest: list[Step] = []
    pending = work.given.pending
    ended = background.finished(untaken=work.given.repair)  # no lane asks for a repair
    items = work.given.desired.items.get(stage.kind.name, ())
    owed = {one.id for one in items if not stage.changed.isdisjoint(map(file_id, one.subscribes))}
    for step in steps:
        last = ended.get(step.id)
        again = step.id in owed or (last and last.outcome is ResourceOutcome.CHANGED and step.id in pending)
        if not step.ACTS:
            rest.append(step)
        elif last is None or again:
            do = functools.partial(apply, step, work)
            jobs.setdefault(step.sources[0], []).append(BackgroundJob(step.id, step.sources, do))
        elif last.bad:
            rest.append(Blocked(id=step.id, sources=step.sources, reason=last.message))
        else:
            rest.append(Noop(id=step.id, sources=step.sources, reason="it ran before"))
    for config_set, todo in jobs.items():
        background.start(config_set, todo)
    return rest


async def finished(
    background: Background, journal: Journal, results: list[Result], items: Sequence[Item[Any]],
    *, whole: bool = False,
) -> list[Result]:  # fmt: skip
    """Wait a moment for jobs in the background; return their results, and what is still under way.

    After a `whole` pass, results of jobs that earlier passes started are included.
    """
    await background.wait()
    declared = {item.id: item for item in items}
    found = {one.id: one for one in results}
    for one in background.take(None if whole else declared.keys()):
        stale = one.put_off and one.id in found  # it was not tried, and looked at since
        if (one.id in declared and not stale) or one.outcome is ResourceOutcome.CHANGED:
            found[one.id] = one
    for resource in background.ids & declared.keys():
        waiting = background.instead(resource, declared[resource].sources)
        found[resource] = result(waiting, ResourceOutcome.WAITING)
    pending = journal.pending()
    if any(one in pending and found[one].outcome is ResourceOutcome.CHANGED for one in found):
        background.ask()  # a file that it subscribes to changed while it ran
    return list(found.values())
