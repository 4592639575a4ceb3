"""One try of one step, and what comes of it; whoever carries out an action speaks in these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from nodemanager.plan.tasks.record import StepRecord


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of one step."""

    key: str
    """What no other try of any task is called."""
    timeout: float
    known: StepRecord
    """What was written down when it began."""
    secrets: Mapping[str, bytes] = field(default_factory=dict)
    """Values of Secrets, by the name of the variable that they are for."""


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """How a try ended."""

    succeeded: bool
    message: str = ""
    exit_code: int | None = None
    changed: bool = False
    output: str = ""
    evidence: Mapping[str, str] = field(default_factory=dict)
    inverse: bytes = b""
    """What takes it back, if that was found out; JSON of a TaskAction."""


INTERRUPTED = AttemptResult(
    succeeded=False, message="interrupted: the agent or the host went down, and nobody saw how it ended"
)


class Performer(Protocol):
    """Carries out one kind of action."""

    async def perform(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Do it, to its end. Raises nothing but what means that we ourselves are to stop."""
        ...

    async def settle(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Find out how a try ended that was begun before this process; never begin it again."""
        ...
