"""The virtual clock is exact, stands still for threads, and never hangs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

import pytest

from support import virtual_time


@virtual_time.test
async def test_sleeps_take_no_real_time_and_are_exact() -> None:
    loop = asyncio.get_running_loop()
    began = time.monotonic()
    await asyncio.gather(asyncio.sleep(300), asyncio.sleep(0.1))
    assert loop.time() == 300.0
    await asyncio.sleep(30 * 86400)
    assert loop.time() == 300.0 + 30 * 86400
    assert time.monotonic() - began < 100


@pytest.mark.parametrize("start", [0.0, 1e5, 1e9, 1e12])
def test_a_due_timer_fires_however_coarse_floats_are(start: float) -> None:
    virtual_time.run(asyncio.sleep(1.0), start=start)


@virtual_time.test
async def test_timers_fire_in_order_of_their_time() -> None:
    loop = asyncio.get_running_loop()
    seen: list[tuple[str, float]] = []
    for name, delay in (("c", 3.0), ("a", 1.0), ("b", 2.0)):
        loop.call_later(delay, lambda n: seen.append((n, loop.time())), name)
    await asyncio.sleep(4)
    assert seen == [("a", 1.0), ("b", 2.0), ("c", 3.0)]


def test_waiting_for_nothing_is_an_error_not_a_hang() -> None:
    async def scenario() -> None:
        await asyncio.Event().wait()

    with pytest.raises(virtual_time.StalledError, match="no timer"):
        virtual_time.run(scenario())


def test_a_task_left_behind_fails_the_test() -> None:
    async def scenario() -> None:
        scenario_tasks.append(asyncio.create_task(asyncio.sleep(1e9), name="forgotten"))

    scenario_tasks: list[asyncio.Task[None]] = []
    with pytest.raises(AssertionError, match="forgotten"):
        virtual_time.run(scenario())
    assert scenario_tasks[0].cancelled()


@virtual_time.test
async def test_the_clock_stands_still_while_a_thread_works() -> None:
    loop = asyncio.get_running_loop()
    release = threading.Event()
    ticker = asyncio.create_task(asyncio.sleep(1000))
    work = loop.run_in_executor(None, release.wait, 10)
    await virtual_time.settle()
    release.set()
    assert await work
    assert loop.time() == 0.0
    ticker.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await ticker


@virtual_time.test
async def test_sockets_work() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hello\n")
    assert await reader.readline() == b"hello\n"
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


@virtual_time.test
async def test_a_suspended_machine_wakes_up_late() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, virtual_time.VirtualTimeLoop)
    woken: list[float] = []
    loop.call_later(1.0, lambda: woken.append(loop.time()))
    loop.advance(100.0)
    await virtual_time.settle()
    assert woken == [100.0]


def test_a_hundred_loops_are_cheap() -> None:
    began = time.process_time()
    for _ in range(100):
        virtual_time.run(asyncio.sleep(1))
    assert time.process_time() - began < 3
