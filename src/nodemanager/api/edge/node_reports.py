"""What the agent of a node tells of it, in short, as far as it is known to be so now."""

from __future__ import annotations

from typing import Annotated, Final

from nodemanager.api.common.edge_state import MAX_LINK_NAME, MAX_WORD, BondChange
from nodemanager.kube.hints import ASCII, NAME_MAX, PRINTABLE, meta
from nodemanager.kube.objects import Struct

FRESH: Final = "Fresh"
UNPROVEN: Final = "Unproven"
STALE: Final = "Stale"
REPORTS: Final = (FRESH, UNPROVEN, STALE)


NODE_ANSWERS: Final = (FRESH, "Missing", "Unreadable", "Refused", "Unanswered")
MAX_POOLS: Final = 16
MAX_TAINTS: Final = 16
MAX_TAINT: Final = 400


class NodePool(Struct):
    """A pool of the storage on a node, as the storage tells it."""

    name: Annotated[str, meta("Its name.", required=True, pattern=PRINTABLE, max_length=256)] = ""
    free_ki_bytes: Annotated[
        int | None, meta("KiB that are free; absent: not known. Written once a minute.")
    ] = None
    total_ki_bytes: Annotated[int | None, meta("KiB that it has; absent: not known.")] = None
    fault: Annotated[str, meta("What is wrong with it.", pattern=PRINTABLE, max_length=256)] = ""


class ToldNode(Struct):
    """The Node of Kubernetes of the same name. All but how the look went is empty unless that is Fresh."""

    state: Annotated[str, meta("How the look at it went.", required=True, enum=NODE_ANSWERS)] = ""
    unschedulable: Annotated[bool, meta("Whether it is cordoned.")] = False
    taints: Annotated[
        list[Annotated[str, meta("As key=value:effect.", pattern=PRINTABLE, max_length=MAX_TAINT)]],
        meta("What keeps pods away that do not tolerate it.", max_items=MAX_TAINTS),
    ] = []


class NodeWork(Struct):
    """The task that a node is at, or that comes next."""

    name: Annotated[str, meta("Name of the NodeTask.", required=True, max_length=NAME_MAX)] = ""
    phase: Annotated[
        str,
        meta("Where it is; empty: nobody has taken it; Unknown: its host is not known to live.",
             pattern=ASCII, max_length=MAX_WORD),
    ] = ""  # fmt: skip
    step: Annotated[str, meta("The step that it is at.", pattern=PRINTABLE, max_length=63)] = ""


class ReportedBond(Struct):
    """The bond of the profile, as the kernel of the node has it."""

    name: Annotated[str, meta("Its name.", required=True, pattern=ASCII, max_length=MAX_LINK_NAME)] = ""
    mode: Annotated[str, meta("Its mode.", pattern=ASCII, max_length=MAX_WORD)] = ""
    active: Annotated[
        str, meta("The card that sends, in active-backup.", pattern=ASCII, max_length=MAX_LINK_NAME)
    ] = ""
    cards: Annotated[int, meta("How many cards it has.", minimum=0)] = 0
    up: Annotated[int, meta("How many of these are up.", minimum=0)] = 0


class ReportedDrbd(Struct):
    """DRBD of the node, in numbers."""

    resources: Annotated[int, meta("How many resources it has.", minimum=0)] = 0
    well: Annotated[int, meta("How many of these the node knows to be well.", minimum=0)] = 0
    syncing: Annotated[int, meta("How many are being synced.", minimum=0)] = 0
    done: Annotated[
        int | None, meta("Percent that are done of the one that has most left.", minimum=0, maximum=100)
    ] = None
    out_of_sync: Annotated[
        int | None, meta("KiB that are known to differ; absent: not known.", minimum=0)
    ] = None


class NodeReport(Struct):
    """What an agent with --edge tells of its node. All but how fresh it is, is empty unless it is Fresh."""

    state: Annotated[
        str,
        meta("Fresh: its agent lives, and this is how the node is. Stale: its agent is silent. Unproven: it"
             " is not known to live, or has told nothing since it was silent.", required=True, enum=REPORTS),
    ] = ""  # fmt: skip
    changed_at: Annotated[
        str | None, meta("When the operator last saw it tell something else.", format="date-time")
    ] = None
    digest: Annotated[str, meta("What tells one report from another.", max_length=64)] = ""
    bond: Annotated[ReportedBond | None, meta("Its bond; absent: it has none of that name.")] = None
    links: Annotated[int, meta("How many network cards it has.", minimum=0)] = 0
    links_up: Annotated[int, meta("How many of these have a carrier.", minimum=0)] = 0
    drbd: Annotated[ReportedDrbd | None, meta("DRBD; absent: it is not loaded, or could not be read.")] = None
    boot: Annotated[
        str, meta("What it has booted, where it has several images.", pattern=ASCII, max_length=MAX_WORD)
    ] = ""
    change: Annotated[BondChange | None, meta("The change of its bond that tasks made last.")] = None
