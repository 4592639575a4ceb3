"""A session that ends leaves no connection behind, whatever its peer does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading

import aiohttp
import trustme

from support.connector import Connector

ANSWER = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"


async def test_a_peer_that_does_not_say_goodbye_is_not_waited_for() -> None:
    ca, over = trustme.CA(), threading.Event()
    theirs, ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    ca.issue_cert("127.0.0.1").configure_cert(theirs)
    ca.configure_trust(ours)

    def answer() -> None:
        with contextlib.closing(listener.accept()[0]) as raw, theirs.wrap_socket(raw, True) as wire:
            wire.recv(4096)
            wire.sendall(ANSWER)
            over.wait(50)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        peer = asyncio.create_task(asyncio.to_thread(answer))
        connector = Connector(ssl=ours)
        try:
            async with aiohttp.ClientSession(connector=connector) as http, http.get(url) as response:
                assert await response.content.readany() == b"a"
            assert [one.fileno() for one in connector.made] == [-1]
        finally:
            over.set()
            await peer
