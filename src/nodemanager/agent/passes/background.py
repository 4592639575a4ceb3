"""Work that may take minutes is done beside the passes: one job after the other for each ConfigSet.

    pass --start--> lane of a ConfigSet: job, job, ... --its end asks for a pass--> which takes the results

While a lane is at work, everything else of its ConfigSet is left alone by passes and repairs: a program that
moves a database may have stopped its service. All other ConfigSets go on. A lane is never started twice, so
no program runs twice at the same time.

A pass that only the end of a lane asked for does not start ended work again: two ConfigSets whose programs
always fail would otherwise start each other for ever. It starts again once its ConfigSet has changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from nodemanager.host.process.threads import to_the_end
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.plan.desired import Content, Contents, Desired
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import Step, Waiting

log = logging.getLogger(__name__)
Declared = Sequence[tuple[Any, str]]
"""Everything that a ConfigSet declares; files with the digest of their content."""
_NOTHING: Final[Declared] = ()


def declared_by_set(desired: Desired, contents: Contents) -> dict[str, Declared]:
    """Return what each ConfigSet declares: after an edit, it is not equal to that before."""
    found: dict[str, list[tuple[Any, str]]] = {}
    for group in desired.items.values():
        for item in group:
            content = contents.get(getattr(item.declaration, "path", ""))
            digest = content.digest if isinstance(content, Content) else ""
            for name in item.sources:
                found.setdefault(name, []).append((item.declaration, digest))
    return dict(found)


class _End(NamedTuple):
    """How a job ended."""

    result: Result
    declared: Declared
    """The declarations of its ConfigSet when it was queued."""


@dataclass(frozen=True, slots=True)
class BackgroundJob:
    """Work on one resource that may take long."""

    id: ResourceId
    sources: tuple[str, ...]
    do: Callable[[], Awaitable[list[Result]]]


@dataclass(eq=False, slots=True)
class _Lane:
    """The jobs of one ConfigSet."""

    todo: deque[BackgroundJob]
    at: ResourceId
    """The current job."""
    declared: Declared
    """The declarations of the ConfigSet when the jobs were queued."""
    again: bool = False
    """Whether work of the ConfigSet was delayed meanwhile, and has to be looked at afterwards."""
    awaited: bool = False
    """Whether the pass that began it waits for its end, and takes the results."""
    task: asyncio.Task[None] | None = None


def _nobody() -> None:
    """Ask nobody for a pass: where there is only one."""


@dataclass(eq=False, slots=True)
class Background:
    """A part of the agent: the lanes at work, and the results of ended ones."""

    ended: Callable[[], None] = _nobody
    """Asks for a pass, because there are results to take, or delayed work."""
    patience: float | None = None
    """Seconds that a pass waits for work that it began; None = to its end."""
    name: str = "executions"
    _lanes: dict[str, _Lane] = field(default_factory=dict)
    _new: set[str] = field(default_factory=set)
    """Lanes for which no pass has waited yet."""
    _results: list[Result] = field(default_factory=list)
    _ends: dict[ResourceId, _End] = field(default_factory=dict)
    _declared: Mapping[str, Declared] = field(default_factory=dict)
    """The present declarations of each ConfigSet; the same object until it is edited."""
    _asked: bool = False
    """Whether we asked for a pass, and none has begun since."""

    @property
    def busy(self) -> AbstractSet[str]:
        """The ConfigSets whose lanes are at work."""
        return self._lanes.keys()

    @property
    def ids(self) -> set[ResourceId]:
        """Everything that is being done, or is about to be."""
        return {job.id for lane in self._lanes.values() for job in lane.todo} | {
            lane.at for lane in self._lanes.values()
        }

    def finished(self, *, untaken: bool) -> dict[ResourceId, Result]:
        """The results of jobs that ended and are not repeated now, even if a plan asks for them again.

        With `untaken`, only those whose results no pass has taken yet.
        """
        among = {one.id for one in self._results} if untaken else self._ends.keys()
        ends = {one: end for one, end in self._ends.items() if one in among}
        return {
            one: end.result for one, end in ends.items() if end.declared is self._now(end.result.sources[0])
        }

    def _now(self, config_set: str) -> Declared:
        return self._declared.get(config_set, _NOTHING)

    def start(self, config_set: str, jobs: Sequence[BackgroundJob]) -> None:
        """Begin with the jobs of a ConfigSet; it must not be busy."""
        if config_set in self._lanes:
            raise RuntimeError(f"cannot start jobs of ConfigSet {config_set}: it is busy")
        lane = self._lanes[config_set] = _Lane(deque(jobs), jobs[0].id, self._now(config_set))
        self._new.add(config_set)
        lane.task = asyncio.create_task(self._work(config_set, lane), name=f"executions of {config_set}")

    async def _work(self, config_set: str, lane: _Lane) -> None:
        while lane.todo:
            job = lane.todo.popleft()
            lane.at = job.id
            results = await self._try(job)
            self._results += results  # not in one line: that would add to the list as it was before the wait
            for one in results:
                if not one.put_off:  # that was not tried
                    self._ends[one.id] = _End(one, lane.declared)
        del self._lanes[config_set]  # not if we are told to stop: what is under way is not over
        if lane.again or not (lane.awaited or config_set in self._new):
            self.ask()

    def ask(self) -> None:
        """Ask for a pass."""
        self._asked = True
        self.ended()

    async def _try(self, job: BackgroundJob) -> list[Result]:
        try:
            return await job.do()
        except Exception as error:
            log.exception("cannot finish %s", job.id)
            said = f"cannot finish it: {type(error).__name__}, see the log"
            return [Result(job.id, job.sources, ResourceOutcome.FAILED, said)]

    async def wait(self) -> None:
        """Wait for the lanes that nobody waited for before, as long as our patience lasts."""
        names, self._new = self._new, set()
        lanes = [self._lanes[name] for name in names if name in self._lanes]
        tasks = [lane.task for lane in lanes if lane.task is not None]
        for lane in lanes:
            lane.awaited = True
        try:
            if tasks:
                waiting = asyncio.wait(tasks, timeout=self.patience)
                await (to_the_end(waiting) if self.patience is None else waiting)
        finally:
            for lane in lanes:
                lane.awaited = False

    def take(self, resources: Collection[ResourceId] | None = None) -> list[Result]:
        """Return what came of these jobs, or of all, that were finished; nobody gets it twice."""
        mine: list[Result] = []
        others: list[Result] = []
        for one in self._results:
            (mine if resources is None or one.id in resources else others).append(one)
        self._results = others
        return mine

    def begin_pass(self, desired: Desired, contents: Contents) -> None:
        """Take note of what is declared, and of what may be done again.

        What was queued for a ConfigSet before it was edited is not begun, the pass after that queues what is
        needed then; what is under way goes on to its end.
        """
        declared = declared_by_set(desired, contents)
        same = {name: self._now(name) for name, one in declared.items() if one == self._now(name)}
        self._declared = {**declared, **same}
        for name, lane in self._lanes.items():
            if lane.declared is not self._now(name):
                lane.todo.clear()
        asked, self._asked = self._asked, False
        kept = self.finished(untaken=not asked)
        self._ends = {one: end for one, end in self._ends.items() if one in kept}

    def put_off(self, steps: Sequence[Step], held: AbstractSet[str]) -> list[Step]:
        """Return the steps, without those that would change something of a busy set, or of one of `held`."""
        if not self._lanes and not held:
            return list(steps)
        ids = self.ids  # of what is under way, whatever the plan says: it is not over
        return [
            self.instead(one.id, one.sources)
            if one.id in ids or (one.ACTS and self._is_held(one.sources, held))
            else one
            for one in steps
        ]

    def left_alone(self, desired: Desired, touched: Iterable[ResourceId]) -> set[ResourceId]:
        """Return what belongs to a busy set; what was `touched` of it is looked at when that is over."""
        if not self._lanes:
            return set()
        items = [item for group in desired.items.values() for item in group]
        found = {item.id: item.sources for item in items if self._is_held(item.sources, frozenset())}
        for one in touched:
            for name in found.get(one, ()):
                self._look_again(name)
        return set(found)

    def _look_again(self, config_set: str) -> None:
        if lane := self._lanes.get(config_set):
            lane.again = True

    def _is_held(self, sources: Iterable[str], held: AbstractSet[str]) -> bool:
        return any(name in self._lanes or name in held for name in sources)

    def instead(self, resource: ResourceId, sources: tuple[str, ...]) -> Waiting:
        """Return that something has to wait for what is under way; it is looked at again after that."""
        for name in sources:
            self._look_again(name)
        at = next((self._lanes[name].at for name in sources if name in self._lanes), None)
        if at is None:
            why = "waits for the next pass, because an execution of its ConfigSet was running"
        else:
            why = "is running" if at == resource else f"waits for {at}, which is running"
        return Waiting(id=resource, sources=sources, reason=why)

    async def run(self) -> None:
        """Stay until cancelled, then leave: programs go on, and the next process finds out how they ended."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
