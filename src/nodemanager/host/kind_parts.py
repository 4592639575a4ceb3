"""What the half of a kind that touches the host is made of; `host/stages.py` has the table of all."""

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
    """Have nobody read anything again."""


class Twin(NamedTuple):
    """A declared resource that another one, which goes, turns out to be."""

    id: ResourceId
    same_place: bool = True
    """Whether it is only another name of it; otherwise two names lead to one thing."""


async def _no_twins(
    _going: Sequence[ResourceId], _declared: Sequence[ResourceId], _work: StageWork
) -> Mapping[ResourceId, Twin]:
    return {}


async def _as_planned(steps: Sequence[Step], _work: StageWork) -> list[Step]:
    return list(steps)


@dataclass(frozen=True, slots=True)
class StageWork:
    """One stage of a pass or of a repair: what it is about, and what it is done with."""

    given: PlanInput
    observer: Observer
    tools: Tools
    bucket: Bucket | None = None
    """Where former contents of files go."""
    broken_off: frozenset[str] = frozenset()
    """ConfigSets that were aborted before this stage."""
    aborted: set[str] = field(default_factory=set)
    """ConfigSets that this stage aborts are added here."""
    replaced: dict[str, str] = field(default_factory=dict)
    """SHA-256 of what files contained before, by path; the first one counts."""
    unread: set[str] = field(default_factory=set)
    """Users whose service manager has yet to notice what repairs enabled; empty is the host's own."""
    refresh: Callable[[], Awaitable[None]] = _nothing
    """Has these service managers notice it."""


@dataclass(frozen=True, slots=True)
class HostPart(Generic[N, F]):
    """How one kind is observed and changed."""

    observe: Callable[[N, StageWork], Awaitable[F]]
    """Returns the facts that the plan of the kind is made from; what cannot be observed is a fact, too."""
    apply: Callable[[Sequence[Step], StageWork], Awaitable[list[Result]]]
    """Carries out the steps of that plan and returns what became of each; one failure stops no other."""
    rehearse: Callable[[Sequence[Step], StageWork], Awaitable[list[Step]]] = _as_planned
    """In a preview: returns the steps, with those held back that its tool would refuse; changes nothing."""
    complete: Callable[[Sequence[Step], StageWork], Awaitable[list[Step]]] = _as_planned
    """Returns the steps with all that has to be known of what they replace; without that, held back."""
    twins: Callable[
        [Sequence[ResourceId], Sequence[ResourceId], StageWork], Awaitable[Mapping[ResourceId, Twin]]
    ] = _no_twins
    """Returns which resources that go are declared under another name: through a link, or as an alias."""


HostParts = Mapping[str, HostPart[Any, Any]]
