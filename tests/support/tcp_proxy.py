"""A TCP proxy that can be cut: the flaky link between a client and a real server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from support.cutting import cut


class TcpProxy:
    """Forwards bytes until told not to."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._links: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self.open = True
        self.port = 0

    def cut(self) -> None:
        """Reset every connection and refuse new ones."""
        self.open = False
        for writer, task in self._links.items():
            cut(writer)
            task.cancel()

    def mend(self) -> None:
        """Let connections through again."""
        self.open = True

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection; not as a coroutine, as nobody would know of one that has not begun."""
        if self.open:
            self._links[writer] = asyncio.create_task(self._forward(reader, writer))
            self._links[writer].add_done_callback(lambda _: self._links.pop(writer))
        else:
            cut(writer)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            try:
                await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
            finally:
                cut(far_writer)
        except OSError:
            pass
        finally:
            cut(writer)

    async def close(self) -> None:
        """End everything."""
        self.cut()
        await asyncio.gather(*self._links.values(), return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        pass


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
