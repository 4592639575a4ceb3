"""What became of the steps of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import ChangeService, InstallPackage, Observed, RestartService, Step


class Outcome(StrEnum):
    """How it went with a resource."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    FAILED = "failed"
    BLOCKED = "blocked"
    """Not tried: something else is in the way."""
    OBSERVED = "observed"
    """Not tried: somebody else changed it, and its drift policy says to leave it alone."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one step."""

    id: ResourceId
    sources: tuple[str, ...]
    outcome: Outcome
    message: str = ""
    """Of a failure: `cannot X: why` and what to do; of a change: what was wrong before."""
    seconds: float = 0.0
    deed: str = ""
    """The kind of step, such as WriteFile; for events and metrics."""
    operations: tuple[str, ...] = ()
    """What was done to a service: start, stop, restart, enable, disable."""
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

    @property
    def bad(self) -> bool:
        """Whether it is not what it shall be, although it was to be made so."""
        return self.outcome in (Outcome.FAILED, Outcome.BLOCKED)


def result(step: Step, outcome: Outcome, message: str = "", seconds: float = 0.0) -> Result:
    """Return what became of a step; a change is explained by the step's own reason."""
    step = step.would if isinstance(step, Observed) else step
    said = message or (step.reason if outcome is not Outcome.UNCHANGED else "")
    said = said.encode(errors="surrogateescape").decode(errors="backslashreplace")  # names of files
    news = (isinstance(step, InstallPackage) and step.newer) or _is_told_only(step)
    return Result(step.id, step.sources, outcome, said, seconds, type(step).__name__, _operations(step), news)


def _is_told_only(step: Step) -> bool:
    """Whether a service is left as it is: its manager only reads files again, which may be anybody's."""
    if not isinstance(step, ChangeService):
        return False
    return step.enable is None and step.run is None and step.arguments is None


def _operations(step: Step) -> tuple[str, ...]:
    if isinstance(step, RestartService):
        return ("restart",)
    if not isinstance(step, ChangeService):
        return ()
    words = ((step.enable, "enable", "disable"), (step.run, "start", "stop"))
    return tuple(yes if wanted else no for wanted, yes, no in words if wanted is not None)
