"""A GET to an address that is no API: bounded in time and size, and with nothing of ours in it."""

from __future__ import annotations

import pytest

from nodemanager.client.http import elsewhere
from nodemanager.kube import errors
from support.scripted_server import Exchange, serve


async def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    async def never(asked: Exchange) -> None:
        raise AssertionError(asked.target)

    async with serve(never) as other:

        async def send_away(asked: Exchange) -> None:
            await asked.answer(302, b"", location=f"{other.url}/secret")

        async with serve(send_away) as server:
            found = await elsewhere.fetch(f"{server.url}/a?b=c%20d", timeout=60)
        assert found.status == 302
        (asked,) = server.requests
        assert asked.target == "/a?b=c%20d"
        assert set(asked.headers) == {"host", "user-agent", "accept"}
        assert other.connections == 0


async def test_an_answer_without_end_is_cut_off() -> None:
    async def pour(asked: Exchange) -> None:
        await asked.stream()
        while True:
            await asked.chunk(b"x" * 65536)

    async with serve(pour) as server:
        with pytest.raises(errors.ProtocolError, match="larger than 1048576 bytes"):
            await elsewhere.fetch(server.url, timeout=60)
        assert (await elsewhere.fetch(server.url, timeout=60, wants_body=False)).status == 200


async def test_an_answer_that_does_not_come_is_given_up() -> None:
    async def hang(asked: Exchange) -> None:
        await asked.hang()

    async with serve(hang) as server:
        with pytest.raises(errors.TimedOut, match=r"no answer within 0\.1 s"):
            await elsewhere.fetch(server.url, timeout=0.1)
        await server.close()
    with pytest.raises(errors.Unreachable, match="Connection refused"):
        await elsewhere.fetch(server.url, timeout=60)
