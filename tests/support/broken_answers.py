"""Answers of an API that go wrong: never come, are refused, or are cut off."""

from __future__ import annotations

from collections.abc import Mapping

from nodemanager.client.http.transport import Request, Response, Transport
from nodemanager.kube import errors
from support.model_api import status_body


class MadeUp:
    """An answer that somebody makes up."""

    headers: Mapping[str, str] = {"content-type": "application/json"}

    def __init__(self, status: int, body: bytes) -> None:
        self.status, self._body = status, body

    async def read_chunk(self, idle_timeout: float | None = None) -> bytes:
        del idle_timeout
        found, self._body = self._body, b""
        return found

    async def close(self) -> None:
        """Nothing is open."""


async def unreachable(_inner: Transport, request: Request) -> Response:
    """Nobody answers."""
    raise errors.Unreachable(f"cannot reach the API for {request.target}")


async def failing(_inner: Transport, _request: Request) -> Response:
    """The API fails."""
    return MadeUp(500, status_body(500, "InternalError", "etcdserver: request timed out"))


async def refusing(_inner: Transport, _request: Request) -> Response:
    """RBAC says no."""
    return MadeUp(403, status_body(403, "Forbidden", "it is forbidden"))


async def cut_off(inner: Transport, request: Request) -> Response:
    """The connection ends in the middle of the body."""
    answer = await inner.send(request)
    try:
        body = b""
        while chunk := await answer.read_chunk():
            body += chunk
    finally:
        await answer.close()
    return MadeUp(200, body[: len(body) // 2])


UNANSWERABLE = (unreachable, failing, cut_off)
