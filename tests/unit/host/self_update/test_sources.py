"""What is wrong with an address, or with a path, is an error of the host that names it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

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
