"""What is wrong with an address, or with a path, is an error that names it; nothing holds a host for long."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from nodemanager.agent.tasks.http_status import http_status
from nodemanager.host.base import HostError
from nodemanager.host.self_update import sources


@pytest.mark.parametrize(
    "source",
    [
        "http://[::1", "https://[host]/program", "http://a..b/program", f"http://{'a' * 70}.org/program",
        "http://127.0.0.1/pr\u00f6gram", "http://127.0.0.1:\u0661/program", "/tmp/program\0",
    ],
)  # fmt: skip
def test_what_is_no_address_and_no_path_is_said(source: str) -> None:
    with pytest.raises(HostError) as caught:
        list(sources.pieces(source, 10))
    assert str(caught.value).startswith("cannot ")
    assert source in str(caught.value)


class Leads(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", "http://[elsewhere/program")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Leads) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/program"
        server.shutdown()


def test_a_server_that_leads_to_no_address_is_said(address: str) -> None:
    with pytest.raises(HostError, match=rf"cannot fetch {address}: Invalid IPv6 URL"):
        list(sources.pieces(address, 10))


DROPS = {
    "http": b"HTTP/1.1 200 OK\r\nServer: ",
    "https": b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc",  # a greeting of 16 KiB begins
}
"""What a server says before the drops, of which each is soon enough."""


@pytest.fixture
def dropping() -> Iterator[Callable[[str], str]]:
    over = threading.Event()

    def serve(listening: socket.socket, first: bytes) -> None:
        with listening:
            connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):  # it is cut
            connection.sendall(first)
            for _ in range(200):  # whoever waits for its end has it after 20 s
                if over.wait(0.1):
                    return
                connection.sendall(b"x")

    def begin(scheme: str) -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=serve, args=(listening, DROPS[scheme]), daemon=True).start()
        return f"{scheme}://127.0.0.1:{listening.getsockname()[1]}/"

    yield begin
    over.set()


@pytest.mark.parametrize("scheme", sorted(DROPS))
def test_a_server_that_begins_drop_by_drop_is_not_waited_for(
    dropping: Callable[[str], str], scheme: str
) -> None:
    address = dropping(scheme)
    with pytest.raises(HostError, match=rf"^cannot fetch {address}: it takes longer than 1 s$"):
        list(sources.pieces(address, 1))


def test_a_probe_does_not_wait_for_one_either(dropping: Callable[[str], str]) -> None:
    address = dropping("http")
    with pytest.raises(OSError, match=rf"^cannot ask {address}: it takes longer than 1 s$"):
        http_status(address, 1)
