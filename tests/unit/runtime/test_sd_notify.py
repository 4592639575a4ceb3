"""Messages to the service manager, on a real datagram socket."""

from __future__ import annotations

import re
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.runtime.sd_notify import MAX_STATUS, Notifications


@pytest.fixture(params=["file", "abstract"])
def manager(request: pytest.FixtureRequest, short_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """The socket of a service manager, and what it puts into NOTIFY_SOCKET."""
    name = str(short_path / "notify") if request.param == "file" else f"@nm-{secrets.token_hex(6)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.bind(name.replace("@", "\0", 1) if name.startswith("@") else name)
        inbox.settimeout(50)
        yield name, inbox


def test_each_message_arrives_in_the_words_of_sd_notify(manager: tuple[str, socket.socket]) -> None:
    address, inbox = manager
    tell = Notifications.of({"NOTIFY_SOCKET": address}, 1)
    tell.ready()
    tell.alive()
    tell.stopping()
    tell.status("all\nis  well")
    assert [inbox.recv(4096) for _ in range(4)] == [
        b"READY=1", b"WATCHDOG=1", b"STOPPING=1", b"STATUS=all is well"
    ]  # fmt: skip


def test_a_reload_says_since_when(manager: tuple[str, socket.socket]) -> None:
    address, inbox = manager
    Notifications.of({"NOTIFY_SOCKET": address}, 1).reloading()
    first, second = inbox.recv(4096).decode().splitlines()
    assert first == "RELOADING=1"
    assert int(second.removeprefix("MONOTONIC_USEC=")) > 0


def test_a_status_is_one_line_of_bounded_length(manager: tuple[str, socket.socket]) -> None:
    address, inbox = manager
    Notifications.of({"NOTIFY_SOCKET": address}, 1).status("x" * 10_000 + "\nREADY=1")
    assert re.fullmatch(rb"STATUS=x+ \.\.\. x+ READY=1", said := inbox.recv(65536))
    assert len(said) == len("STATUS=") + MAX_STATUS


@pytest.mark.parametrize("address", ["", "relative", "/nonexistent/socket", "@nobody-listens-here"])
def test_nobody_to_tell_is_no_error(address: str) -> None:
    tell = Notifications.of({"NOTIFY_SOCKET": address}, 1)
    tell.ready()
    tell.alive()


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({"WATCHDOG_USEC": "2000000"}, 2.0),
        ({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "42"}, 2.0),
        ({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "43"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "we"}, None),
        ({}, None),
    ],
)
def test_a_watchdog_counts_if_it_is_meant_for_us(variables: dict[str, str], seconds: float | None) -> None:
    assert Notifications.of({"NOTIFY_SOCKET": "/run/x", **variables}, 42).watchdog == seconds


def test_without_a_socket_there_is_no_watchdog() -> None:
    assert Notifications.of({"WATCHDOG_USEC": "2000000"}, 42).watchdog is None
