"""A performer that is made when it is first needed does what the real one does."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.agent.tasks.attempts import Attempt, AttemptResult, LatePerformer, Performer
from nodemanager.plan.tasks.record import StepRecord

ATTEMPT = Attempt("task/step/1", 5.0, StepRecord())


class Noting(Performer):
    """Notes what it is asked, and answers with it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []

    async def prepare(self, action: Any) -> bytes:
        self.asked.append(("prepare", action))
        return b"before"

    async def perform(self, action: Any, attempt: Attempt) -> AttemptResult:
        self.asked.append(("perform", action))
        return AttemptResult(succeeded=True, message=attempt.key)

    async def settle(self, action: Any, attempt: Attempt) -> AttemptResult:
        self.asked.append(("settle", action))
        return AttemptResult(succeeded=True, message=attempt.key)

    async def take_back(self, action: Any, attempt: Attempt) -> AttemptResult:
        self.asked.append(("take_back", action))
        return AttemptResult(succeeded=True, message=attempt.key)

    def clean(self) -> None:
        self.asked.append(("clean", None))


async def test_it_is_made_once_and_asked_for_everything() -> None:
    made: list[Noting] = []

    def make() -> Performer:
        made.append(Noting())
        return made[-1]

    late = LatePerformer(make)
    late.clean()
    assert made == [], "who was never made has nothing to forget"
    assert await late.prepare("a") == b"before"
    for ask in (late.perform, late.settle, late.take_back):
        assert (await ask("a", ATTEMPT)).message == ATTEMPT.key
    late.clean()
    assert [name for name, _ in made[0].asked] == ["prepare", "perform", "settle", "take_back", "clean"]
    assert len(made) == 1


async def test_one_that_cannot_be_made_is_tried_again() -> None:
    tries: list[int] = []

    def make() -> Performer:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no memory")
        return Noting()

    late = LatePerformer(make)
    with pytest.raises(OSError, match="no memory"):
        await late.prepare("a")
    assert await late.prepare("a") == b"before"
