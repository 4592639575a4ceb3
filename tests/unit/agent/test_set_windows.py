"""The windows of ConfigSets on a host: asked for a pass at every edge, whatever happens to the clock."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from nodemanager.agent.holds.set_windows import NAP, SetWindows
from nodemanager.api.common import enforcement
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.api.common.enforcement import EnforcedSpan, Enforcement
from nodemanager.kube import times
from nodemanager.kube.objects import ObjectMeta
from support import virtual_time

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def window(*hours: tuple[float, float | None]) -> Enforcement:
    return Enforcement(
        openings=[
            EnforcedSpan(
                start=times.rfc3339(NOW + start * HOUR),
                end=None if end is None else times.rfc3339(NOW + end * HOUR),
            )
            for start, end in hours
        ]
    )


def config_set(name: str, given: Enforcement | None) -> ConfigSet:
    return ConfigSet(metadata=ObjectMeta(name=name), spec=ConfigSetSpec(enforcement=given))


def test_an_end_is_outside_and_a_start_inside() -> None:
    one = window((0, 1), (5, None))
    opened = [enforcement.is_open(one, NOW + hours * HOUR) for hours in (-0.1, 0, 0.9, 1, 4.9, 5, 1000)]
    assert opened == [False, True, True, False, False, True, True]
    assert enforcement.is_open(None, NOW)
    assert not enforcement.is_open(Enforcement(), NOW)


def test_the_next_edge_is_of_any_window() -> None:
    both = [window((0, 3), (5, None)), None, window((2, 4))]
    assert enforcement.next_edge(both, NOW) == NOW + 2 * HOUR
    assert enforcement.next_edge(both, NOW + 4 * HOUR) == NOW + 5 * HOUR
    assert enforcement.next_edge(both, NOW + 5 * HOUR) is None


@pytest.mark.parametrize(
    ("start", "end"), [("soon", None), ("soon", "2026-03-01T13:00:00Z"), ("2026-03-01T11:00:00Z", "later")]
)
def test_an_opening_that_cannot_be_read_is_none(start: str, end: str | None) -> None:
    odd = Enforcement(openings=[EnforcedSpan(start=start, end=end)])
    assert not enforcement.is_open(odd, NOW)
    assert enforcement.next_edge([odd], NOW) is None


def test_an_empty_end_is_no_end() -> None:
    assert enforcement.is_open(
        Enforcement(openings=[EnforcedSpan(start="2026-03-01T11:00:00Z", end="")]), NOW
    )


def test_a_pass_is_asked_for_at_each_edge() -> None:
    passes: list[float] = []

    async def play() -> None:
        loop = asyncio.get_running_loop()
        windows = SetWindows(lambda: passes.append(loop.time()), lambda: NOW + timedelta(seconds=loop.time()))
        sets = [config_set("a", window((1, 2))), config_set("b", window((1, None))), config_set("c", None)]
        running = asyncio.create_task(windows.run())
        await asyncio.sleep(600)
        windows.heard(sets)
        assert windows.shut() == {"a", "b"}
        await asyncio.sleep(3600)
        assert windows.shut() == frozenset()
        await asyncio.sleep(3600)
        assert windows.shut() == {"a"}
        windows.heard([])
        assert windows.shut() == frozenset()
        running.cancel()
        await asyncio.wait([running])

    virtual_time.run(play())
    assert [round(at) for at in passes] == [3600, 7200]


def test_a_clock_that_is_set_is_noticed() -> None:
    passes: list[float] = []

    async def play() -> None:
        loop = asyncio.get_running_loop()
        ahead = timedelta()
        windows = SetWindows(
            lambda: passes.append(loop.time()), lambda: NOW + ahead + timedelta(seconds=loop.time())
        )
        windows.heard([config_set("a", window((100, None)))])
        running = asyncio.create_task(windows.run())
        await asyncio.sleep(5)
        ahead = 100 * HOUR
        await asyncio.sleep(2 * NAP)
        running.cancel()
        await asyncio.wait([running])

    virtual_time.run(play())
    assert len(passes) == 1
    assert passes[0] <= 2 * NAP


ODD = [
    "2026-01-01t00:00:00z",
    "0000-01-01T00:00:00Z",
    "2026-01-01T00:00:00+99:99",
    "2026-01-01T00:00:00ZTx",
    "",
]


@pytest.mark.parametrize("text", ODD)
def test_a_time_that_cannot_be_read_opens_nothing_and_ends_nothing(text: str) -> None:
    """An API takes some of them for times."""
    for span in (EnforcedSpan(start=text), EnforcedSpan(start="2026-01-01T00:00:00Z", end=text or "x")):
        odd = Enforcement(openings=[span])
        windows = SetWindows(lambda: None, lambda: NOW)
        windows.heard([config_set("odd", odd), config_set("good", window((-1, 1)))])
        assert "good" not in windows.shut()
        enforcement.next_edge([odd], NOW)
