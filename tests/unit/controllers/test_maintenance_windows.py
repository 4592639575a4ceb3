"""The status of windows: judged purely, and kept true by the operator at every opening and closing."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from pathlib import Path

import pytest

from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS, VALID, MaintenanceWindow
from nodemanager.api.maintenance.windows import CalendarReference, WindowExclusion, WindowSchedule, WindowSpec
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly, maintenance_windows
from nodemanager.controllers.assembly import Dependencies
from nodemanager.controllers.maintenance_windows import judging, opening
from nodemanager.host.process import runner
from nodemanager.kube import conditions
from nodemanager.kube.core import CONFIG_MAPS, EVENTS
from nodemanager.kube.objects import ObjectMeta
from nodemanager.runtime.metrics import Registry
from support import whole_server
from support.clients import connected

NAMESPACE = "default"
MONDAY = WindowSpec(
    schedules=[WindowSchedule(weekdays=["Mon"], start="06:00", duration="3h", time_zone="Europe/Paris")]
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def window(spec: WindowSpec) -> MaintenanceWindow:
    return MaintenanceWindow(metadata=ObjectMeta(namespace="ns", name="w", generation=3), spec=spec)


def test_open() -> None:
    status = judging.judge(window(MONDAY), {}, at("2026-11-16T06:00:00Z"))
    assert (status.open, status.closes_at, status.opens_at, status.observed_generation) == (
        True, "2026-11-16T08:00:00Z", "2026-11-23T05:00:00Z", 3,
    )  # fmt: skip
    assert [one.local for one in status.next][:2] == [
        "Mon 2026-11-16 06:00 to 09:00 CET",
        "Mon 2026-11-23 06:00 to 09:00 CET",
    ]
    assert len(status.next) == judging.SHOWN


def test_shut_with_a_remark() -> None:
    night = WindowSchedule(weekdays=["Sat"], start="23:00", duration="6h")
    spec = WindowSpec(schedules=[night], time_zone="Europe/Paris")
    status = judging.judge(window(spec), {}, at("2026-10-24T12:00:00Z"))
    assert not status.open
    assert status.next[0].local == "Sat 2026-10-24 23:00 to Sun 2026-10-25 04:00 CET"
    assert status.next[0].remark == "the clock is turned meanwhile: it closes at 04:00"


@pytest.mark.parametrize(
    ("spec", "local"),
    [
        pytest.param(WindowSpec(always=True), "Sun 2026-11-15 12:00 UTC and on", id="no zone"),
        pytest.param(
            WindowSpec(always=True, time_zone="Europe/Paris"), "Sun 2026-11-15 13:00 CET and on", id="its own"
        ),
        pytest.param(
            WindowSpec(
                schedules=[
                    WindowSchedule(weekdays=["Mon"], start="06:00", duration="1h", time_zone="Europe/Paris"),
                    WindowSchedule(weekdays=["Tue"], start="06:00", duration="1h"),
                ],
                time_zone="Asia/Tokyo",
            ),
            "Mon 2026-11-16 14:00 to 15:00 JST", id="schedules of two zones",
        ),
        pytest.param(
            WindowSpec(
                schedules=[
                    WindowSchedule(weekdays=["Mon"], start="06:00", duration="1h", time_zone="Europe/Paris"),
                    WindowSchedule(weekdays=["Tue"], start="06:00", duration="1h"),
                ]
            ),
            "Mon 2026-11-16 05:00 to 06:00 UTC", id="one without",
        ),
    ],
)  # fmt: skip
def test_people_read_its_openings_in_their_zone(spec: WindowSpec, local: str) -> None:
    status = judging.judge(window(spec), {}, at("2026-11-15T12:00:00Z"))
    assert status.next[0].local == local


def test_one_without_an_end_is_open_for_good() -> None:
    status = judging.judge(window(WindowSpec(always=True)), {}, at("2026-11-16T06:00:00Z"))
    assert (status.open, status.closes_at, status.opens_at, len(status.next)) == (True, None, None, 1)
    assert status.next[0].end is None


def test_at_the_moment_when_it_opens_it_is_open() -> None:
    opened = judging.judge(window(MONDAY), {}, at("2026-11-16T05:00:00Z"))
    shut = judging.judge(window(MONDAY), {}, at("2026-11-16T04:59:59Z"))
    assert (opened.open, opened.opens_at) == (True, "2026-11-23T05:00:00Z")
    assert (shut.open, shut.opens_at) == (False, "2026-11-16T05:00:00Z")


def test_one_that_never_opens_again_says_so() -> None:
    status = judging.judge(
        window(WindowSpec(always=True, valid_until="2026-01-01T00:00:00Z")), {}, at("2026-11-16T06:00:00Z")
    )
    valid = conditions.get(status.conditions, VALID)
    assert valid is not None
    assert (status.open, valid.status, valid.message) == (False, "True", "no opening is in sight")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (WindowSpec(always=True, time_zone="Europe/Pari"), ""),
        (WindowSpec(always=True, exclude=[WindowExclusion(start="1:00", time_zone="X")]), "no time zone"),
        (WindowSpec(schedules=[WindowSchedule(cron="61 3 * * *", duration="1h")]), "cannot read schedule"),
        (WindowSpec(schedules=[WindowSchedule(start="06:00", duration="soon")]), "duration 'soon'"),
        (
            WindowSpec(always=True, exclude=[WindowExclusion(calendar=CalendarReference(name="h"))]),
            "ConfigMap h",
        ),
    ],
    ids=["zone", "zone-of-exclusion", "cron", "duration", "calendar"],
)
def test_one_that_cannot_be_read_is_shut_and_says_why(spec: WindowSpec, why: str) -> None:
    status = judging.judge(window(spec), {}, at("2026-11-16T06:00:00Z"))
    valid = conditions.get(status.conditions, VALID)
    assert valid is not None
    assert (status.open, status.opens_at, valid.status) == (False, None, "False")
    assert why in valid.message
    assert valid.message.endswith("until then the window is shut")


async def reasons(client: Client, name: str) -> list[str]:
    found = await client.list(EVENTS, Selection(NAMESPACE))
    return [one.reason for one in found.items if one.involved_object.name == name]


async def test_it_opens_and_closes_and_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One Event for each edge."""
    monkeypatch.setattr(opening, "LOOK_SECONDS", 0.05)
    now = at("2026-11-16T05:59:58Z")
    async with whole_server.serving(tmp_path) as (config, _), connected(config) as client:
        given = Dependencies(
            client, NAMESPACE, Registry(), runner.companion, leader_elect=False, now=lambda: now
        )
        operator = assembly.assemble(given, [maintenance_windows.REGISTRATION])
        task = asyncio.create_task(operator.manager.run())
        try:
            spec = {"schedules": [{"start": "06:00", "duration": "1s"}]}
            await client.create(MAINTENANCE_WINDOWS, {"metadata": {"name": "w"}, "spec": spec}, NAMESPACE)
            for moment, opened in (
                ("2026-11-16T05:59:59Z", False),
                ("2026-11-16T06:00:00Z", True),
                ("2026-11-16T06:00:01Z", False),
            ):
                now = at(moment)
                async with asyncio.timeout(50):
                    while (found := await client.get(MAINTENANCE_WINDOWS, "w", NAMESPACE)).status != (  # noqa: ASYNC110
                        judging.judge(found, {}, now)
                    ):
                        await asyncio.sleep(0.02)
                assert found.status.open is opened
            async with asyncio.timeout(50):
                while len(await reasons(client, "w")) < len((opening.OPENED, opening.CLOSED)):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            assert await reasons(client, "w") == [opening.OPENED, opening.CLOSED]
            assert found.status.opens_at == "2026-11-17T06:00:00Z"
        finally:
            operator.manager.stop("the test is over")
            await task


