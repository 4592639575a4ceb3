"""Whose turn it is: nothing else begins before a task is over that an earlier process began."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nodemanager.agent.tasks.attempts import Attempt, AttemptResult, Performer
from nodemanager.agent.tasks.engine import TaskEngine
from nodemanager.agent.tasks.ledger import Entry, LedgerFolder
from nodemanager.agent.tasks.task_part import TaskGates, TaskPart, Turn
from nodemanager.api.maintenance.nodetask import NodeTaskSpec
from nodemanager.api.maintenance.task_steps import ExecutionAction, TaskStep
from nodemanager.host.files.tree import Tree
from nodemanager.plan.tasks.admission import Situation
from nodemanager.plan.tasks.record import StepRecord, TaskPhase, TaskRecord
from support.scripted_server import until

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)


class Slow(Performer):
    """An action that ends when it is told to."""

    def __init__(self) -> None:
        self.end = asyncio.Event()

    async def perform(self, action: Any, attempt: Attempt) -> AttemptResult:
        await self.end.wait()
        return AttemptResult(succeeded=True)


async def test_nothing_else_begins_before_what_was_begun_is_over(tmp_path: Path) -> None:
    steps = [TaskStep(name="a", execution=ExecutionAction(argv=["true"]))]
    spec = NodeTaskSpec(node_name="web1", steps=steps, deadline="2026-11-17T00:00:00Z", fencing_token=1)
    ledger, slow, answered = LedgerFolder(Tree(str(tmp_path))), Slow(), asyncio.Event()
    ledger.claim(Entry("t", spec, TaskRecord("uid", 1, TaskPhase.RUNNING, (StepRecord(),))))
    turn, free = Turn(ledger), list[bool]()

    async def engine() -> TaskEngine:
        return TaskEngine(ledger, {"execution": slow}, "boot", lambda: NOW, lambda _entry: None)

    async def first_answer() -> None:
        await answered.wait()

    tasks: Any = SimpleNamespace(values=list, has_synced=False, answered=answered.wait)
    gates = TaskGates(
        lambda: False, lambda: None, lambda: False, lambda: False, first_answer,
        lambda engine: Situation("web1", engine.boot_id, NOW),
    )  # fmt: skip
    news: Any = SimpleNamespace(ended=lambda _entry: None)
    part = TaskPart(tasks, engine, SimpleNamespace(), gates, turn, news, lambda: free.append(turn.is_free))  # type: ignore[arg-type]
    assert not turn.is_free  # what is on disk was begun, and has not ended
    running = asyncio.create_task(part.run())
    await asyncio.sleep(0)
    assert not turn.is_free  # it waits for what the API knows
    answered.set()
    await until(lambda: turn.task == "uid")
    slow.end.set()
    await until(lambda: turn.is_free)
    running.cancel()
    assert free[-1]
    assert free.index(True) > 1  # only who has waited for its end was told
