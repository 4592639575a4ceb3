"""Signals: the first stops in good order, the second ends at once, all are restored."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from nodemanager.runtime import signals

SCRIPT = textwrap.dedent(
    """
    import asyncio, logging, sys
    from nodemanager.runtime.manager import Manager

    class Slow:
        name = "slow"
        async def run(self):
            print("up", flush=True)
            try:
                await asyncio.sleep(3600)
            finally:
                print("stopping", flush=True)
                {at_end}

    async def main():
        manager = Manager(log=logging.getLogger())
        manager.add(Slow())
        await manager.run(install_signals=True, on_hangup=lambda: print("hup", flush=True))
        print("stopped", flush=True)

    asyncio.run(main())
    """
)


def start(at_end: str) -> subprocess.Popen[str]:
    """Start a process with one part, and wait until it is up."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(at_end=at_end)], stdout=subprocess.PIPE, text=True
    )
    assert line(process) == "up"
    return process


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_stops_in_good_order(number: signal.Signals) -> None:
    with start("pass") as process:
        process.send_signal(signal.SIGHUP)
        assert line(process) == "hup"
        process.send_signal(number)
        assert [line(process), line(process)] == ["stopping", "stopped"]
        assert process.wait(90) == 0


@pytest.mark.parametrize(
    "at_end",
    [
        pytest.param("await asyncio.sleep(3600)", id="waiting"),
        pytest.param("while True: pass", id="the-loop-hangs"),
    ],
)
def test_the_second_signal_ends_at_once(at_end: str) -> None:
    with start(at_end) as process:
        process.send_signal(signal.SIGTERM)
        assert line(process) == "stopping"
        process.send_signal(signal.SIGINT)
        assert process.wait(90) == 1
        assert line(process) == ""


async def test_all_handlers_are_restored() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    reasons: list[str] = []
    exits: list[int] = []
    with signals.handled(reasons.append, on_hangup=lambda: None, exit_now=exits.append):
        os.kill(os.getpid(), signal.SIGTERM)
        while not reasons:  # noqa: ASYNC110  # the handler runs in one of the next turns
            await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
    assert reasons == ["received SIGTERM"]
    assert exits == [1]
    assert [signal.getsignal(number) for number in numbers] == before


async def test_hangup_keeps_its_meaning_without_a_hook() -> None:
    before = signal.getsignal(signal.SIGHUP)
    with signals.handled(lambda reason: None):
        assert signal.getsignal(signal.SIGHUP) is before


def test_a_command_that_is_terminated_tidies_up_as_after_ctrl_c() -> None:
    done: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(20)
        finally:
            await asyncio.sleep(0)
            done.append("tidied up")

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), signals.terminable():
        asyncio.run(work())
    assert (done, signal.getsignal(signal.SIGTERM)) == (["tidied up"], before)
