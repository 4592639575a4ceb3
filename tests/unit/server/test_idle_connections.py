"""Connections that stay open without asking for anything."""

from __future__ import annotations

from nodemanager.server.http.idle_connections import IdleConnections


class Transport:
    def __init__(self) -> None:
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


class Connection:
    """What the idle sees of a connection of aiohttp."""

    def __init__(self, request: object | None = None) -> None:
        self._current_request = request
        self.transport = Transport()
        self.closed = False

    def force_close(self) -> None:
        self.closed = True


def test_who_asks_for_nothing_is_ended_and_who_works_is_not() -> None:
    idle = IdleConnections(limit=100, idle_seconds=10)
    slow, working = Connection(), Connection(request=object())
    assert idle.close_idle([slow, working], 0) == 0
    assert idle.close_idle([slow, working], 9) == 0
    assert idle.close_idle([slow, working], 11) == 1
    assert slow.closed
    assert slow.transport.aborted
    assert not working.closed


def test_a_request_in_between_begins_the_wait_anew() -> None:
    idle = IdleConnections(limit=100, idle_seconds=10)
    kept = Connection()
    idle.close_idle([kept], 0)
    kept._current_request = object()
    idle.close_idle([kept], 8)
    kept._current_request = None
    assert idle.close_idle([kept], 12) == 0
    assert idle.close_idle([kept], 23) == 1


def test_of_too_many_the_longest_idle_go_first() -> None:
    idle = IdleConnections(limit=2, idle_seconds=1000)
    first, second, third = Connection(), Connection(), Connection()
    idle.close_idle([first], 0)
    idle.close_idle([first, second], 1)
    assert idle.close_idle([first, second, third], 2) == 1
    assert (first.closed, second.closed, third.closed) == (True, False, False)


def test_the_attribute_it_relies_on_is_there() -> None:
    from aiohttp.web_protocol import RequestHandler

    assert "_current_request" in RequestHandler.__slots__
