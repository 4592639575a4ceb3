"""Pipes to children: what the runner's tests cannot force to happen."""

from __future__ import annotations

import os

import pytest

from nodemanager.host.process import pipes, runner


async def test_output_stops_at_its_limit_and_ends_the_writer_once() -> None:
    aborted = []
    with pipes.Output(10) as output:
        writer = os.dup(output.child_end)
        output.attach(lambda: aborted.append(True))
        os.write(writer, b"x" * 50)
        output.drain()
        assert (output.overflowed, aborted, output.our_end) == (True, [True], -1)
        with pytest.raises(BrokenPipeError):  # nobody reads it any more
            os.write(writer, b"x")
        output.drain()
        assert output.collected() == b"x" * 50
    os.close(writer)


async def test_output_drains_what_is_there_without_waiting_for_the_end() -> None:
    with pipes.Output(100) as output:
        writer = os.dup(output.child_end)
        output.attach(lambda: None)
        os.write(writer, b"so far")
        output.drain()
        assert output.collected() == b"so far"
        assert not output.overflowed
    os.close(writer)


async def test_what_is_unread_when_the_child_exits_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "_CHUNK", 1)  # so slow a reader is certainly behind when the child exits
    completed = await runner.run(["/bin/sh", "-c", "seq 1 500; seq 1 500 >&2"], timeout=20)
    expected = "".join(f"{number}\n" for number in range(1, 501)).encode()
    assert (completed.stdout, completed.stderr) == (expected, expected)
