"""Virtual machines of a site: what is seen of them, and whether they are well. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from nodemanager.api.edge.edgecluster import HEALTHY, NOT_OBSERVED, UNHEALTHY, UNKNOWN
from nodemanager.fleet.edge.decoding import printable
from nodemanager.kube import wording

RUNNING: Final = "Running"
BEGINNING: Final = ("Pending", "Scheduling", "Scheduled")
ENDED: Final = ("Succeeded",)


@dataclass(frozen=True, slots=True)
class RunningMachine:
    """A virtual machine that runs or should run. A field that is None is not known."""

    name: str
    phase: str = ""
    node: str = ""
    ready: bool | None = None
    paused: bool = False
    migratable: bool | None = None
    migrating: bool = False


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Everything that one look saw."""

    machines: tuple[RunningMachine, ...] = ()
    migrations: tuple[str, ...] = ()
    """Migrations that have not ended."""
    sees_machines: bool = True


@dataclass(frozen=True, slots=True)
class MachineVerdict:
    """The state of the virtual machines (one of PartHealth), and why."""

    state: str
    text: str


def judge(seen: MachineFacts, silent: Collection[str] = ()) -> MachineVerdict:
    """Judge the virtual machines of a site; `silent` are nodes without heartbeats.

    Machines on silent nodes are shown as they were: the program that would report a change is silent, too.
    """
    if not seen.sees_machines:
        return MachineVerdict(NOT_OBSERVED, "there is nothing that runs virtual machines")
    faults = [text for one in seen.machines for text in _faults(one)]
    unknown = [text for one in seen.machines for text in _unknown(one, silent)]
    state = UNHEALTHY if faults else UNKNOWN if unknown else HEALTHY
    return MachineVerdict(state, "; ".join([*faults, *unknown]) or _summary(seen))


def _faults(one: RunningMachine) -> Iterator[str]:
    name = printable(one.name)
    if one.phase not in (RUNNING, "", UNKNOWN, *BEGINNING, *ENDED):
        yield f"{name} is {printable(one.phase, 63)}"
    elif one.phase == RUNNING and one.paused:
        yield f"{name} is paused"
    elif one.phase == RUNNING and one.ready is False:
        yield f"{name} is not ready"


def _unknown(one: RunningMachine, silent: Collection[str]) -> Iterator[str]:
    name = printable(one.name)
    if one.phase in ("", UNKNOWN):
        yield f"{name}: nobody knows how it is"
    elif one.node in silent and one.phase in (RUNNING, *BEGINNING):
        yield f"{name}: its node {printable(one.node)} gives no signs of life"
    elif one.phase == RUNNING and one.ready is None:
        yield f"{name}: nothing says whether it is ready"


def _summary(seen: MachineFacts) -> str:
    running = [one for one in seen.machines if one.phase == RUNNING]
    movable = sum(one.migratable is True for one in running)
    moving = f", {wording.plural(len(seen.migrations), 'migration')} under way" if seen.migrations else ""
    return f"{len(running)} run, {movable} of them can be migrated live{moving}"
