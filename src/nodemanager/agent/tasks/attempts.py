"""One try of one step, and what comes of it; whoever carries out an action speaks in these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from nodemanager.api.maintenance.task_previews import TaskPreview
from nodemanager.host.base import HostError
from nodemanager.plan.tasks.record import StepRecord

REBOOT_NEEDED: Final = "reboot needed"
"""Evidence of a step: why a later one, which reboots where that is needed, has something to do."""
Exclusive = Callable[[], AbstractAsyncContextManager[None]]
"""Keeps passes and repairs from the host while inside."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of one step."""

    key: str
    """What no other try of any task is called."""
    timeout: float
    known: StepRecord
    """What was written down when it began."""
    barred: str = ""
    """Why nothing may begin any more, also not what turns out never to have begun."""
    reboot: str = ""
    """Why the host has to reboot, as an earlier step of the same boot says."""


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """How a try ended."""

    succeeded: bool
    message: str = ""
    exit_code: int | None = None
    changed: bool = False
    output: str = ""
    evidence: Mapping[str, str] = field(default_factory=dict)
    preview: TaskPreview | None = None
    inverse: bytes = b""
    """How it was before, if more is known of that than when it began."""


INTERRUPTED: Final = AttemptResult(
    succeeded=False, message="interrupted: the agent or the host went down, and nobody saw how it ended"
)


class Performer:
    """Carries out one kind of action. Nothing here raises but what means that we ourselves are to stop."""

    UNBROKEN: ClassVar[bool] = False
    """Whether a try is waited for, and its success written down, also when we are to stop meanwhile."""
    DROPPED: ClassVar[bool] = False
    """Whether a try is broken off when its task is deleted: it changes nothing, and nobody waits for it."""

    async def prepare(self, action: Any) -> bytes:
        """Return how it is now, to be written down before anything changes; empty = nothing to take back.

        Raises HostError or RunError where that cannot be told: then the step fails before it began.
        """
        del action
        return b""

    async def perform(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Do it, to its end."""
        raise NotImplementedError

    async def settle(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Find out how a try ended that was begun before this process; what leads to a state may be done."""
        return INTERRUPTED if attempt.barred else await self.perform(action, attempt)

    def clean(self) -> None:
        """Forget everything: no task is under way."""

    async def take_back(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Bring back how it was before; done again as often as somebody goes down meanwhile."""
        del attempt
        return AttemptResult(succeeded=False, message=f"cannot take back {type(action).__name__}")


class LatePerformer(Performer):
    """Stands for one that is made when it is first needed: an agent at rest has no use for its modules."""

    def __init__(self, make: Callable[[], Performer]) -> None:
        self._make = make
        self._made: Performer | None = None

    def _performer(self) -> Performer:
        if self._made is None:
            self._made = self._make()
        return self._made

    async def prepare(self, action: Any) -> bytes:
        """Have it return how it is now."""
        return await self._performer().prepare(action)

    async def perform(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Have it done."""
        return await self._performer().perform(action, attempt)

    async def settle(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Have it find out how a try ended."""
        return await self._performer().settle(action, attempt)

    def clean(self) -> None:
        """Have everything forgotten; one that was never made knows nothing."""
        if self._made is not None:
            self._made.clean()

    async def take_back(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Have it taken back."""
        return await self._performer().take_back(action, attempt)


class _Unknown(Performer):
    """Carries out nothing: a newer agent took the task, and an older one finds it on disk."""

    _TOLD: Final = AttemptResult(
        succeeded=False,
        message="a newer agent took this task, and this one does not know the kind of the step; upgrade it",
    )

    async def perform(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Fail."""
        del action, attempt
        return self._TOLD

    async def settle(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Fail: nobody here can tell how it ended."""
        return await self.perform(action, attempt)

    async def take_back(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Fail: somebody has to look."""
        return await self.perform(action, attempt)


class _NotAtEdge(Performer):
    """Carries out nothing: a plain host has neither what edge sites are made of nor the code for it."""

    async def prepare(self, action: Any) -> bytes:
        """Refuse before anything begins."""
        raise _not_at_edge(action)

    async def perform(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Refuse also what was begun by an agent with --edge, before it was restarted without."""
        del attempt
        raise _not_at_edge(action)

    async def take_back(self, action: Any, attempt: Attempt) -> AttemptResult:
        """Refuse: somebody has to look."""
        del attempt
        raise _not_at_edge(action)


def _not_at_edge(action: Any) -> HostError:
    what = type(action).__name__.removesuffix("Action")
    return HostError(f"cannot do {what}: the agent of this host runs without --edge")


UNKNOWN: Final = _Unknown()
NOT_AT_EDGE: Final = _NotAtEdge()


def for_all(actions: Sequence[str], performers: Mapping[str, Performer]) -> dict[str, Performer]:
    """Return one performer for each of these actions; one too few is an error, and so is one too many."""
    differing = sorted(set(actions) ^ performers.keys())
    if differing:
        raise LookupError(
            f"cannot carry out all steps of tasks: {', '.join(differing)} is an action without a performer,"
            " or a performer of no action; compare ACTIONS in api/maintenance with agent/tasks/tasking.py"
        )
    return {name: performers[name] for name in actions}
