"""A pass over the host: what is declared, made so, and reported.

ConfigSets, ManagedNodes, Secrets -> Desired -> observe, plan, apply -> status, events, metrics
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from nodemanager.agent.declared.declarations import Declarations, Declared
from nodemanager.agent.passes.converge import Converger
from nodemanager.agent.passes.host_state import HostState
from nodemanager.agent.passes.notifies import NotifiesAnnotator
from nodemanager.agent.passes.pass_schedule import PassSchedule
from nodemanager.agent.passes.pruning import Pruner
from nodemanager.agent.passes.stage import bad_sets
from nodemanager.agent.report.reporting import Reporter
from nodemanager.agent.report.status import Collection, Pass
from nodemanager.agent.report.status_writer import StatusWriter
from nodemanager.agent.requests import Requests
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.host.base import Busy
from nodemanager.host.process.threads import in_thread
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.kube import errors
from nodemanager.plan.desired import Desired
from nodemanager.runtime import controller


def _nobody(_sets: Sequence[ConfigSet], _results: Sequence[Result]) -> None:
    """Record nothing."""


async def watch_nothing(_desired: Desired | None = None) -> None:
    """Leave it to the period to notice changes."""


@dataclass(frozen=True, slots=True)
class PassReports:
    """The receivers of reports about passes."""

    writer: StatusWriter
    reporter: Reporter
    notifier: NotifiesAnnotator
    heard: Callable[[bool], Awaitable[None]]
    """Called with every whole pass, and whether the API knows of it."""
    changed: Callable[[Sequence[ConfigSet], Sequence[Result]], None] = _nobody
    """Records changes."""

    async def passed(
        self, node: ManagedNode, declared: Declared, results: Sequence[Result], collection: Collection | None
    ) -> None:
        """Report a pass; while the API is away, only to programs on this host."""
        sets, desired = declared.sets, declared.desired_state.desired
        self.reporter.passed(node, sets, desired, results)
        self.changed(sets, results)
        about = Pass(sets, desired.conflicts, (), None, collection=collection, waits=declared.waits)
        self.writer.host.passed(about, node.metadata.generation)
        told = await self.writer.write(look=True)
        await self.heard(told)
        if told:
            bad = bad_sets(results)
            await self.notifier.applied(one for one in sets if one.metadata.name not in bad)

    async def broke_off(self, node: ManagedNode, error: Exception) -> None:
        """Tell that a pass was broken off: what the status says of the host may not be so any more."""
        # What our own mistakes say may quote anything, so it is in the log only.
        why = str(error) if isinstance(error, OSError) else f"{type(error).__name__}, see the log"
        self.writer.host.broke_off(why, node.metadata.generation)
        self.writer.requests.changed()
        with contextlib.suppress(errors.KubeError, controller.Retry):  # the next pass says something, too
            await self.writer.write()


@dataclass(frozen=True, slots=True)
class HostPass:
    """Brings this host to its wanted state."""

    declared: Declarations
    converger: Converger
    host_state: HostState
    schedule: PassSchedule
    requests: Requests
    reports: PassReports
    follow: Callable[[], Awaitable[None]]
    """Sets up the watches for what the pass was about."""
    pruner: Pruner
    follow_ahead: Callable[[Desired], Awaitable[None]] = watch_nothing
    """Sets up the watches for what a pass will be about, before it looks."""

    async def run(self) -> controller.ReconcileResult:
        """Do one pass, and return when the next one is due."""
        node = await self.declared.own_node()
        if not self.declared.offline:
            self.reports.writer.host.adopt(node.status.drift)
        try:
            await self._converge(node)
        except (controller.Retry, errors.KubeError, Busy):
            raise  # about the API, or the one that is at work here reports it: of the host we know nothing
        except Exception as error:
            await self.reports.broke_off(node, error)
            raise
        return controller.ReconcileResult(self.schedule.next(node))

    async def _converge(self, node: ManagedNode) -> None:
        waiting = self.requests.waiting()
        declared = await self.declared.current(node)
        desired_state = declared.desired_state
        if self.host_state.desired_state is None and self.host_state.watch.known:
            # A host that held when we ended. One that is new would only hear of all that we write.
            await self.follow_ahead(desired_state.desired)
        async with self.converger.host_lock:  # what a repair under way finds is about what was wanted before
            collection = await self.schedule.housekeeper.collect_if_due()
            observe_only = self.host_state.begin(desired_state)
            self.converger.take_state(desired_state.desired)
            known = self.host_state.watch.known
            await in_thread(lambda: self.pruner.begin(known, declared.told))
        done = await self.converger.run(
            desired_state.desired, desired_state.contents, observe_only, self.host_state.held
        )
        done += _held(desired_state.desired)
        pruned = await self._prune(declared, done)
        results = self.host_state.passed(done, pruned)
        await self.host_state.save()
        failed, clock = any(one.failed for one in results), self.host_state.clock()
        self.schedule.passed(failed=failed, again_in=self.host_state.patience.due_in(clock))
        held = any(one.outcome is ResourceOutcome.HELD for one in results)
        for event in waiting if not held and not any(one.bad for one in results) else ():
            event.set()
        await self.follow()  # before the report, which says what cannot be watched
        await self.reports.passed(node, declared, results, collection)

    async def _prune(self, declared: Declared, done: Sequence[Result]) -> list[Result]:
        """Take back what nobody declares; if that may have changed in a long pass, the next one does it."""
        if declared.told is None:
            self.pruner.wait_anew()
            return []
        if not self.declared.is_current(declared):
            self.requests.pass_soon()
            return []
        return await self.pruner.run(declared.desired_state.desired, declared.told, bad_sets(done))


def _held(desired: Desired) -> list[Result]:
    """Return a result for each resource in conflict, so that the host does not call itself ready."""
    by_set: dict[str, list[str]] = {}
    for name, said in desired.conflicts.items():
        for text in said:
            by_set.setdefault(text.partition(" (also in")[0], []).append(name)
    return [
        Result(one, tuple(by_set.get(str(one), ())), ResourceOutcome.BLOCKED, why)
        for one, why in desired.held.items()
    ]
