"""The interface for rendering: it takes many templates, and gives a text or an error for each.

One process, started when there is something to render and ended when there was nothing for a while. A
template that ends it is an error of this template alone: it is set aside for some time, with whatever data it
comes again, and the others are rendered by the next process.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Final, Protocol, Self

from nodemanager.plan import templates
from nodemanager.plan.templates import Job, NotRendered, Rendered, jobs
from nodemanager.plan.templates.jobs import TemplateAnswer
from nodemanager.rendering.limits import FILES, RenderLimits
from nodemanager.rendering.process import Ended, RenderProcess, Start

log = logging.getLogger(__name__)
_SET_ASIDE_MAX: Final = 4096
_BATCH_BYTES: Final = 8 * 1024 * 1024
"""Characters of templates in one request; a single one may have more."""
_ADVICE: Final = "simplify it"


class Rendering(Protocol):
    """The interface of renderers; `Renderer` is one."""

    async def render(self, todo: Sequence[Job]) -> list[Rendered]:
        """Return what became of each job, in their order."""
        ...


class Renderer:
    """Renders in another process. Also a part of a manager, which ends that process with it."""

    name = "renderer"

    def __init__(
        self,
        start: Start,
        limits: RenderLimits = FILES,
        answered: Callable[[TemplateAnswer], object] = lambda _: None,
    ) -> None:
        self._start = start
        self._limits = limits
        self.answered = answered
        """Called with every answer as it comes."""
        self._begun: RenderProcess | None = None
        """One that was started ahead, and has not greeted yet."""
        self._child: RenderProcess | None = None
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[object]] = set()
        self._aside: OrderedDict[bytes, tuple[float, str]] = OrderedDict()
        """Until when, and why, templates are not tried; by digest, the next to be tried first."""
        self._told: set[str] = set()
        self.starts = 0
        """Processes that were started."""

    async def render(self, todo: Sequence[Job]) -> list[Rendered]:
        """Return what became of each job, in their order."""
        made: dict[int, Rendered] = {}
        work: list[int] = []
        for place, job in enumerate(todo):
            if job.engine in templates.ENGINES and templates.is_literal(job.text):
                made[place] = job.text
            elif (why := self._why_aside(job)) is not None:
                made[place] = NotRendered(job.name, why)
            else:
                work.append(place)
        if work:
            async with self._lock:
                self._rest(False)
                try:
                    await _Round(self, todo, work, made).run()
                finally:
                    self._rest(True)
        return [made[place] for place in range(len(todo))]

    def begin(self) -> None:
        """Start the process ahead of jobs that are likely to come, so that they need not wait for it."""
        if self._child is None and self._begun is None:
            with contextlib.suppress(OSError):  # the first job tries again, and tells
                self._begun = self._new()

    def _new(self) -> RenderProcess:
        self.starts += 1
        return RenderProcess.begin(self._start, self._limits)

    async def run(self) -> None:
        """Stay until cancelled, then end the process."""
        try:
            self._rest(True)  # the answer of a template that was begun, and may not be needed
            await asyncio.get_running_loop().create_future()
        finally:
            await self.close()

    async def close(self) -> None:
        """End the process; the next job would start another."""
        self._rest(False)
        await self.discard()
        if self._closing:
            await asyncio.gather(*self._closing, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def child(self) -> RenderProcess:
        """Return the process, started if there is none; raise OSError or Ended."""
        if self._child is None:
            begun, self._begun = self._begun or self._new(), None
            kept = await begun.greeted()
            self._child = begun
            for text in kept:
                if text not in self._told:
                    self._told.add(text)
                    log.warning("the process that renders templates could not give up %s", text)
        return self._child

    async def discard(self) -> None:
        """End the process, if there is one."""
        there, self._child, self._begun = (self._child, self._begun), None, None
        for child in there:
            if child is not None:
                await child.end()

    def set_aside(self, job: Job, why: str) -> NotRendered:
        """Do not try a template again for a while; return what to say of it now."""
        key = _digest(job)
        self._aside.pop(key, None)
        seconds = self._limits.quarantine
        # The same words for as long as it lasts: another number in each pass would be news in each pass.
        said = f"{why}; {_ADVICE}, it is tried again every {seconds / 60:g} minutes"
        self._aside[key] = (asyncio.get_running_loop().time() + seconds, said)
        while len(self._aside) > _SET_ASIDE_MAX:
            self._aside.popitem(last=False)
        return NotRendered(job.name, said)

    def _why_aside(self, job: Job) -> str | None:
        if not self._aside:
            return None
        until, said = self._aside.get(_digest(job), (0.0, ""))
        return said if until > asyncio.get_running_loop().time() else None

    @property
    def limits(self) -> RenderLimits:
        """What rendering may cost."""
        return self._limits

    def _rest(self, idle: bool) -> None:
        """Begin or end to wait for the end of a process that has nothing to do."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if idle and (self._child or self._begun) is not None:
            self._timer = asyncio.get_running_loop().call_later(self._limits.idle, self._retire)

    def _retire(self) -> None:
        task: asyncio.Task[object] = asyncio.ensure_future(self.discard())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class _Round:
    """One call of `render`: goes on with the next process until every job has its answer."""

    def __init__(
        self, renderer: Renderer, todo: Sequence[Job], work: list[int], made: dict[int, Rendered]
    ) -> None:
        self._renderer = renderer
        self._todo = todo
        self._work = work
        self._made = made
        self._spent: dict[str, float] = {}

    async def run(self) -> None:
        """Render all; errors are part of the results, and never raised."""
        while self._work:
            batch = self._batch()
            try:
                child = await self._renderer.child()
            except (OSError, Ended) as error:
                for place in self._work:
                    why = f"the renderer cannot be started: {error}; the next pass tries again"
                    self._made[place] = NotRendered(self._todo[place].name, why)
                return
            try:
                with self._paid(batch[0]):
                    await child.ask(jobs.encoded_request([self._todo[place] for place in batch]))
                for place in batch:
                    if not await self._take(child, place):
                        break
            except Ended as error:
                place = self._work[0]
                self._finish(place, self._renderer.set_aside(self._todo[place], str(error)))
                await self._renderer.discard()
            except BaseException:  # cancelled: what the process is at is of no use to the next caller
                await self._renderer.discard()
                raise

    def _batch(self) -> list[int]:
        batch: list[int] = []
        size = 0
        for place in self._work:
            size += len(self._todo[place].text)
            if batch and size > _BATCH_BYTES:
                break
            batch.append(place)
        return batch

    async def _take(self, child: RenderProcess, place: int) -> bool:
        """Take one answer; return False if the process is not to go on with what it was asked."""
        job = self._todo[place]
        with self._paid(place):
            answer = await child.answer()
        self._renderer.answered(answer)
        if answer.exhausted:
            self._finish(place, self._renderer.set_aside(job, answer.why))
            await self._renderer.discard()
            return False
        self._finish(place, answer.of(job.name))
        return await self._within_means(job.owner)

    async def _within_means(self, owner: str) -> bool:
        """Refuse the rest of an owner's templates after they took too long together."""
        seconds = self._renderer.limits.owner
        if self._spent.get(owner, 0.0) <= seconds:
            return True
        late = [place for place in self._work if self._todo[place].owner == owner]
        whose = f"the templates of {owner}" if owner else "these templates"
        for place in late:
            why = f"{whose} take more than {seconds:g} s together; {_ADVICE}, or declare fewer of them"
            self._finish(place, NotRendered(self._todo[place].name, why))
        if late:
            await self._renderer.discard()  # it would render them all the same
        return not late

    def _finish(self, place: int, rendered: Rendered) -> None:
        self._made[place] = rendered
        self._work.remove(place)

    @contextlib.contextmanager
    def _paid(self, place: int) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            yield
        finally:
            owner = self._todo[place].owner
            self._spent[owner] = self._spent.get(owner, 0.0) + loop.time() - began


def _digest(job: Job) -> bytes:
    return hashlib.sha256(f"{job.engine}\n{job.text}".encode(errors="surrogatepass")).digest()
