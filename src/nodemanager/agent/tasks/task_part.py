"""Tasks as a part of the agent: it sees them, judges them, takes one at a time, and carries it out.

    seen -> judged -> on disk -> claimed in the status -> carried out -> reported
              |                        |
              +-> refused, counted     +-> another agent was first: left alone

A taken task is finished, also without the API. No task is taken without it, nor while the host is held;
a taken one then pauses between two steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from nodemanager.agent.tasks.engine import TaskEngine
from nodemanager.agent.tasks.ledger import Entry, LedgerFolder
from nodemanager.agent.tasks.reporter import ClaimLost, TaskGone, TaskReporter
from nodemanager.agent.tasks.telling import TaskNews
from nodemanager.api.maintenance.nodetask import NodeTask
from nodemanager.host.base import Busy, HostError
from nodemanager.kube import errors
from nodemanager.plan.tasks import admission
from nodemanager.plan.tasks.admission import (
    CLAIMED_ELSEWHERE,
    KnownTask,
    Later,
    RefusedTask,
    Situation,
    Taken,
)
from nodemanager.plan.tasks.record import StepRecord, TaskPhase, TaskRecord
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.cache import Cache

log = logging.getLogger(__name__)
NAP: Final = 30.0
"""How often to look at the clock: it may be set while we sleep."""
FIRST_LIST: Final = 10.0
"""Seconds that the API has to list tasks before unfinished ones are finished without it."""
RETRY: Final = Backoff(base=1.0, maximum=60.0, jitter=0.5)


@dataclass(eq=False, slots=True)
class Turn:
    """Whose turn it is on this host: a task's, or that of something that must not meet one.

    It is made before both: tasks take it, and upgrades of the host itself look at it.
    """

    ledger: LedgerFolder
    """All remembered tasks."""
    task: str = ""
    """The uid of the current task; empty = there is none."""

    @property
    def is_free(self) -> bool:
        """Tell whether no task is being done, and none was begun that has not ended."""
        return not self.task and not self.ledger.unfinished()

    def entries(self) -> Iterable[Entry]:
        """Return all tasks that are remembered."""
        return self.ledger.entries.values()


@dataclass(frozen=True, slots=True)
class TaskGates:
    """Conditions outside a task that decide whether one may begin."""

    take_lock: Callable[[], bool]
    """Takes the lock of this host's state, and tells whether that is new; raises Busy while another has it.
    """
    obstacle: Callable[[], tuple[str, str] | None]
    """Returns why no task may begin now, as one word and as text."""
    reached: Callable[[], bool]
    """Tells whether the API answers."""
    connected: Callable[[], bool]
    """Tells whether it answers, and has reported what decides about tasks of this host, such as a hold."""
    first_answer: Callable[[], Awaitable[None]]
    """Returns when the API has answered for the first time, or will not soon."""
    situation: Callable[[TaskEngine], Situation]


class TaskPart:
    """Does the tasks of one host; `changed` is to be called when anything that decides about them changed."""

    name = "tasks"

    def __init__(
        self,
        tasks: Cache[NodeTask],
        make_engine: Callable[[], Awaitable[TaskEngine]],
        reporter: TaskReporter,
        gates: TaskGates,
        turn: Turn,
        news: TaskNews,
        turn_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._instance = secrets.token_hex(8)
        self._tasks = tasks
        self._make_engine = make_engine
        self._reporter = reporter
        self._gates = gates
        self._turn = turn
        self._news = news
        self._turn_changed = turn_changed
        self._engine: TaskEngine | None = None
        self._wake = asyncio.Event()
        self._owned = self._busy = False
        """Whether the state of this host is ours; whether it was told that it is another process's."""
        self._later: datetime | None = None
        self._waiting: dict[str, tuple[str, str]] = {}
        """Tasks whose wait was reported."""

    def changed(self) -> None:
        """Look at all tasks again; also while one is being done, the others hear whether they are refused."""
        self._wake.set()
        if self._engine is None:
            return
        self._engine.wake.set()
        if self._is_ours(self._engine):
            self._look(self._engine)

    async def run(self) -> None:
        """Finish what is unfinished, then do task by task until cancelled."""
        engine = self._engine = await self._make_engine()
        if engine.ledger.unfinished():
            await self._first_list()
        failures = 0
        while True:
            self._wake.clear()
            self._give_turn("")
            try:
                worked = await self._work(engine)
                failures = 0
            except Exception as error:
                failures += 1
                again = logging.WARNING if failures == 1 else logging.DEBUG
                unforeseen = None if isinstance(error, HostError | errors.KubeError) else error
                log.log(again, "cannot go on with tasks, trying again: %s", error, exc_info=unforeseen)
                await self._nap(RETRY.delay(failures))
                continue
            if not worked:
                await self._nap(NAP if self._later or self._waiting else None)

    async def _first_list(self) -> None:
        """Let the API tell first how far we got: a disk that was restored does not know."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LIST):
                await self._gates.first_answer()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LIST if self._gates.reached() else 0):
                await self._tasks.answered()

    def _is_ours(self, engine: TaskEngine) -> bool:
        """Make the state of this host ours, once there is something to decide.

        False = there is nothing, or another process decides.
        """
        if not self._tasks.values() and not engine.ledger.unfinished():
            return False
        try:
            if self._gates.take_lock() or not self._owned:
                engine.ledger.reload()  # the process that had it before may have written there
                self._owned = True
        except Busy as error:
            log.log(logging.DEBUG if self._busy else logging.INFO, "no task is done by this agent: %s", error)
            self._busy, self._later = True, engine.now() + timedelta(seconds=NAP)
            return False
        return True

    async def _nap(self, seconds: float | None) -> None:
        if self._later is not None and seconds is not None and self._engine is not None:
            seconds = max(0.05, min(seconds, (self._later - self._engine.now()).total_seconds()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    async def _work(self, engine: TaskEngine) -> bool:
        """Bring one task to its end, the oldest first; False = there is none."""
        self._later = None
        if not self._is_ours(engine):
            return False
        fresh = self._look(engine)
        if unfinished := engine.ledger.unfinished():
            entry = unfinished[0]
            if entry.record.phase is TaskPhase.PENDING and self._too_late(engine, entry):
                return True
            if entry.record.phase is TaskPhase.PENDING and self._gates.obstacle() is not None:
                self._later = engine.now() + timedelta(seconds=NAP)
                return False
        elif not fresh or self._hindered(fresh):
            return False
        else:
            entry = self._entry(engine, fresh[0])
        self._give_turn(entry.record.uid)  # at once: others that want it have looked at us, as we at them
        try:
            await self._advance(engine, entry)
        finally:
            self._give_turn("")
        return True

    def _give_turn(self, uid: str) -> None:
        """Let a task have its turn, or none with an empty uid."""
        self._turn.task = uid
        self._turn_changed()

    def _too_late(self, engine: TaskEngine, entry: Entry) -> bool:
        """Give up a task that could not be claimed in time: its window is shut, and others wait behind it."""
        why = admission.too_late(entry.spec, engine.now())
        if why:
            engine.drop(entry, TaskPhase.EXPIRED, admission.EXPIRED, why)
            self._reporter.repeat(engine.ledger.entries[entry.record.uid])
        return bool(why)

    async def _advance(self, engine: TaskEngine, entry: Entry) -> None:
        """Take a task that is not ours yet, and bring it to its end."""
        uid = entry.record.uid
        if uid not in engine.ledger.entries:
            engine.ledger.claim(entry)
        if entry.record.phase is TaskPhase.PENDING:
            claimed = await self._claim(engine, entry)
            if claimed is None:
                return
            entry = claimed
        ended = await engine.run(entry)
        engine.withdrawn.discard(uid)
        self._news.ended(ended)

    def _look(self, engine: TaskEngine) -> list[NodeTask]:
        """Judge all tasks that are known; return those that may begin, the oldest first."""
        fresh, self._later = list[NodeTask](), None
        here, known = self._gates.situation(engine), engine.ledger.known()
        for task in self._tasks.values():
            match admission.admit(task, known, here):
                case Taken():
                    fresh.append(task)
                case Later(at):
                    self._later = min(at, self._later or at)
                case KnownTask(record):
                    self._repeat(engine, task, record)
                case RefusedTask() as refused:
                    self._refuse(engine, task, refused)
                    if refused.reason == CLAIMED_ELSEWHERE:  # unless it turns out that nobody else is there
                        at = here.now + timedelta(seconds=NAP)
                        self._later = min(at, self._later or at)
        self._withdraw(engine)
        return sorted(fresh, key=lambda one: (one.spec.fencing_token, one.metadata.uid))

    def _repeat(self, engine: TaskEngine, task: NodeTask, record: TaskRecord) -> None:
        """Say once more what became of a task, if the API does not know."""
        if record.phase.is_end and task.status.phase != record.phase:
            self._reporter.repeat(engine.ledger.entries[record.uid])

    def _refuse(self, engine: TaskEngine, task: NodeTask, refused: RefusedTask) -> None:
        uid = task.metadata.uid
        if uid == self._turn.task or not self._news.refused(task, refused):
            return  # nobody knows better than we what becomes of it; or it was said before
        known = engine.ledger.entries.get(uid)
        if known is not None and not known.record.phase.is_end:
            engine.drop(known, refused.phase, refused.reason, refused.message)
        if not refused.silent:
            self._reporter.refuse(task, refused)

    def _withdraw(self, engine: TaskEngine) -> None:
        """Notice that a task was deleted which we have taken."""
        if not self._tasks.has_synced or not self._gates.connected():
            return
        here = {task.metadata.uid for task in self._tasks.values()}
        for entry in engine.ledger.unfinished():
            if entry.record.uid not in here and entry.record.uid not in engine.withdrawn:
                log.warning("task %s was deleted: none of its steps begins any more", entry.name)
                engine.withdrawn.add(entry.record.uid)

    def _hindered(self, fresh: list[NodeTask]) -> bool:
        """Tell whether no task may begin now; each that has to wait is told why, once."""
        why = self._gates.obstacle()
        for task in fresh if why is not None else ():
            if self._waiting.get(task.metadata.uid) != why and why is not None:
                self._reporter.wait(task, *why)
        self._waiting = {task.metadata.uid: why for task in fresh} if why is not None else {}
        return why is not None or not self._gates.connected()

    def _entry(self, engine: TaskEngine, task: NodeTask) -> Entry:
        record = TaskRecord(
            task.metadata.uid,
            task.spec.fencing_token,
            steps=(StepRecord(),) * len(task.spec.steps),
            claimed_at=engine.now(),
            boot_id=engine.boot_id,
            agent=self._instance,
        )
        return Entry(task.metadata.name, task.spec, record)

    async def _claim(self, engine: TaskEngine, entry: Entry) -> Entry | None:
        """Have the API know that the task is ours; None = it is not. Nothing of it is done before."""
        try:
            await self._reporter.claim(entry)
        except TaskGone:
            engine.drop(entry, TaskPhase.REFUSED, "", "it was ended or deleted before it began")
            return None
        except ClaimLost:
            said = "an agent took it that has the name of this host, and it is not this one"
            engine.drop(entry, TaskPhase.REFUSED, CLAIMED_ELSEWHERE, said)
            self._news.lost(entry)
            return None
        record = msgspec.structs.replace(entry.record, phase=TaskPhase.RUNNING)
        engine.ledger.save(entry := Entry(entry.name, entry.spec, record))
        self._news.started(entry)
        return entry
