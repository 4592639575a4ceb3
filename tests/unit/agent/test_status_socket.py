"""The local status on its socket: who can reach it, what is replaced, and what a bad client costs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import stat
from pathlib import Path

import msgspec
import pytest

from nodemanager.agent.report import status_socket
from nodemanager.agent.report.local_status import SOCKET, Board, Snapshot
from nodemanager.agent.report.status_socket import StatusSocket
from nodemanager.host.files.tree import Tree
from nodemanager.runtime.tasks import end
from support.status_board import Teller, serving


async def asked(path: Path, word: bytes = b"once\n") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    folder = os.open(path.parent, os.O_PATH)  # an address has 107 bytes, and a folder of a test may have more
    try:
        reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
    writer.write(word)
    return reader, writer


async def snapshot(reader: asyncio.StreamReader) -> Snapshot:
    async with asyncio.timeout(50):
        return msgspec.json.decode(await reader.readline(), type=Snapshot)


async def test_only_its_owner_can_reach_it_and_nothing_is_left(tmp_path: Path) -> None:
    teller = Teller(Snapshot(host="web1"))
    async with serving(teller.board, tmp_path) as path:
        found, folder = path.stat(), path.parent.stat()
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o600
        assert stat.S_IMODE(folder.st_mode) == 0o700
        assert found.st_uid == folder.st_uid == os.geteuid()
        assert sorted(path.parent.iterdir()) == [path]
        reader, writer = await asked(path)
        assert (await snapshot(reader)).host == "web1"
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
    assert not path.parent.exists()


async def test_who_watches_is_told_every_change_also_one_that_comes_at_once(tmp_path: Path) -> None:
    teller = Teller(Snapshot(host="web1"))
    async with serving(teller.board, tmp_path) as path:
        reader, writer = await asked(path, b"watch\n")
        assert (await snapshot(reader)).pid == 0
        for pid in (1, 2, 3):
            teller.say(pid=pid)
            assert (await snapshot(reader)).pid == pid
        writer.close()
        await writer.wait_closed()


async def test_a_socket_that_a_killed_agent_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / SOCKET.lstrip("/")
    path.parent.mkdir(parents=True, mode=0o700)
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path.name)
    async with serving(Teller(Snapshot(host="web1")).board, tmp_path):
        reader, writer = await asked(path)
        assert (await snapshot(reader)).host == "web1"
        writer.close()
        await writer.wait_closed()


async def test_the_socket_of_an_agent_that_runs_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_socket, "RETRY", 0.02)
    async with serving(Teller(Snapshot(host="first")).board, tmp_path) as path:
        first = path.stat().st_ino
        second = asyncio.create_task(StatusSocket(Board(), str(tmp_path)).run())
        async with asyncio.timeout(50):
            while "another agent answers there" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert path.stat().st_ino == first
    async with asyncio.timeout(50):  # the first has ended: the second takes its place
        while not path.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await end([second])
    assert caplog.text.count("another agent answers there") == 1


@pytest.mark.parametrize("turns", range(8))  # more than it takes to listen
async def test_an_agent_that_is_ended_while_it_begins_leaves_nothing_open(tmp_path: Path, turns: int) -> None:
    """What is open at the end of the event loop fails a test: see tests/support/leftovers.py."""
    (tmp_path / "run").mkdir()
    one = asyncio.create_task(StatusSocket(Board(), str(tmp_path)).run())
    for _ in range(turns):
        await asyncio.sleep(0)
    await end([one])
    assert list((tmp_path / "run").iterdir()) == []


async def test_an_agent_that_ends_late_does_not_take_the_socket_of_the_next_one(tmp_path: Path) -> None:
    async with serving(Teller(Snapshot(host="old")).board, tmp_path) as path:
        path.unlink()
        with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as newer:
            newer.bind(path.name)
    assert path.exists()


async def test_a_folder_that_stands_for_a_host_and_has_no_run_is_not_given_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    running = asyncio.create_task(StatusSocket(Board(), str(tmp_path)).run())
    async with asyncio.timeout(50):
        while "cannot answer nodemanager status" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await end([running])
    assert not [one for one in caplog.records if one.levelno > logging.DEBUG]  # an image needs none
    assert os.listdir(tmp_path) == []  # noqa: PTH208


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
async def test_a_folder_that_others_may_write_to_is_not_used(
    mode: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "run/nodemanager"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    running = asyncio.create_task(StatusSocket(Board(), str(tmp_path)).run())
    async with asyncio.timeout(50):
        while "others may write there" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert not running.done()  # the agent works on
    assert list(folder.iterdir()) == []
    await end([running])


async def test_a_link_in_place_of_the_folder_leads_nowhere_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root = tmp_path / "root"
    (root / "run").mkdir(parents=True)
    (root / "run/nodemanager").symlink_to(elsewhere)
    running = asyncio.create_task(StatusSocket(Board(), str(root)).run())
    async with asyncio.timeout(50):
        while "cannot answer nodemanager status" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await end([running])
    assert list(elsewhere.iterdir()) == []


def test_a_root_whose_path_is_longer_than_an_address_may_be(tmp_path: Path) -> None:
    root = tmp_path / ("x" * 120)
    (root / SOCKET.lstrip("/")).parent.parent.mkdir(parents=True)
    tree = Tree(str(root))
    with status_socket.listen(tree, SOCKET):
        assert (root / SOCKET.lstrip("/")).is_socket()
    tree.close()


@pytest.mark.parametrize("word", [b"", b"x" * 4096, b"GET / HTTP/1.1\r\n\r\n", b"\xff\n"])
async def test_a_client_that_talks_nonsense_or_leaves_costs_nothing(
    word: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(Teller(Snapshot(host="web1")).board, tmp_path) as path:
        _, bad = await asked(path, word)
        bad.close()
        reader, writer = await asked(path)
        assert (await snapshot(reader)).host == "web1"
        writer.close()
        await writer.wait_closed()
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


async def test_too_many_clients_are_turned_away_and_the_others_go_on(tmp_path: Path) -> None:
    teller = Teller(Snapshot(host="web1"))
    async with serving(teller.board, tmp_path) as path:
        watching = [await asked(path, b"watch\n") for _ in range(status_socket.MAX_CLIENTS)]
        for reader, _ in watching:
            await snapshot(reader)
        late, writer = await asked(path)
        async with asyncio.timeout(50):
            with contextlib.suppress(ConnectionResetError):
                assert await late.read() == b""
        writer.close()
        teller.say(pid=5)
        assert {(await snapshot(reader)).pid for reader, _ in watching} == {5}
        for _, each in watching:
            each.close()


def test_a_source_that_is_broken_costs_only_what_it_would_have_said(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: Snapshot) -> Snapshot:
        raise RuntimeError("oh")

    board = Board(lambda one: msgspec.structs.replace(one, host="web1"), broken)
    board.plug(lambda one: msgspec.structs.replace(one, pid=7))
    assert (board.snapshot().host, board.snapshot().pid) == ("web1", 7)
    assert "a source of the local status is broken" in caplog.text
