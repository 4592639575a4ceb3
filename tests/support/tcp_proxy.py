"""A TCP proxy that can be cut: the flaky link between a client and a real server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class TcpProxy:
    """Forwards bytes until told not to."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.open = True
        self.port = 0

    def cut(self) -> None:
        """Reset every connection and refuse new ones."""
        self.open = False
        for writer in list(self._writers):
            writer.transport.abort()

    def mend(self) -> None:
        """Let connections through again."""
        self.open = True

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self.open:
                far_reader, far_writer = await asyncio.open_connection(*self._target)
                self._writers |= {writer, far_writer}
                await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
                self._writers -= {writer, far_writer}
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def close(self) -> None:
        """End everything."""
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


@contextlib.asynccontextmanager
async def proxy(host: str, port: int) -> AsyncIterator[TcpProxy]:
    """Listen on loopback and forward to `host:port`."""
    link = TcpProxy(host, port)
    listener = await asyncio.start_server(link.connected, "127.0.0.1", 0)
    link.port = listener.sockets[0].getsockname()[1]
    try:
        yield link
    finally:
        listener.close()
        await link.close()
