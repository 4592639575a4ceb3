"""The results of the steps of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import Blocked, HeldStep, Observed, ShutStep, Step, Waiting


class ResourceOutcome(StrEnum):
    """What happened to a resource."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    FAILED = "failed"
    BLOCKED = "blocked"
    """Not tried: another resource is in the way."""
    WAITING = "waiting"
    """Not tried yet: something that it needs is still to come."""
    OBSERVED = "observed"
    """Not tried: it was changed by another program, and its drift policy leaves that alone."""
    HELD = "held"
    """Not tried: it waits for the end of a hold."""
    SHUT = "shut"
    """Not tried: the window of its ConfigSet is shut, so it waits for the next opening."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one step."""

    id: ResourceId
    sources: tuple[str, ...]
    outcome: ResourceOutcome
    message: str = ""
    """For a failure: `cannot X: why` and what to do; for a change: what was wrong before."""
    seconds: float = 0.0
    done: str = ""
    """What was done in one word, such as `written`; for Events and the log."""
    operations: tuple[str, ...] = ()
    """What was done, in the terms of metrics: start, stop, restart, enable, disable, install, remove."""
    repairs: bool = False
    """Whether the resource was not as declared: if it held before, that is drift."""
    lock: str = ""
    """The lock shared between hosts that the step needs."""
    news: bool = False
    """Whether the host itself did not change: a newer version is offered, or a service manager was refreshed.
    """
    drifted: bool = False
    """Whether it held before, as it is declared now, so that another program changed it."""
    found: str = ""
    """SHA-256 of the found content, for files that everybody may read."""
    wanted: str = ""
    """SHA-256 of the declared content, for files that everybody may read."""
    by: str = ""
    """For drifts: the program that changed it, if the host can tell."""
    mark: str = field(default="", repr=False)
    """Tells observed differences apart; it may be made of secrets, so it is never published."""
    pruned: bool = False
    """Whether no set declares it any more, so that it was, or will be, restored to its former state."""
    awaits: str = ""
    """The missing object of others that it needs, such as `Secret db`."""
    policy: str = ""
    """For drifts that are not repaired automatically: their drift policy."""
    turns: tuple[str, ...] = ()
    """For drifts that wait for a turn: ConfigSets, of which any one with a turn is enough."""

    @property
    def bad(self) -> bool:
        """Whether it is not what it shall be, although it was to be made so."""
        return self.outcome in (ResourceOutcome.FAILED, ResourceOutcome.BLOCKED, ResourceOutcome.WAITING)

    @property
    def put_off(self) -> bool:
        """Whether it is not what it shall be, and is not to be made so now."""
        return self.outcome in (ResourceOutcome.HELD, ResourceOutcome.SHUT)

    @property
    def failed(self) -> bool:
        """Whether it is not as it should be, and somebody has to act."""
        return self.bad and self.outcome is not ResourceOutcome.WAITING

    @property
    def said(self) -> str:
        """What is wrong; for a wait, only what it waits for, because nobody has to act yet."""
        return f"waits for {self.awaits}" if self.awaits and not self.failed else self.message


def idle_outcome(step: Step) -> ResourceOutcome:
    """Return how it goes with a step that does nothing."""
    if not isinstance(step, Blocked):
        return ResourceOutcome.UNCHANGED
    return ResourceOutcome.WAITING if isinstance(step, Waiting) else ResourceOutcome.BLOCKED


def left_alone(step: Observed) -> ResourceOutcome:
    """Return how it went with what was only looked at."""
    if isinstance(step, HeldStep):
        return ResourceOutcome.HELD
    return ResourceOutcome.SHUT if isinstance(step, ShutStep) else ResourceOutcome.OBSERVED


def result(step: Step, outcome: ResourceOutcome, message: str = "", seconds: float = 0.0) -> Result:
    """Return what became of a step; a change is explained by the step's own reason."""
    step = step.would if isinstance(step, Observed) else step
    said = message or (step.reason if outcome is not ResourceOutcome.UNCHANGED else "")
    said = said.encode(errors="surrogateescape").decode(errors="backslashreplace")  # names of files
    return Result(
        step.id, step.sources, outcome, said, seconds, step.words.done, step.operations, step.REPAIRS,
        step.lock, step.news, awaits=_awaits(step) if outcome is ResourceOutcome.WAITING else "",
    )  # fmt: skip


def _awaits(step: Step) -> str:
    return step.awaits if isinstance(step, Waiting) else ""
