"""What became of the steps of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import Blocked, HeldStep, Observed, ShutStep, Step, Waiting


class ResourceOutcome(StrEnum):
    """How it went with a resource."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    FAILED = "failed"
    BLOCKED = "blocked"
    """Not tried: something else is in the way."""
    WAITING = "waiting"
    """Not tried yet: what it needs is on its way."""
    OBSERVED = "observed"
    """Not tried: somebody else changed it, and its drift policy says to leave it alone."""
    HELD = "held"
    """Not tried: the host is held, so it waits for the end of that."""
    SHUT = "shut"
    """Not tried: the window of its ConfigSet is shut, so it waits for the next opening."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one step."""

    id: ResourceId
    sources: tuple[str, ...]
    outcome: ResourceOutcome
    message: str = ""
    """Of a failure: `cannot X: why` and what to do; of a change: what was wrong before."""
    seconds: float = 0.0
    done: str = ""
    """What was done, in a word, such as `written`; for events and the log."""
    operations: tuple[str, ...] = ()
    """What was done, in words of metrics: start, stop, restart, enable, disable, install, remove."""
    repairs: bool = False
    """The resource was not as declared: if it held before, that is drift."""
    lock: str = ""
    """The lock, shared between hosts, that it was done with, or is to be."""
    news: bool = False
    """Nobody changed anything here: something newer is offered, or a service manager was told something."""
    drifted: bool = False
    """It held before, as it is declared now: somebody else changed it."""
    found: str = ""
    """SHA-256 of the content that was found, of files that everybody may read."""
    wanted: str = ""
    """SHA-256 of the declared content, of files that everybody may read."""
    by: str = ""
    """Who changed it, of drifts, where the host can tell."""
    mark: str = field(default="", repr=False)
    """Tells one observed difference from another; may be made of secrets, so it is never published."""
    pruned: bool = False
    """Nobody declares it any more: it was, or is to be, put back to what was there before."""
    awaits: str = ""
    """What others are to bring before it can be tried, such as `Secret db`."""
    policy: str = ""
    """Of drifts that are not put back by themselves: what their drift policy is."""
    turns: tuple[str, ...] = ()
    """Of drifts that wait for a turn: ConfigSets; a turn for any one of them is enough."""

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
        """Whether it is not what it shall be, and somebody has to do something about it."""
        return self.bad and self.outcome is not ResourceOutcome.WAITING

    @property
    def said(self) -> str:
        """What is wrong; of what waits, only for what: nobody has to do anything about it yet."""
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
