"""A board of a made-up host on a real socket, for those who ask it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from nodemanager.agent.report.local_status import SOCKET, Board, Snapshot
from nodemanager.agent.report.status_socket import StatusSocket
from nodemanager.runtime.tasks import end


class Teller:
    """A source that says what a test wants."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.board = Board(lambda _before: self.snapshot)

    def say(self, **fields: object) -> None:
        """Change what is said, and tell those who watch."""
        self.snapshot = msgspec.structs.replace(self.snapshot, **fields)
        self.board.changed()


@asynccontextmanager
async def serving(board: Board, root: Path) -> AsyncIterator[Path]:
    """Serve a board below a root, from when it answers to the end."""
    path = root / SOCKET.lstrip("/")
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    before = path.stat().st_ino if path.exists() else 0
    running = asyncio.create_task(StatusSocket(board, str(root), pause=0.0).run())
    try:
        async with asyncio.timeout(50):
            while not path.exists() or path.stat().st_ino == before:
                assert not running.done()
                await asyncio.sleep(0.01)
        yield path
    finally:
        await end([running])
