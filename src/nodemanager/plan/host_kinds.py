"""The interface of a kind of host resource, for merging, planning, repairs and reports.

`plan/stages.py` has the table of all kinds. A kind describes only the half that needs no host; how it is
observed, changed and watched is registered in `host`, and how it is shown in `cli`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, Literal, TypeVar

from nodemanager.plan.desired import Contents, Desired, Item
from nodemanager.plan.facts import Pending
from nodemanager.plan.layout import Layout
from nodemanager.plan.ownership import Owned, PutBack, State
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.set_doubts import Prune
from nodemanager.plan.steps import Step

D = TypeVar("D")
"""How a resource is declared."""
N = TypeVar("N")
"""What has to be observed."""
F = TypeVar("F")
"""What was observed."""


@dataclass(frozen=True, slots=True)
class PlanInput:
    """What one stage is planned from, besides what is observed for it."""

    desired: Desired
    contents: Contents = field(default_factory=dict)
    pending: Mapping[ResourceId, Pending] = field(default_factory=dict)
    """Restarts and runs that are owed since an earlier stage or pass."""
    changing: Mapping[ResourceId, tuple[str, ...]] = field(default_factory=dict)
    """For previews: what earlier stages would restart or run, with the paths that cause it."""
    layout: Layout | None = None
    """For repairs: the layout of everything that is declared, as `desired` is only a part of it."""
    repair: bool = False
    """Only what was touched is looked at, not the whole host."""


@dataclass(frozen=True, slots=True)
class Metric:
    """The counter of what was changed, or could not be."""

    name: str
    help: str
    by: Literal["configset", "operation", ""] = ""
    """What it is counted by, besides host and result: each ConfigSet, or each operation of a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindDeclaration(Generic[D]):
    """How ConfigSets declare a kind, and how what several of them say becomes one declaration."""

    field: str
    """The list in the spec of a ConfigSet."""
    identify: Callable[[str, D], ResourceId]
    """Names the resource that a declaration of a ConfigSet of this name is about."""
    plain: Callable[[D], D] = lambda declaration: declaration
    """Returns a declaration in one spelling: what means the same must be equal, or it is a conflict."""
    unite: Callable[[D, Sequence[D]], D] = lambda chosen, _all: chosen
    """Adds to the declaration that won, in its plain spelling, what all sets contribute to a resource."""
    subscriptions: Callable[[D], Sequence[str]] | None = None
    """Returns the paths whose change causes a restart or a run; None = this kind has neither."""


@dataclass(frozen=True, slots=True)
class DriftRule(Generic[D]):
    """How a foreign change is told from a new declaration; declarations have a field `drift`."""

    content: Callable[[D, Contents], str] = lambda _declaration, _contents: ""
    """Returns the digest of what belongs to the declaration and is not written in it."""
    owning_resource: Callable[[ResourceId], ResourceId] = lambda resource: resource
    """Returns the declared resource that an undeclared one belongs to: of a purged entry, its directory."""


def _not_covered(_one: ResourceId, _desired: Desired) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Owning(Generic[D, N, F]):
    """How a resource that no set declares any more is restored to its state before any did."""

    seen: Callable[[Item[D], Step, F], tuple[State, State] | None]
    """Returns how it is now and how a step of its plan leaves it; None = nothing is done about it."""
    needs: Callable[[Mapping[ResourceId, Owned]], N]
    """Says what has to be observed to put these back."""
    put_back: Callable[[Mapping[ResourceId, Owned], F], Mapping[ResourceId, PutBack]]
    """Decides from what was observed how each of these is declared to be as it was."""
    covered: Callable[[ResourceId, Desired], bool] = _not_covered
    """Tells whether something that is declared decides about it, although it does not name it."""
    rank: Prune = Prune.RESOURCES
    """What a set has to allow for that."""


class Brought(Enum):
    """What a step makes be there, that steps of later kinds may lack."""

    NOTHING = "nothing"
    ITSELF = "itself"
    """The file that its resource is named after."""
    MORE = "more"
    """Files and services that exist only after the step, as those of a package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming(Generic[D]):
    """Which files on a host a declaration is about without naming them: it is looked at when they change."""

    name: Callable[[D], str]
    """Returns what such files name it by."""
    of_path: Callable[[str], str]
    """Returns the name that a path has in it; empty = it is none of these files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKind(Generic[D, N, F]):
    """One kind of host resource: a row of the table in `plan/stages.py`."""

    name: str
    """The name at the beginning of its ids: `file` in file:/etc/motd."""
    words: tuple[str, str]
    """Singular and plural for people."""
    declaring: KindDeclaration[D]
    needs: Callable[[PlanInput], N]
    """Says what of the host has to be observed; no more than that is looked at."""
    plan: Callable[[PlanInput, F], list[Step]]
    """Decides from what was observed what has to be done, in order."""
    count: Metric
    drift: DriftRule[D] | None
    """None = it has no lasting state: it never drifts, and has no drift policy."""
    owning: Owning[D, N, F] | None
    """None = it has no lasting state: there is nothing to put back."""
    public: bool
    """Whether reasons and details of its steps contain only what users of the host may know, so that every
    reader of previews may see them. For other kinds, `agent/tasks/disclosing.py` filters them."""
    brings: Callable[[Step], Brought]
    """Tells what will be there once a step is done; a preview counts with it."""
    naming: Naming[D] | None
    """None = no file belongs to it but those that it names."""
    begins: Callable[[D], bool] = lambda _declaration: True
    """Tells whether a declaration begins something that runs with the files that are there. What comes after
    files is then held back while one of its ConfigSet cannot be made."""
    again: Callable[[Sequence[Step], PlanInput], bool] = lambda _steps, _input: False
    """Tells whether some of these steps changed what was observed for others: then it is done once more."""
    background: bool = False
    """Its steps may take minutes: they are done one after the other for each ConfigSet, beside the passes."""
    slow: bool = False
    """Its tool takes its time, so in a repair it comes after the kinds that are put back at once."""


def brings_nothing(_step: Step) -> Brought:
    """Say that no later kind lacks anything that a kind like this makes."""
    return Brought.NOTHING


AnyKind = HostKind[Any, Any, Any]
AnyOwning = Owning[Any, Any, Any]
