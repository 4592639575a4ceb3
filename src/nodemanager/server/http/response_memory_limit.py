"""Limits the memory of all large responses that their clients have not read yet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from nodemanager.kube import errors

LIMIT = 64 * 2**20
PATIENCE = 5.0
"""Seconds during which no client is cut off: one on a slow line gets that long even when others wait."""


@dataclass(eq=False, slots=True)
class _Response:
    size: int
    since: float
    transport: asyncio.Transport | None


class ResponseMemoryLimit:
    """The large responses that are being sent, oldest first."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._answers: dict[_Response, None] = {}
        self._line = asyncio.Lock()
        self._left = asyncio.Event()

    @property
    def size(self) -> int:
        """How many bytes are being sent."""
        return sum(answer.size for answer in self._answers)

    @contextlib.contextmanager
    def holding(self, size: int, transport: asyncio.Transport | None) -> Iterator[None]:
        """Count a response while it is sent; raise TooManyRequests when there is no room for it."""
        if not self._has_room(size):
            details = errors.StatusDetails(retry_after_seconds=1)
            raise errors.TooManyRequests(
                "too many large answers wait for their clients, please try again later", details=details
            )
        with self._counted(size, transport):
            yield

    @contextlib.asynccontextmanager
    async def waiting(self, size: int, transport: asyncio.Transport | None) -> AsyncIterator[None]:
        """Count a part of a watch while it is sent; wait in line when there is no room for it."""
        async with self._line:
            while not self._has_room(size):
                self._left.clear()
                with contextlib.suppress(
                    TimeoutError
                ):  # time to look again which client has been reading for too long
                    await asyncio.wait_for(self._left.wait(), PATIENCE / 5)
        with self._counted(size, transport):
            yield

    @contextlib.contextmanager
    def _counted(self, size: int, transport: asyncio.Transport | None) -> Iterator[None]:
        answer = _Response(size, asyncio.get_running_loop().time(), transport)
        self._answers[answer] = None
        try:
            yield
        finally:
            self._answers.pop(answer, None)
            self._left.set()

    def _has_room(self, size: int) -> bool:
        """Tell whether there is room; if not, cut the connections of the slowest readers."""
        now = asyncio.get_running_loop().time()
        for answer in list(self._answers):
            if self.size + size <= self._limit:
                return True
            if now - answer.since >= PATIENCE:
                del self._answers[answer]
                if answer.transport is not None:
                    answer.transport.abort()
        return not self._answers or self.size + size <= self._limit
