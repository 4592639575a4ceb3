"""Bounds what all large answers together keep in memory while their clients take them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from nodemanager.api import errors

LIMIT = 64 * 2**20
PATIENCE = 5.0
"""Seconds for which nobody is cut off: a client on a slow line gets that much even when others wait."""


@dataclass(eq=False, slots=True)
class _Answer:
    size: int
    since: float
    transport: asyncio.Transport | None


class Unsent:
    """The large answers that are on their way, oldest first."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._answers: dict[_Answer, None] = {}

    @property
    def size(self) -> int:
        """How many bytes are on their way."""
        return sum(answer.size for answer in self._answers)

    @contextlib.contextmanager
    def holding(self, size: int, transport: asyncio.Transport | None) -> Iterator[None]:
        """Count an answer as long as it is sent; raise TooManyRequests when there is no room for it."""
        now = asyncio.get_running_loop().time()
        self._make_room(size, now)
        answer = _Answer(size, now, transport)
        self._answers[answer] = None
        try:
            yield
        finally:
            self._answers.pop(answer, None)

    def _make_room(self, size: int, now: float) -> None:
        """Cut off whoever has been at it for longest; they can ask again."""
        for answer in list(self._answers):
            if not self._answers or self.size + size <= self._limit:
                return
            if now - answer.since >= PATIENCE:
                del self._answers[answer]
                if answer.transport is not None:
                    answer.transport.abort()
        if self._answers and self.size + size > self._limit:
            details = errors.StatusDetails(retry_after_seconds=1)
            raise errors.TooManyRequests(
                "too many large answers wait for their clients, please try again later", details=details
            )
