"""A process that sends ManagedNodes as kube-apiserver does, so that its CPU time is not the client's.

    python -m bench.server FOLDER

FOLDER has ca.pem and serving.pem. It listens on two loopback ports, TLS (with client certificate and
bearer token) and plain, prints both as one line of JSON, and ends when its stdin does.

What is imitated is what a client pays for: HTTP chunks as Go's buffer of 2048 bytes in front of the
chunk writer cuts them, and TLS records of 4096 bytes, the size of the buffer behind it.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import ssl
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from bench import nodes, script

CHUNK_BUFFER = 2048
RECORD = 4096
TOKEN = "benchmark-token"  # secret to nobody: it opens a loopback port for some seconds
_HEAD = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\n%s\r\n\r\n"


class Chunks:
    """Cuts a stream into HTTP chunks as Go does: small writes are gathered, large ones go as they are."""

    def __init__(self) -> None:
        self._held = b""

    def write(self, data: bytes) -> bytes:
        """Return the chunks that are complete."""
        out = []
        while len(self._held) + len(data) > CHUNK_BUFFER:
            if not self._held:
                out.append(_chunk(data))
                return b"".join(out)
            room = CHUNK_BUFFER - len(self._held)
            out.append(_chunk(self._held + data[:room]))
            self._held, data = b"", data[room:]
        self._held += data
        return b"".join(out)

    def flush(self) -> bytes:
        """Return what is held back as a chunk."""
        held, self._held = self._held, b""
        return _chunk(held) if held else b""


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Server:
    """Answers lists and watches; every connection on its own."""

    def __init__(self) -> None:
        self._go = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until the client goes away."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._answer(head, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        encrypted = writer.get_extra_info("ssl_object") is not None
        if encrypted and f"authorization: bearer {TOKEN}".encode() not in head.lower():
            _send(writer, b"401 Unauthorized", b"{}")
            return
        url = urlsplit(head.split(b" ", 2)[1].decode())
        query = dict(parse_qsl(url.query))
        wanted = script.parse(query.get("labelSelector", ""))
        if url.path == "/go":
            self._go.set()
            _send(writer, b"200 OK", b"{}")
        elif query.get("watch", "").lower() not in ("1", "true"):
            _send(writer, b"200 OK", _page(wanted, query))
        elif wanted.paged and "sendInitialEvents" in query:
            _send(writer, b"422 Unprocessable Entity", b'{"kind":"Status","code":422,"reason":"Invalid"}')
        else:
            await self._watch(writer, wanted, initial="sendInitialEvents" in query)

    async def _watch(self, writer: asyncio.StreamWriter, wanted: script.Script, *, initial: bool) -> None:
        """Send everything, then leave the stream open until the client ends it."""
        writer.write(_HEAD % (b"200 OK", b"Transfer-Encoding: chunked"))
        if initial:
            await _stream(writer, nodes.initial_events(wanted.nodes))
        if wanted.gated:
            _ = _changes(wanted.nodes, wanted.events)  # made before anybody waits for it
            await self._go.wait()
            self._go.clear()
        lines = _changes(wanted.nodes, wanted.events)
        if not wanted.pace:
            await _stream(writer, lines)
            return
        for line in lines:
            await _stream(writer, [line])
            await asyncio.sleep(wanted.pace / 1000)


@functools.lru_cache(maxsize=4)
def _changes(count: int, events: int) -> list[bytes]:
    return list(nodes.changes(count, events)) if events else []


async def _stream(writer: asyncio.StreamWriter, lines: Iterable[bytes]) -> None:
    for record in _records(lines):
        if writer.is_closing():
            raise ConnectionError("the client is gone")
        writer.write(record)
        await writer.drain()


def _records(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks of these lines in pieces that become one TLS record each."""
    chunks, ready = Chunks(), bytearray()
    for line in lines:
        ready += chunks.write(line)
        while len(ready) >= RECORD:
            yield bytes(ready[:RECORD])
            del ready[:RECORD]
    if rest := bytes(ready) + chunks.flush():
        yield rest


def _page(wanted: script.Script, query: Mapping[str, str]) -> bytes:
    items = _items(wanted.nodes)
    start = int(query.get("continue", 0))
    end = min(start + int(query.get("limit", 0) or len(items)), len(items))
    metadata = {"resourceVersion": str(nodes.resource_version(wanted.nodes, 1))}
    if end < len(items):
        metadata["continue"] = str(end)
    head = {"apiVersion": "common.nodemanager/v1", "kind": "ManagedNodeList", "metadata": metadata}
    return json.dumps(head)[:-1].encode() + b',"items":[' + b",".join(items[start:end]) + b"]}"


@functools.lru_cache(maxsize=4)
def _items(count: int) -> list[bytes]:
    return list(nodes.listed(count))


def _send(writer: asyncio.StreamWriter, status: bytes, body: bytes) -> None:
    writer.write(_HEAD % (status, b"Content-Length: %d" % len(body)) + body)


async def main(folder: Path) -> None:
    """Serve until stdin ends."""
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # clients that leave in mid-stream are the rule
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "serving.pem")
    context.load_verify_locations(folder / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["http/1.1"])
    server = Server()
    listeners = {
        "https": await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context),
        "http": await asyncio.start_server(server.serve, "127.0.0.1", 0),
    }
    ports = {scheme: each.sockets[0].getsockname()[1] for scheme, each in listeners.items()}
    print(json.dumps(ports), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
