"""Carries out tasks, one at a time: asks what is next, writes it down, does it, writes down what came of it.

Between any two lines of this file the process may be killed or the power cut. What was written down last is where
the next process goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from nodemanager.agent.tasks.attempts import Attempt, AttemptResult, Performer
from nodemanager.agent.tasks.ledger import Entry, LedgerFolder
from nodemanager.api.maintenance.nodetask import OUTPUT_MAX
from nodemanager.api.maintenance.task_steps import ACTIONS, TaskAction, TaskStep
from nodemanager.kube.go import durations
from nodemanager.plan.tasks import machine
from nodemanager.plan.tasks.machine import Begin, End, Settle, TurnBack, Undo
from nodemanager.plan.tasks.record import StepPhase, StepRecord, TaskPhase

log = logging.getLogger(__name__)
TIMEOUT: Final = 600.0
MAX_MESSAGE: Final = 1024


@dataclass(slots=True)
class TaskEngine:
    """Does what tasks say."""

    ledger: LedgerFolder
    performers: Mapping[str, Performer]
    """By the name of the action."""
    boot_id: str
    now: Callable[[], datetime]
    changed: Callable[[Entry], None]
    """Told of everything that is written down, so that it is reported."""

    async def run(self, entry: Entry) -> Entry:
        """Bring a task to its end, from wherever it is."""
        while not entry.record.phase.is_end:
            deadline = datetime.fromisoformat(entry.spec.deadline)
            move = machine.next_move(entry.spec.steps, entry.record, self.now(), deadline)
            entry = await self._carry_out(entry, move)
        return entry

    async def _carry_out(self, entry: Entry, move: machine.Move) -> Entry:
        match move:
            case Begin(place):
                return await self._begin(entry, place)
            case Settle(place, undoing):
                return await self._settle(entry, place, undoing=undoing)
            case Undo(place):
                return await self._undo(entry, place)
            case TurnBack(message):
                log.warning("task %s: %s; taking back what was done", entry.name, message)
                return self._save(entry, undoing=True, message=message[:MAX_MESSAGE])
            case End(phase, message):
                log.info("task %s: %s%s", entry.name, phase, f": {message}" if message else "")
                return self._save(entry, phase=phase, message=message[:MAX_MESSAGE], ended_at=self.now())

    async def _begin(self, entry: Entry, place: int) -> Entry:
        step, before = entry.spec.steps[place], entry.record.steps[place]
        known = StepRecord(
            phase=StepPhase.RUNNING,
            attempts=before.attempts + 1,
            boot_id=self.boot_id,
            started_at=self.now(),
        )
        entry = self._put(entry, place, known)
        log.info("task %s: step %s begins", entry.name, step.name)
        result = await self._performer(step).perform(_body(step), _attempt(entry, place, step))
        return self._ended(entry, place, result)

    async def _settle(self, entry: Entry, place: int, *, undoing: bool) -> Entry:
        step = entry.spec.steps[place]
        action = _inverse(step, entry.record.steps[place]) if undoing else step
        result = await self._performer(action).settle(_body(action), _attempt(entry, place, step, undoing=undoing))
        return self._undone(entry, place, result) if undoing else self._ended(entry, place, result)

    async def _undo(self, entry: Entry, place: int) -> Entry:
        step, known = entry.spec.steps[place], entry.record.steps[place]
        action = _inverse(step, known)
        entry = self._put(entry, place, msgspec.structs.replace(known, phase=StepPhase.UNDOING))
        log.info("task %s: step %s is taken back", entry.name, step.name)
        attempt = _attempt(entry, place, step, undoing=True)
        return self._undone(entry, place, await self._performer(action).perform(_body(action), attempt))

    def _ended(self, entry: Entry, place: int, result: AttemptResult) -> Entry:
        known = entry.record.steps[place]
        return self._put(
            entry,
            place,
            msgspec.structs.replace(
                known,
                phase=StepPhase.SUCCEEDED if result.succeeded else StepPhase.FAILED,
                finished_at=self.now(),
                exit_code=result.exit_code,
                changed=known.changed or result.changed,
                message=result.message[:MAX_MESSAGE],
                output=result.output[-OUTPUT_MAX:],
                evidence=dict(result.evidence),
                inverse=result.inverse or known.inverse,
            ),
        )

    def _undone(self, entry: Entry, place: int, result: AttemptResult) -> Entry:
        phase = StepPhase.UNDONE if result.succeeded else StepPhase.UNDO_FAILED
        said = result.message[:MAX_MESSAGE]
        return self._put(
            entry,
            place,
            msgspec.structs.replace(entry.record.steps[place], phase=phase, finished_at=self.now(), message=said),
        )

    def _performer(self, action: TaskStep | TaskAction) -> Performer:
        return self.performers[_name(action)]

    def _put(self, entry: Entry, place: int, step: StepRecord) -> Entry:
        return self._keep(Entry(entry.name, entry.spec, entry.record.with_step(place, step)))

    def _save(self, entry: Entry, **changes: object) -> Entry:
        record = msgspec.structs.replace(entry.record, **changes)
        return self._keep(Entry(entry.name, entry.spec, record))

    def _keep(self, entry: Entry) -> Entry:
        self.ledger.save(entry)
        self.changed(entry)
        return entry


def _name(action: TaskStep | TaskAction) -> str:
    return next(name for name in ACTIONS if getattr(action, name, None) is not None)


def _body(action: TaskStep | TaskAction) -> object:
    return getattr(action, _name(action))


def _inverse(step: TaskStep, known: StepRecord) -> TaskAction:
    """Return what takes a step back: what the user wrote, else what was found out while it was done."""
    if step.undo is not None:
        return step.undo
    return msgspec.json.decode(known.inverse, type=TaskAction)


def _attempt(entry: Entry, place: int, step: TaskStep, *, undoing: bool = False) -> Attempt:
    known = entry.record.steps[place]
    key = f"{entry.record.uid}/{step.name}/{'undo' if undoing else known.attempts}"
    return Attempt(key, durations.parse(step.timeout) if step.timeout else TIMEOUT, known)
