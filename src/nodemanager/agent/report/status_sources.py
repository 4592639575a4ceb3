"""The sources of the local status: each part of the agent reports what it knows."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from nodemanager import __version__
from nodemanager.agent.drift.drift_log import DriftLog
from nodemanager.agent.link.api_reachability import ApiReachability, UnixClocks
from nodemanager.agent.passes.host_state import HostState
from nodemanager.agent.report import local_status
from nodemanager.agent.report.local_status import (
    MAX_SHOWN,
    Api,
    Drifts,
    Owed,
    Passes,
    SetState,
    Snapshot,
    Token,
    with_,
)
from nodemanager.api.common.managednode import AppliedConfigSet, DriftRecord, ManagedNodeStatus
from nodemanager.client.auth.renewed_token import RenewedToken
from nodemanager.host.state.journal import Journal
from nodemanager.kube import times
from nodemanager.kube.objects import ObjectKey
from nodemanager.plan.desired import Desired
from nodemanager.runtime import controller, process_metrics

CLOCKS: Final = UnixClocks()
CLOCK_SLACK: Final = 2.0
"""Seconds that a time may differ although no clock was set: it is cut to whole seconds."""


def stamp(moment: float | None) -> str | None:
    """Return a moment of Unix time as everybody writes it; None for None and 0, which are never."""
    return times.rfc3339_unix(moment) if moment else None


def of_process(host: str, namespace: str, root: str, clocks: UnixClocks = CLOCKS) -> local_status.Source:
    """Return who we are and what we cost."""
    started = clocks.steady()

    def fill(snapshot: Snapshot) -> Snapshot:
        try:
            memory = int(process_metrics.resident_bytes())
        except OSError:  # no /proc
            memory = 0
        return with_(
            snapshot, host=host, namespace=namespace, version=__version__, root=root, pid=os.getpid(),
            started=stamp(clocks.on_the_wall(started)), time=stamp(clocks.wall()), memory=memory,
        )  # fmt: skip

    return fill


def of_reachability(reachability: ApiReachability, server: str) -> local_status.Source:
    """Return how we stand with the API."""

    def fill(snapshot: Snapshot) -> Snapshot:
        state = (
            "unasked"
            if reachability.unasked
            else "refused"
            if reachability.refused
            else "alone"
            if reachability.since() is not None
            else "connected"
        )
        if state == "connected" and reachability.heard() is None:
            state = "unknown"
        api = Api(
            state=state, server=server, since=stamp(reachability.since()), why=reachability.why,
            last_contact=stamp(reachability.heard()),
        )  # fmt: skip
        return with_(snapshot, api=api)

    return fill


def of_token(token: RenewedToken) -> local_status.Source:
    """Return how long the credential is good for."""

    def fill(snapshot: Snapshot) -> Snapshot:
        life = token.life
        if life is None:
            return snapshot
        return with_(snapshot, token=Token(expires=stamp(life.expires) or "", renewal=stamp(life.due) or ""))

    return fill


def of_journal(journal: Journal) -> local_status.Source:
    """Return which restarts and runs are owed."""

    def fill(snapshot: Snapshot) -> Snapshot:
        return with_(snapshot, owed=owed(journal))

    return fill


def owed(journal: Journal) -> list[Owed]:
    """Return which restarts and runs are owed, the oldest first."""
    found = sorted(journal.pending().items(), key=lambda one: one[1].since)
    return [
        Owed(resource=str(one), since=stamp(entry.since) or "", causes=list(entry.causes))
        for one, entry in found[:MAX_SHOWN]
    ]


@dataclass(slots=True)
class LastPass:
    """What passes were about and how they went; the agent's loop reports it."""

    key: ObjectKey
    """The name by which a pass is asked for; the loop does other things, too."""
    changed: Callable[[], None]
    """Called when there is news."""
    status: Callable[[], ManagedNodeStatus]
    """Returns the state of the host."""
    desired: Callable[[], Desired]
    """Returns everything that is declared."""
    clocks: UnixClocks = CLOCKS
    _began: float | None = None
    """This and the next two are by the monotonic clock, so they stay when the wall clock is set."""
    _ended: float | None = None
    _next: float | None = None
    _seconds: float = 0.0
    _error: str = ""

    def timed(self, reconcile: controller.Reconcile) -> controller.Reconcile:
        """Return the loop's own function, watched from outside."""

        async def run(key: ObjectKey) -> controller.ReconcileResult | None:
            return await (self._time(reconcile(key)) if key == self.key else reconcile(key))

        return run

    async def _time(
        self, work: Awaitable[controller.ReconcileResult | None]
    ) -> controller.ReconcileResult | None:
        began = self._began = self.clocks.steady()
        delay: float | None = None
        try:
            done = await work
            delay = done.requeue_after if done else None
            self._error = ""
        except controller.Retry as again:
            delay, self._error = again.delay, ""
            raise
        except asyncio.CancelledError:
            self._error = "it was stopped"
            raise
        except Exception as error:
            self._error = str(error) or type(error).__name__
            raise
        finally:
            self._began, self._ended = None, self.clocks.steady()
            self._seconds = self._ended - began
            self._next = self._ended + delay if delay is not None else None
            self.changed()
        return done

    @property
    def over(self) -> bool:
        """Whether there was a pass at all."""
        return self._ended is not None

    def fill(self, snapshot: Snapshot) -> Snapshot:
        """Return what is declared, and how it went."""
        found = self.status()
        return with_(
            snapshot,
            passes=Passes(
                running_since=self._stamp(self._began), last=self._stamp(self._ended),
                seconds=round(self._seconds, 6), next=self._stamp(self._next), error=self._error,
            ),
            conditions=list(found.conditions),
            config_sets=[_set(one) for one in found.configsets],
            managed=_counts(self.desired()),
        )  # fmt: skip

    def _stamp(self, moment: float | None) -> str | None:
        return None if moment is None else stamp(self.clocks.on_the_wall(moment))


