"""One try of one step, and its result, in the terms that all performers share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from nodemanager.api.maintenance.task_previews import TaskPreview
from nodemanager.host.base import HostError
from nodemanager.plan.tasks.record import StepRecord

REBOOT_NEEDED: Final = "reboot needed"
"""Evidence of a step: the reason for a later step that reboots only if needed."""
Exclusive = Callable[[], AbstractAsyncContextManager[None]]
"""Keeps passes and repairs away from the host while it is entered."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of one step."""

    key: str
    """A key that no other try of any task has."""
    timeout: float
    known: StepRecord
    """The record from the beginning of the try."""
    barred: str = ""
    """Why no work may begin any more, even if it turns out that it never began."""
    reboot: str = ""
    """Why the host has to reboot, according to an earlier step of the same boot."""


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
    """The former state, if more is known of it than at the beginning."""


INTERRUPTED: Final = AttemptResult(
    succeeded=False, message="interrupted: the agent or the host went down, and nobody saw how it ended"
)


class Performer:
    """Carries out one kind of action. It raises errors only to say that the agent itself has to stop."""

    UNBROKEN: ClassVar[bool] = False
    """Whether a try is finished, and its success recorded, even if the agent has to stop meanwhile."""
    DROPPED: ClassVar[bool] = False
    """Whether a try is interrupted when its task is deleted, because it changes nothing."""

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
    """Stands for a performer that is made when first needed: an idle agent does not need its modules."""

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
    """Fails: a newer agent took the task, and this older one found it on disk."""

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
    """Refuses: a plain host has neither the parts of edge sites nor the code for them."""

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
