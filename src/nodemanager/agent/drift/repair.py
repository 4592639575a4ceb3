"""Repairs foreign changes as soon as the host reports them, without looking at other resources.

    Touched --(not contested, not failing)--> a repair of these resources --> HostState --> status, soon

It needs no API: the wanted state is that of the last pass. Other parts send status and Events later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from nodemanager.agent.declared.desired_state import DesiredState
from nodemanager.agent.drift.repair_backoff import ContestedResource
from nodemanager.agent.passes.converge import Converger
from nodemanager.agent.passes.host_state import HostState
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.plan.desired import Desired
from nodemanager.plan.focus import Focus
from nodemanager.plan.resources import EXEC, ResourceId

log = logging.getLogger("nodemanager.agent")
EVERYTHING_SECONDS: Final = 5.0
"""If it is unknown what changed, everything is looked at, but not more often than this."""
REFRESH_QUIET: Final = 1.0
REFRESH_LIMIT: Final = 30.0
"""When service managers read their units again: a second after the last change of enablement, and after this
time in any case. While systemd reads them, it answers no requests, so the next repair would have to wait."""


class Touched(Protocol):
    """What may have changed."""

    @property
    def resources(self) -> frozenset[ResourceId]:
        """Declared resources that were touched."""
        ...

    @property
    def everything(self) -> bool:
        """Whether something unknown was touched."""
        ...

    @property
    def inventory(self) -> bool:
        """Whether a value was touched that is only in the status, such as an address."""
        ...

    @property
    def since(self) -> float:
        """The time of the first touch, by time.monotonic()."""
        ...


class HostWatch(Protocol):
    """The watch that reports changes on the host."""

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """What is not watched, why, and how to solve that."""
        ...

    @property
    def lacking(self) -> bool:
        """Whether a watch failed that a later try may set up."""
        ...

    async def follow(self, desired: Desired) -> None:
        """Watch exactly what is declared."""
        ...

    async def touched(self) -> Touched:
        """Wait for a touch, and return everything that was touched since the last call."""
        ...

    def forget(self) -> None:
        """Forget the touched resources: all of them are about to be looked at."""
        ...


class RepairListener(Protocol):
    """The receiver of reports about repairs; its methods do not wait."""

    def repaired(self, results: Sequence[Result], seconds: float) -> None:
        """Count and log a repair, or its failure, so many seconds after the touch."""
        ...

    def contested(self, one: ContestedResource) -> None:
        """Warn, once, that another program keeps changing a resource."""
        ...

    def report(self, *, inventory: bool = False) -> None:
        """Ask for a status write soon; look at the host again first, if its `inventory` changed."""
        ...


class RepairLoop:
    """A part of the agent that reacts to reports of the host."""

    name = "repair"

    def __init__(
        self,
        watch: HostWatch,
        converger: Converger,
        host_state: HostState,
        listener: RepairListener,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watch = watch
        self._converger = converger
        self._host_state = host_state
        self._listener = listener
        self._clock = clock
        self._touched: dict[ResourceId, float] = {}
        """What has to be looked at, and since when; only declared resources, so it stays small."""
        self._later: dict[ResourceId, float] = {}
        """The same for resources that have to wait for their turn."""
        self._everything_at = 0.0
        self._contested: frozenset[ResourceId] = frozenset()
        """The contested resources in the last report."""
        self._wake = asyncio.Event()
        self._enabled = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Repair until cancelled."""
        tasks = [asyncio.create_task(one) for one in (self._listen(), self._work(), self._refresh())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def follow_ahead(self, desired: Desired) -> None:
        """Begin to watch declared resources before the first pass looks, so that it has to look only once.

        What cannot be watched is tried again, and reported, after the pass.
        """
        with contextlib.suppress(OSError):
            await self._watch.follow(desired)
        self._watch.forget()
        self._touched.clear()

    async def follow(self) -> bool:
        """Follow the resources of the last pass, and log what cannot be watched; False = try again later."""
        desired_state = self._host_state.desired_state
        if desired_state is None:
            return True
        try:
            await self._watch.follow(desired_state.desired)
            found, done = self._watch.shortfalls, not self._watch.lacking
        except OSError as error:
            found, done = (f"cannot watch this host: {error}; it is looked at every period",), False
        for text in self._host_state.watched(found):
            log.warning("%s", text)
        self._arm()
        return done

    async def _listen(self) -> None:
        while True:
            touched = await self._watch.touched()
            if touched.inventory:
                self._listener.report(inventory=True)
            if touched.everything:
                self._look_at_everything(touched.since)
            if touched.resources:
                self._take(touched.resources, touched.since)

    def _take(self, resources: Iterable[ResourceId], since: float) -> None:
        for one in resources:
            self._touched.setdefault(one, since)
        self._wake.set()

    def _look_at_everything(self, since: float) -> None:
        """Touch all declared resources; during a storm of changes, not all the time."""
        wait = self._everything_at - self._clock()
        if wait > 0:
            self._later.setdefault(_EVERYTHING, since)
            self._arm()
            return
        self._everything_at = self._clock() + EVERYTHING_SECONDS
        desired_state = self._host_state.desired_state
        if desired_state is not None:
            self._take(desired_state.declared, since)

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            # Take `upgrading` first: a wait for an upgrade must not hold `host_lock`, which passes need. What
            # was touched is taken only then, as what is wanted may have changed while we waited.
            async with self._converger.upgrading, self._converger.host_lock:
                touched, self._touched = self._touched, {}
                await self._repair(touched)
            if self._converger.no_wait.unread:
                self._enabled.set()
            self._arm()

    async def _refresh(self) -> None:
        """Let service managers notice enabled units, while other repairs go on.

        Should we be killed before, the unit starts at boot all the same, and the next pass notices that the
        manager remembers something else.
        """
        while True:
            await self._enabled.wait()
            latest = self._clock() + REFRESH_LIMIT
            while self._enabled.is_set() and self._clock() < latest:
                self._enabled.clear()
                await asyncio.sleep(REFRESH_QUIET)
            await self._converger.refresh()

    async def _repair(self, touched: Mapping[ResourceId, float]) -> None:
        host_state, desired_state = self._host_state, self._host_state.desired_state
        if desired_state is None:
            return  # the first pass has not begun yet, and looks at everything
        now = self._clock()
        waiting = host_state.backoff.waiting(now)
        busy = self._converger.background.left_alone(desired_state.desired, touched)
        if waiting:  # also what depends on the touched resources, as it is looked at with them
            put_off = desired_state.lens.narrow(touched).ids & waiting
            self._later.update({one: touched.get(one, now) for one in put_off})
        waiting |= busy  # busy resources are looked at by the pass that begins when the work is over
        focus = desired_state.lens.narrow((one for one in touched if one not in waiting), waiting)
        if not focus.ids:
            return
        results = await self._try(focus, desired_state)
        before = host_state.changes
        told = host_state.repaired(results, touched)
        for one in results:
            if one.failed:  # waiting resources are looked at by the pass that begins when the wait is over
                resource = host_state.watch.owning_resource(one.id, desired_state.declared)
                self._later[resource] = touched.get(resource, now)
        if told:
            self._listener.repaired(told, self._clock() - min(touched.values()))
        if host_state.changes != before:
            self._listener.report()

    async def _try(self, focus: Focus, desired_state: DesiredState) -> list[Result]:
        """Repair, and return the results; any failure is tried again, and does not stop other repairs."""
        observe_only = self._host_state.watch.observe_only(
            desired_state.declared, desired_state.observed
        )  # all: the results include subscribers
        try:
            return await self._converger.repair(
                focus, desired_state.contents, observe_only, self._host_state.held
            )
        except Exception as error:
            expected = isinstance(error, OSError)
            said = str(error) if expected else f"{type(error).__name__}: {error}"
            log.warning("cannot repair what was touched: %s", said, exc_info=None if expected else error)
        return [
            Result(one, (), ResourceOutcome.FAILED, f"cannot repair it: {said}", repairs=True)
            for one in focus.ids
        ]

    def _arm(self) -> None:
        """Set the single timer: for resources that have to wait, and for the end of a contest."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now, backoff = self._clock(), self._host_state.backoff
        calm = self._settle(now)
        due = [now + backoff.wait(one, now) for one in self._later if one != _EVERYTHING]
        if _EVERYTHING in self._later:
            due.append(self._everything_at)
        if calm is not None:
            due.append(calm)
        if due:
            delay = max(min(due) - now, 0.0)
            self._timer = asyncio.get_running_loop().call_later(delay, self._ring)

    def _settle(self, now: float) -> float | None:
        """Report when resources become contested, or calm again; return when to look again, None = never."""
        backoff = self._host_state.backoff
        calm = backoff.settle(now)
        contested = {one.resource: one for one in backoff.contested()}
        for resource in contested.keys() - self._contested:
            self._listener.contested(contested[resource])
        if contested.keys() != self._contested:
            self._contested = frozenset(contested)
            self._listener.report()
        return calm if contested else None

    def _ring(self) -> None:
        """Look again at the resources whose wait is over."""
        self._timer = None
        now, backoff = self._clock(), self._host_state.backoff
        due = [one for one in self._later if one != _EVERYTHING and not backoff.wait(one, now)]
        for one in due:
            self._take([one], self._later.pop(one))
        if _EVERYTHING in self._later and self._everything_at <= now:
            self._look_at_everything(self._later.pop(_EVERYTHING))
        self._arm()


_EVERYTHING: Final = ResourceId(EXEC, "*")
"""Stands for all declared resources in the list of waiting ones."""