def of_drifts(log: DriftLog, clocks: UnixClocks = CLOCKS) -> local_status.Source:
    """Return what was changed behind our back, also what nobody else has heard of yet."""

    def fill(snapshot: Snapshot) -> Snapshot:
        known, moments = log.drift(), log.moments()
        recent = [_dated(one, moments.get(one.sequence), clocks) for one in log.newest(MAX_SHOWN)]
        repaired = [one for one in recent if one.outcome == "repaired"]
        last_time = repaired[-1].time if repaired else known.last_time
        found = Drifts(
            repaired=known.repaired, observed=known.observed, last_time=last_time,
            last_resource=known.last_resource, unreported=log.sequence - log.reported_sequence, recent=recent,
        )  # fmt: skip
        return with_(snapshot, drift=found)

    return fill


def _dated(record: DriftRecord, moment: float | None, clocks: UnixClocks) -> DriftRecord:
    """Return a drift with the time that it has by the clock as it is now, if that was set since."""
    if moment is None:
        return record
    now = clocks.on_the_wall(moment)
    try:
        then = datetime.fromisoformat(record.time).timestamp()
    except ValueError:
        then = 0.0
    if abs(now - then) <= CLOCK_SLACK:
        return record
    return msgspec.structs.replace(record, time=stamp(now) or "")


def of_watch(host_state: HostState) -> local_status.Source:
    """Return what is not watched."""
    return lambda snapshot: with_(snapshot, unwatched=list(host_state.shortfalls or ())[:MAX_SHOWN])


def _set(one: AppliedConfigSet) -> SetState:
    return SetState(
        name=one.name,
        last_applied=one.last_applied,
        error=one.error,
        waiting=one.waiting,
        conflicts=one.conflicts[:MAX_SHOWN],
        held=one.held,
    )


def _counts(desired: Desired) -> dict[str, int]:
    return {kind: len(items) for kind, items in desired.items.items() if items}
