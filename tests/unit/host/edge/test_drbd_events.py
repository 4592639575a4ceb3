"""DRBD tells that something changed: by a program that is followed, restarted, and ended with us."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from nodemanager.host.edge.drbd_events import EVENTS, DrbdEvents, is_news
from nodemanager.host.process import runner
from nodemanager.host.process.pipes import LinesOutput
from nodemanager.host.process.runner import CommandNotFound
from support import scripts
from support.scripted_server import until


@pytest.mark.parametrize(
    ("line", "news"),
    [
        pytest.param("exists resource name:r0 role:Primary suspended:no", False, id="as it is"),
        pytest.param("exists -", False, id="the end of the first part"),
        pytest.param(
            "change peer-device name:r0 peer-node-id:0 volume:0 replication:SyncTarget", True, id="8.4"
        ),
        pytest.param(
            "2026-11-17T12:00:00.1+00:00 change resource name:r0 role:Primary", True, id="with a time"
        ),
        pytest.param("destroy connection name:r0 peer-node-id:1 conn-name:b", True, id="gone"),
        pytest.param("create device name:r0 volume:0 minor:1", True, id="new"),
        pytest.param(
            "change device name:r0 volume:0 minor:1 disk:UpToDate client:no quorum:no", True, id="no quorum"
        ),
        pytest.param("change resource name:r0 role:Primary suspended:quorum", True, id="IO hangs"),
        pytest.param(
            "change connection name:r0 peer-node-id:1 conn-name:b connection:StandAlone role:Unknown",
            True,
            id="it stands alone",
        ),
        pytest.param("call helper name:r0 helper:before-resync-target", False, id="a helper"),
        pytest.param("response helper name:r0 helper:change status:0", False, id="a helper of that name"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_what_is_news(line: str, news: bool) -> None:
    assert is_news(line.encode()) == news


class Told:
    """Counts how often somebody has to look."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def loaded(root: Path) -> Path:
    (root / "proc").mkdir()
    (root / "proc/drbd").write_text("version: 9.1.7 (api:2)\n")
    return root


@contextlib.asynccontextmanager
async def following(events: DrbdEvents) -> AsyncIterator[None]:
    running = asyncio.ensure_future(events.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait({running})


async def test_a_change_is_heard_at_once_and_the_program_ends_with_us(tmp_path: Path) -> None:
    script = scripts.write(
        tmp_path / "drbdsetup",
        f"echo $$ > {tmp_path}/pid; echo 'exists resource name:r0'; echo 'exists -'\n"
        f"until [ -e {tmp_path}/go ]; do sleep 0.01; done\n"
        "echo 'change resource name:r0 role:Primary'; exec sleep 1000",
    )

    async def follow(argv: Sequence[str], heard: Callable[[bytes], None]) -> int:
        assert argv == EVENTS
        return await runner.follow([script, *argv[1:]], heard, env=dict(os.environ))

    told = Told()
    async with following(DrbdEvents(loaded(tmp_path), follow, told)):
        await until((tmp_path / "pid").exists)
        assert told.count == 0, "how it is, is no news"
        (tmp_path / "go").touch()
        await until(lambda: told.count == 1)
        pid = int((tmp_path / "pid").read_text())
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_stream_that_ends_is_begun_again_and_all_is_looked_at(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ends: list[int | OSError] = [1, 1, CommandNotFound("cannot run drbdsetup: it is not there"), 0]

    async def follow(argv: Sequence[str], heard: Callable[[bytes], None]) -> int:
        del argv, heard
        if not ends:
            await asyncio.Event().wait()
        end = ends.pop(0)
        if isinstance(end, OSError):
            raise end
        return end

    told = Told()
    async with following(DrbdEvents(loaded(tmp_path), follow, told, again=0)):
        await until(lambda: told.count == 4)
    assert caplog.text.count("drbdsetup events2 ended with 1") == 1, "the same is said once"
    assert "it is not there; DRBD is looked at now and then only" in caplog.text


async def test_without_the_module_nothing_is_run(tmp_path: Path) -> None:
    ran = Told()

    async def follow(argv: Sequence[str], heard: Callable[[bytes], None]) -> int:
        del argv, heard
        ran()
        return 0

    told = Told()
    async with following(DrbdEvents(tmp_path, follow, told, again=0)):
        for _ in range(20):
            await asyncio.sleep(0)
        assert (ran.count, told.count) == (0, 0)
        loaded(tmp_path)
        await until(lambda: ran.count > 0)


async def test_lines_in_pieces_and_one_without_end(tmp_path: Path) -> None:
    heard: list[bytes] = []
    script = scripts.write(
        tmp_path / "parts", "printf 'a'; sleep 0.05; printf 'b\\nc\\n'; printf 'rest'; exit 3"
    )
    assert await runner.follow([script], heard.append, env=dict(os.environ)) == 3
    assert heard == [b"ab", b"c"]
    endless = scripts.write(tmp_path / "endless", "exec yes | tr -d '\\n'")
    assert await runner.follow([endless], heard.append, env=dict(os.environ)) != 0, "it was killed"
    with pytest.raises(CommandNotFound):
        await runner.follow([str(tmp_path / "nothing")], heard.append)


async def test_a_pipe_full_of_short_lines_is_no_long_line() -> None:
    """As when very many resources change at once while we are busy."""
    heard: list[bytes] = []
    line = b"change resource name:r0 role:Primary suspended:no"
    with LinesOutput(runner.MAX_LINE, heard.append) as lines:
        writer = os.dup(lines.child_end)
        os.set_blocking(writer, False)
        lines.attach(lambda: pytest.fail("the program was ended"))
        text = (line + b"\n") * 10_000
        try:
            while text:
                text = text[os.write(writer, text) :]
                lines.drain()
        finally:
            os.close(writer)
    assert heard == [line] * 10_000
