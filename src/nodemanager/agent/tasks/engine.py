"""Carries out a task: decides the next step, records it, does it, and records the result.

The process may be killed, or the power fail, between any two lines of this file. The last record is
where the next process continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from nodemanager.agent.tasks.attempts import REBOOT_NEEDED, UNKNOWN, Attempt, AttemptResult, Performer
from nodemanager.agent.tasks.ledger import Entry, LedgerFolder
from nodemanager.api.maintenance.nodetask import OUTPUT_MAX
from nodemanager.api.maintenance.task_steps import ACTIONS, TaskAction, TaskStep
from nodemanager.host.base import HostError
from nodemanager.host.process.runner import RunError
from nodemanager.kube import wording
from nodemanager.kube.go import durations
from nodemanager.plan.tasks import machine
from nodemanager.plan.tasks.machine import Begin, End, Settle, TurnBack, Undo
from nodemanager.plan.tasks.record import StepPhase, StepRecord, TaskPhase, TaskRecord

log = logging.getLogger(__name__)
TIMEOUT: Final = 600.0
NAP: Final = 30.0
"""How often to look whether the host is held."""
MAX_MESSAGE: Final = 1024


@dataclass(slots=True)
class TaskEngine:
    """Carries out tasks."""

    ledger: LedgerFolder
    performers: Mapping[str, Performer]
    """The performers by action name."""
    boot_id: str
    now: Callable[[], datetime]
    changed: Callable[[Entry], None]
    """Called with every record, so that it is reported."""
    withdrawn: set[str] = field(default_factory=set)
    """Deleted tasks by uid: no step of them begins any more."""
    held: Callable[[], str] = lambda: ""
    """Returns why this host may not be changed now; empty = it may."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when that may have changed."""

    async def run(self, entry: Entry) -> Entry:
        """Bring a task to its end, from wherever it is."""
        while not entry.record.phase.is_end:
            move = machine.next_move(entry.spec.steps, entry.record, self._barred(entry))
            if isinstance(move, Begin | Undo) and (why := self.held()):
                entry = await self._pause(entry, move, why)
                continue
            if entry.record.paused:
                log.info("task %s goes on", entry.name)
                entry = self._save(entry, paused="")
            entry = await self._carry_out(entry, move)
        for performer in self.performers.values():
            performer.clean()
        return entry

    async def _pause(self, entry: Entry, move: Begin | Undo, why: str) -> Entry:
        """Wait between two steps while the host is held; not beyond the deadline, which ends the task."""
        step = entry.spec.steps[move.place].name
        back = "taking back " if isinstance(move, Undo) else ""
        said = wording.shorten(f"paused before {back}step {step}: {why}", MAX_MESSAGE)
        if entry.record.paused != said:
            log.info("task %s: %s", entry.name, said)
            entry = self._save(entry, paused=said)
        left = (datetime.fromisoformat(entry.spec.deadline) - self.now()).total_seconds()
        self.wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(NAP, left) if left > 0 else NAP):
                await self.wake.wait()
        return entry

    def drop(self, entry: Entry, phase: TaskPhase, reason: str, message: str) -> None:
        """Write down that a task is not done, or not gone on with; who asks for it tells so."""
        record = msgspec.structs.replace(
            entry.record, phase=phase, reason=reason, message=message, ended_at=self.now()
        )
        self.ledger.save(msgspec.structs.replace(entry, record=record.without_inverses()))

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
                return self._save(entry, undoing=True, message=wording.shorten(message, MAX_MESSAGE))
            case End(phase, message):
                log.info("task %s: %s%s", entry.name, phase, f": {message}" if message else "")
                said = wording.shorten(message, MAX_MESSAGE)
                ended = msgspec.structs.replace(entry, record=_kept(entry, phase))
                return self._save(ended, phase=phase, message=said, ended_at=self.now())

    async def _begin(self, entry: Entry, place: int) -> Entry:
        step, before = entry.spec.steps[place], entry.record.steps[place]
        performer, problem, inverse = self._performer(step), "", before.inverse
        try:
            inverse = inverse or await performer.prepare(_body(step))
        except (HostError, RunError) as error:
            problem = str(error)
        known = StepRecord(
            phase=StepPhase.RUNNING,
            attempts=before.attempts + 1,
            boot_id=self.boot_id,
            started_at=self.now(),
            changed=before.changed,
            inverse=inverse,
        )
        entry = self._put(entry, place, known)
        if problem:
            return self._ended(entry, place, AttemptResult(succeeded=False, message=problem))
        log.info("task %s: step %s begins", entry.name, step.name)
        doing = performer.perform(_body(step), self._attempt(entry, place))
        return await self._tried(entry, place, performer, doing)

    async def _settle(self, entry: Entry, place: int, *, undoing: bool) -> Entry:
        step = entry.spec.steps[place]
        attempt = self._attempt(entry, place, undoing=undoing)
        log.info("task %s: step %s was under way, finding out how it ended", entry.name, step.name)
        action = step.undo if undoing else step
        if action is None:
            return await self._take_back(entry, place)
        performer = self._performer(action)
        doing = performer.settle(_body(action), attempt)
        return await self._tried(entry, place, performer, doing, undoing=undoing)

    async def _undo(self, entry: Entry, place: int) -> Entry:
        step, known = entry.spec.steps[place], entry.record.steps[place]
        undoing = msgspec.structs.replace(known, phase=StepPhase.UNDOING, boot_id=self.boot_id)
        entry = self._put(entry, place, undoing)
        log.info("task %s: step %s is taken back", entry.name, step.name)
        if step.undo is None:
            return await self._take_back(entry, place)
        attempt = self._attempt(entry, place, undoing=True)
        performer = self._performer(step.undo)
        doing = performer.perform(_body(step.undo), attempt)
        return await self._tried(entry, place, performer, doing, undoing=True)

    async def _take_back(self, entry: Entry, place: int) -> Entry:
        step = entry.spec.steps[place]
        performer, attempt = self._performer(step), self._attempt(entry, place, undoing=True)
        doing = performer.take_back(_body(step), attempt)
        return await self._tried(entry, place, performer, doing, undoing=True)

    async def _tried(
        self, entry: Entry, place: int, performer: Performer, work: Awaitable[AttemptResult], *,
        undoing: bool = False,
    ) -> Entry:  # fmt: skip
        """Wait for a try and record its end; if the agent has to stop, an UNBROKEN try is finished first."""
        doing, ended = asyncio.ensure_future(_foreseen(work)), self._undone if undoing else self._ended
        if performer.DROPPED:
            return ended(entry, place, await self._unless_withdrawn(entry, doing))
        try:
            await (asyncio.shield(doing) if performer.UNBROKEN else doing)
        except asyncio.CancelledError:
            result = await doing  # a second request to stop ends this wait
            if result.succeeded:  # a failure may be the effect of our own stop
                ended(entry, place, result)
            raise
        return ended(entry, place, doing.result())

    async def _unless_withdrawn(self, entry: Entry, doing: asyncio.Task[AttemptResult]) -> AttemptResult:
        """Wait for a try, unless its task is deleted meanwhile."""
        try:
            while not doing.done() and entry.record.uid not in self.withdrawn:
                self.wake.clear()
                news = asyncio.ensure_future(self.wake.wait())
                try:
                    await asyncio.wait({doing, news}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    news.cancel()
            if doing.done():
                return doing.result()
            return AttemptResult(succeeded=False, message="the task was deleted")
        finally:
            doing.cancel()
            await asyncio.wait({doing})

    def _ended(self, entry: Entry, place: int, result: AttemptResult) -> Entry:
        known = entry.record.steps[place]
        # How it was before the first try counts until there is no other one: the next compares with that.
        last = result.succeeded or known.attempts > entry.spec.steps[place].retries
        return self._put(
            entry,
            place,
            msgspec.structs.replace(
                known,
                phase=StepPhase.SUCCEEDED if result.succeeded else StepPhase.FAILED,
                finished_at=self.now(),
                exit_code=result.exit_code,
                changed=known.changed or result.changed,
                message=wording.shorten(result.message, MAX_MESSAGE),
                output=result.output[-OUTPUT_MAX:],
                evidence=dict(result.evidence),
                preview=result.preview,
                inverse=(result.inverse if last else b"") or known.inverse,
            ),
        )

    def _undone(self, entry: Entry, place: int, result: AttemptResult) -> Entry:
        known = entry.record.steps[place]
        phase = StepPhase.UNDONE if result.succeeded else StepPhase.UNDO_FAILED
        said = wording.shorten(result.message or known.message, MAX_MESSAGE)
        undone = msgspec.structs.replace(known, phase=phase, finished_at=self.now(), message=said)
        return self._put(entry, place, undone)

    def _performer(self, action: TaskStep | TaskAction) -> Performer:
        return self.performers.get(_name(action), UNKNOWN)

    def _barred(self, entry: Entry) -> str:
        begun = any(step.attempts for step in entry.record.steps)
        late = machine.barred(entry.spec.deadline, self.now(), withdrawn=entry.record.uid in self.withdrawn)
        return late or ("" if begun else machine.shut_out(entry.spec.not_after, self.now()))

    def _attempt(self, entry: Entry, place: int, *, undoing: bool = False) -> Attempt:
        step, known = entry.spec.steps[place], entry.record.steps[place]
        key = f"{entry.record.uid}/{step.name}/{'undo' if undoing else known.attempts}"
        timeout = durations.parse(step.timeout) if step.timeout else TIMEOUT
        said = (one.evidence.get(REBOOT_NEEDED, "") for one in entry.record.steps[:place]
                if one.boot_id == known.boot_id)  # fmt: skip
        barred = "" if undoing else self._barred(entry)
        return Attempt(key, timeout, known, barred, next(filter(None, said), ""))

    def _put(self, entry: Entry, place: int, step: StepRecord) -> Entry:
        return self._keep(msgspec.structs.replace(entry, record=entry.record.with_step(place, step)))

    def _save(self, entry: Entry, **changes: object) -> Entry:
        record = msgspec.structs.replace(entry.record, **changes)
        return self._keep(msgspec.structs.replace(entry, record=record))

    def _keep(self, entry: Entry) -> Entry:
        self.ledger.save(entry)
        self.changed(entry)
        return entry


def _kept(entry: Entry, phase: TaskPhase) -> TaskRecord:
    """Return the record of a task that ends, without what nobody needs any more.

    How packages were before is kept where somebody may still want them back.
    """
    useful = phase in (TaskPhase.SUCCEEDED, TaskPhase.EXPIRED)
    steps = enumerate(entry.spec.steps)
    return entry.record.without_inverses({n for n, step in steps if useful and step.packages is not None})


async def _foreseen(work: Awaitable[AttemptResult]) -> AttemptResult:
    """Return what came of it; a mistake of ours is a failure of the step, and not the end of all tasks."""
    try:
        return await work
    except (HostError, RunError) as error:
        return AttemptResult(succeeded=False, message=str(error))
    except Exception as error:
        log.exception("a step failed in a way that nobody foresaw")
        # What our own mistakes say may quote anything, so it is in the log only.
        return AttemptResult(succeeded=False, message=f"{type(error).__name__}, see the log of the agent")


def _name(action: TaskStep | TaskAction) -> str:
    return next((name for name in ACTIONS if getattr(action, name, None) is not None), "")


def _body(action: TaskStep | TaskAction) -> object:
    return getattr(action, _name(action), None)
