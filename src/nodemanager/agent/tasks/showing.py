"""What the local status shows of tasks: the current one, and those of the last days."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from nodemanager.agent.report import local_status
from nodemanager.agent.report.local_status import Snapshot, Tasks, TaskState, with_
from nodemanager.agent.tasks.ledger import Entry
from nodemanager.kube import times
from nodemanager.plan.tasks import reports
from nodemanager.plan.tasks.record import TaskPhase

DAYS: Final = timedelta(days=7)
MOST: Final = 10
"""How many ended tasks are shown."""


def of_tasks(entries: Callable[[], Iterable[Entry]], now: Callable[[], datetime]) -> local_status.Source:
    """Return what is known of the tasks of this host."""

    def fill(snapshot: Snapshot) -> Snapshot:
        return with_(snapshot, tasks=shown(entries(), now()))

    return fill


def shown(entries: Iterable[Entry], now: datetime) -> Tasks:
    """Return the task that is being done, and those that ended lately; pure."""
    known = list(entries)
    running = [one for one in known if one.record.phase is TaskPhase.RUNNING]
    ended = [(at, one) for one in known if (at := one.record.ended_at) is not None and now - at <= DAYS]
    ended.sort(key=lambda one: (one[0], one[1].record.token), reverse=True)
    return Tasks(
        running=_state(running[0], running[0].record.claimed_at) if running else None,
        recent=[_state(one, at) for at, one in ended[:MOST]],
    )


def _state(entry: Entry, since: datetime | None) -> TaskState:
    spec, record = entry.spec, entry.record
    step, names = reports.step_at(spec, record), [one.name for one in spec.steps]
    reason = spec.reason
    return TaskState(
        name=entry.name,
        owner=f"{reason.kind.lower()}/{reason.name}" if reason is not None and reason.name else "",
        phase=record.phase,
        step=step,
        place=names.index(step) + 1 if step else 0,
        steps=len(names),
        since=times.rfc3339(since) if since is not None else None,
        message=record.paused or record.message,
    )
