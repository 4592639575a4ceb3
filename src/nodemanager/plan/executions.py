"""Executions: a program runs because a file changed, or because of its conditions; never without a reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from nodemanager.api.common.declarations import Execution
from nodemanager.plan import resources
from nodemanager.plan.desired import Desired, Item
from nodemanager.plan.facts import Facts, Verdicts
from nodemanager.plan.host_kinds import HostKind, KindDeclaration, Metric, PlanInput, brings_nothing
from nodemanager.plan.needs import ExecutionNeeds, execution_needs
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import Blocked, Lack, Noop, RunCommand, Step
from nodemanager.plan.subscribers import because, held_cause


def plan_executions(
    desired: Desired, facts: Facts, changing: Mapping[ResourceId, tuple[str, ...]] | None = None
) -> Iterator[Step]:
    """Yield one step for each execution; `changing` is what files of the same plan would make run."""
    for item in desired.executions:
        pending = facts.pending.get(item.id)
        causes = dict.fromkeys((*(pending.causes if pending else ()), *(changing or {}).get(item.id, ())))
        yield _plan(item, facts.verdicts.get(item.id, Verdicts()), tuple(causes), desired)


def _plan(item: Item[Execution], verdicts: Verdicts, causes: tuple[str, ...], desired: Desired) -> Step:
    execution = item.declaration
    if held := held_cause(execution.subscribe_files, desired):
        return Blocked(id=item.id, sources=item.sources, reason=f"waits for {held}, which is in conflict")
    if execution.subscribe_files and not causes:
        return Noop(id=item.id, sources=item.sources, reason="none of its files changed")
    if verdicts.error:
        lack = Lack("a program of its conditions", "may run", _programs(execution))
        return Blocked(id=item.id, sources=item.sources, reason=verdicts.error, lack=lack)
    if reason := _not_now(execution, verdicts):
        return Noop(id=item.id, sources=item.sources, reason=reason)
    return RunCommand(
        id=item.id,
        sources=item.sources,
        reason=_because(execution, causes),
        execution=execution,
        causes=causes,
    )


def _programs(execution: Execution) -> tuple[str, ...]:
    asked = (execution.only_if, execution.unless)
    return tuple(one.command if "/" in one.command else f"/{one.command}" for one in asked if one)


def _not_now(execution: Execution, verdicts: Verdicts) -> str:
    """Return which condition says no, or an empty string."""
    if verdicts.created:
        return f"{execution.creates} exists"
    if verdicts.only_if is False:
        return "onlyIf says no"
    if verdicts.unless:
        return "unless says it is done"
    return ""


def _because(execution: Execution, causes: tuple[str, ...]) -> str:
    if causes:
        return because(causes)
    if execution.creates:
        return f"{execution.creates} does not exist"
    return "its conditions hold"


def _needs(given: PlanInput) -> ExecutionNeeds:
    return execution_needs(given.desired, {*given.pending, *given.changing})


KIND: Final[HostKind[Execution, ExecutionNeeds, Facts]] = HostKind(
    name=resources.EXEC,
    words=("execution", "executions"),
    declaring=KindDeclaration(
        field="executions",
        identify=resources.exec_id,
        subscriptions=lambda execution: [path.rstrip("/") or "/" for path in execution.subscribe_files],
    ),
    needs=_needs,
    plan=lambda given, facts: list(plan_executions(given.desired, facts, given.changing)),
    count=Metric("nodemanager_exec_operations_total", "Executions run."),
    drift=None,
    owning=None,
    public=True,
    brings=brings_nothing,
    naming=None,
    background=True,
)
