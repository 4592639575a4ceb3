"""What the operator finds out for a rollout: windows that cannot be read, and whom gates are about."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec, ConfigSetStatus
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.common.node_conditions import ALIVE
from nodemanager.api.common.rollout import (
    SCALE,
    SOAKING,
    STAGED,
    RevisionRef,
    Rollout,
    RolloutStatus,
    ThresholdTurn,
)
from nodemanager.api.maintenance.health_gates import HealthGate
from nodemanager.api.maintenance.maintenancewindow import MaintenanceWindow
from nodemanager.api.maintenance.operations import LocalReference
from nodemanager.api.maintenance.windows import CalendarReference, WindowExclusion, WindowSpec
from nodemanager.controllers.rollouts import gating, reconciling, waking
from nodemanager.controllers.rollouts.gating import READ_AGAIN_SECONDS, GateReader, asked_alone
from nodemanager.kube import errors, times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.queue import WorkQueue

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
LABELS = {"role": "web"}


def reader(client: object = None) -> GateReader:
    """Return one for which there is a window with a calendar, and nothing else."""
    spec = WindowSpec(always=True, exclude=[WindowExclusion(calendar=CalendarReference(name="holidays"))])
    windows = {ObjectKey("x", "nights"): MaintenanceWindow(spec=spec)}
    nobody = SimpleNamespace(refused="", get=lambda _key: None, values=list)
    asker = SimpleNamespace(answers={})
    return GateReader(*cast("Any", (client, windows, nobody, nobody, asker)))


def config_set(**rollout: Any) -> ConfigSet:
    """Return one whose change all hosts have for an hour, and soak."""
    turn = ThresholdTurn(threshold=SCALE, at=times.rfc3339(NOW - timedelta(hours=1)))
    new = RevisionRef(name="web-2", revision=2, digest="b" * 64, labels=LABELS)
    status = RolloutStatus(phase=SOAKING, stage=1, next=new, threshold=SCALE, turns=[turn])
    spec = ConfigSetSpec(rollout=Rollout(strategy=STAGED, **rollout))
    return ConfigSet(ObjectMeta(name="web", namespace="x"), spec, ConfigSetStatus(rollout=status))


async def test_a_calendar_that_cannot_be_read_shuts_a_window_and_keeps_nobody_from_looking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host that failed would not return while the look itself fails, or waits."""

    async def fails(*_args: object) -> None:
        raise errors.Unreachable("connection refused")

    async def hangs(*_args: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(gating, "READ_SECONDS", 0.01)
    for get, why in ((fails, "connection refused"), (hangs, "no answer within 0.01 s")):
        given = config_set(window_ref=LocalReference(name="nights"))
        found = await reader(SimpleNamespace(get=get)).read(asked_alone(given), [], [], NOW)
        problem = found.window.problem if found.window is not None else None
        assert problem is not None
        assert (problem.reason, problem.again) == ("WindowInvalid", READ_AGAIN_SECONDS)
        assert f"its calendars cannot be read: {why}" in problem.message


async def test_calendars_are_read_once_a_minute_or_when_the_window_changes() -> None:
    """A rollout is looked at whenever hosts report."""
    read: list[str] = []

    async def get(_kind: object, name: str, _namespace: str) -> SimpleNamespace:
        read.append(name)
        return SimpleNamespace(data={"calendar.ics": "BEGIN:VCALENDAR\nEND:VCALENDAR\n"})

    gates = reader(SimpleNamespace(get=get))
    given = config_set(window_ref=LocalReference(name="nights"))
    windows = cast("dict[ObjectKey, MaintenanceWindow]", gates.windows)
    nights = ObjectKey("x", "nights")
    for second, times_read in ((0, 1), (0, 1), (59, 1), (60, 2), (0, 3)):  # at last, the clock was set back
        found = await gates.read(asked_alone(given), [], [], NOW + timedelta(seconds=second))
        assert found.window is not None
        assert (found.window.problem, found.window.view.open, len(read)) == (None, True, times_read)
    spec = msgspec.structs.replace(windows[nights].spec, time_zone="UTC")
    windows[nights] = MaintenanceWindow(spec=spec)
    await gates.read(asked_alone(given), [], [], NOW)
    assert len(read) == 4


async def test_answers_about_many_hosts_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "SETTLE_SECONDS", 0.01)
    queue = WorkQueue[ObjectKey]("rollout", metrics=Registry())
    cache = SimpleNamespace(add_index=lambda *_args: None)
    context = SimpleNamespace(
        client=None, caches=SimpleNamespace(of=lambda _kind: cache), now=lambda: NOW, queue=queue
    )
    reconcile = cast("Any", reconciling.build(cast("Any", context)))
    wake = reconcile.__self__.gates.asker.wake
    for _ in range(100):
        wake(ObjectKey("x", "web"))
    assert len(queue) == 0
    assert await queue.get() == ObjectKey("x", "web")
    assert len(queue) == 0
    queue.shut_down()


async def test_gates_are_not_about_hosts_that_fell_silent_with_the_change() -> None:
    """They fail in their time, and stopAfter says how many of them may."""
    for alive, said in (("False", None), ("True", "managednode/h: its agent has reported nothing yet")):
        condition = Condition(type=ALIVE, status=alive, last_transition_time=times.rfc3339(NOW))
        told = ManagedNodeStatus(release="6.1", conditions=[condition])
        host = ManagedNode(ObjectMeta(name="h", uid="u", namespace="x", labels=LABELS), status=told)
        given = config_set(health=[HealthGate(config_sets_hold=True)])
        found = (await reader().read(asked_alone(given), [], [host], NOW)).health
        assert (found.said if found is not None else None) == said
