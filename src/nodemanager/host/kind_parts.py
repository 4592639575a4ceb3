"""The interface of the half of a kind that touches the host; `host/stages.py` has the table of all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple

from nodemanager.host.apply import Tools
from nodemanager.host.files.bucket import Bucket
from nodemanager.host.observe import Observer
from nodemanager.host.results import Result
from nodemanager.plan.host_kinds import F, N, PlanInput
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import Step


async def _nothing() -> None:
    """Refresh no service manager."""


class Twin(NamedTuple):
    """A declared resource that is the same as one that has to be removed."""

    id: ResourceId
    same_place: bool = True
    """Whether only the name differs; otherwise two names lead to one thing."""


async def _no_twins(
    _going: Sequence[ResourceId], _declared: Sequence[ResourceId], _work: StageWork
) -> Mapping[ResourceId, Twin]:
    return {}


async def _as_planned(steps: Sequence[Step], _work: StageWork) -> list[Step]:
    return list(steps)


@dataclass(frozen=True, slots=True)
class StageWork:
    """One stage of a pass or of a repair, and its tools."""

    given: PlanInput
    observer: Observer
    tools: Tools
    bucket: Bucket | None = None
    """Where former contents of files are stored."""
    broken_off: frozenset[str] = frozenset()
    """ConfigSets that were aborted before this stage."""
    aborted: set[str] = field(default_factory=set)
    """Receives the ConfigSets that this stage aborts."""
    replaced: dict[str, str] = field(default_factory=dict)
    """SHA-256 of what files contained before, by path; the first one counts."""
    unread: set[str] = field(default_factory=set)
    """Users whose service manager has not read enabled units yet; empty name = that of the host."""
    refresh: Callable[[], Awaitable[None]] = _nothing
    """Lets these service managers read them."""


@dataclass(frozen=True, slots=True)
class HostPart(Generic[N, F]):
    """How one kind is observed and changed."""

    observe: Callable[[N, StageWork], Awaitable[F]]
    """Returns the facts for the plan of the kind; a failed observation is a fact, too."""
    apply: Callable[[Sequence[Step], StageWork], Awaitable[list[Result]]]
    """Carries out the steps of that plan and returns a result for each; a failure does not stop the others.
    """
    rehearse: Callable[[Sequence[Step], StageWork], Awaitable[list[Step]]] = _as_planned
    """For previews: returns the steps, with those held back that the tool would refuse; changes nothing."""
    complete: Callable[[Sequence[Step], StageWork], Awaitable[list[Step]]] = _as_planned
    """Returns the steps with all facts about what they replace; steps without these facts are held back."""
    twins: Callable[
        [Sequence[ResourceId], Sequence[ResourceId], StageWork], Awaitable[Mapping[ResourceId, Twin]]
    ] = _no_twins
    """Returns which resources to remove are declared under another name: through a link, or as an alias."""


HostParts = Mapping[str, HostPart[Any, Any]]
