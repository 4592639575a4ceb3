"""What is waited for is told to whoever sits at the terminal, after a moment, and leaves no trace."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path

import pytest

from nodemanager.cli.views import waiting
from support import cli
from support.scripted_server import Exchange, serve, until


class Terminal(io.StringIO):
    """Where somebody reads along."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "SILENT_SECONDS", 0.01)
    monkeypatch.setenv("TERM", "xterm")


async def test_it_says_what_is_waited_for_and_takes_it_back() -> None:
    terminal = Terminal()
    async with waiting.told(lambda: "at work: apt-get\x1b", terminal):
        await until(lambda: terminal.getvalue().count("at work: apt-get? (0 s)") > 1)
    assert terminal.getvalue().endswith(waiting.ERASE)


async def test_what_is_over_soon_needs_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "SILENT_SECONDS", 60.0)
    terminal = Terminal()
    async with waiting.told(lambda: "at work", terminal):
        await asyncio.sleep(0)
    assert terminal.getvalue() == ""


async def test_nobody_sits_at_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, dumb = io.StringIO(), Terminal()
    async with waiting.told(lambda: "at work", pipe):
        await asyncio.sleep(0.05)
    monkeypatch.setenv("TERM", "dumb")
    async with waiting.told(lambda: "at work", dumb):
        await asyncio.sleep(0.05)
    assert (pipe.getvalue(), dumb.getvalue()) == ("", "")


async def test_a_slow_api_is_named(tmp_path: Path) -> None:
    seen = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        await asyncio.wait_for(seen.wait(), 30)
        await exchange.json(cli.table("web1"))

    near, far = os.openpty()
    said = b""

    def read() -> None:
        nonlocal said
        said += os.read(near, 4096)
        if b"waiting for http" in said:
            seen.set()

    asyncio.get_running_loop().add_reader(near, read)
    async with serve(handler) as server:
        argv = [*cli.ARGV, "get", "mn", "--kubeconfig", cli.kubeconfig(server.url, tmp_path)]
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=asyncio.subprocess.PIPE, stderr=far, env=cli.environment(TERM="xterm")
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
    asyncio.get_running_loop().remove_reader(near)
    os.close(near)
    os.close(far)
    assert process.returncode == 0
    assert f"waiting for {server.url} (1 s)".encode() in said
    assert out.decode().splitlines()[1].startswith("web1")