@pytest.mark.parametrize(
    ("now", "seconds"),
    [
        ("2026-11-16T05:59:58Z", 2.0),
        ("2026-11-16T06:00:00Z", 1.0),
        ("2026-11-16T06:00:00.9999Z", 0.05),
        ("2026-11-16T06:00:01Z", opening.LOOK_SECONDS),
    ],
)
def test_it_is_looked_at_again_at_its_next_edge(now: str, seconds: float) -> None:
    spec = WindowSpec(schedules=[WindowSchedule(start="06:00", duration="1s")])
    judged = judging.judge(MaintenanceWindow(spec=spec), {}, at(now))
    assert opening._until_edge(judged, at(now)) == pytest.approx(seconds)


async def test_a_calendar_that_comes_later_opens_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "LOOK_SECONDS", 0.1)
    async with whole_server.serving(tmp_path) as (config, _), connected(config) as client:
        given = Dependencies(client, NAMESPACE, Registry(), runner.companion, leader_elect=False)
        operator = assembly.assemble(given, [maintenance_windows.REGISTRATION])
        task = asyncio.create_task(operator.manager.run())

        async def wait(status: str, said: str) -> None:
            deadline = time.monotonic() + 90
            while True:
                found = await client.get(MAINTENANCE_WINDOWS, "w", NAMESPACE)
                valid = conditions.get(found.status.conditions, VALID)
                if valid is not None and valid.status == status and said in valid.message:
                    assert found.status.open == (status == "True")
                    return
                assert time.monotonic() < deadline, f"never {status} {said}: {found}"
                await asyncio.sleep(0.05)

        try:
            spec = {"always": True, "exclude": [{"calendar": {"name": "h"}}]}
            await client.create(MAINTENANCE_WINDOWS, {"metadata": {"name": "w"}, "spec": spec}, NAMESPACE)
            await wait("False", "ConfigMap h, key calendar.ics: it does not exist")
            await client.create(
                CONFIG_MAPS, {"metadata": {"name": "h"}, "data": {"calendar.ics": "nonsense"}}, NAMESPACE
            )
            await wait("False", "it is no iCalendar")
            empty = "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\nEND:VCALENDAR\n"
            await client.patch(CONFIG_MAPS, "h", NAMESPACE, MergePatch({"data": {"calendar.ics": empty}}))
            await wait("True", "")
        finally:
            operator.manager.stop("the test is over")
            await task
