"""The progress of a maintenance. Its size does not depend on the number of hosts.

The result of each host is in its NodeTask.
"""

from __future__ import annotations

from typing import Annotated, Final

from nodemanager.api.maintenance.notifications import EVENTS, MAX_TARGETS
from nodemanager.kube.conditions import Condition
from nodemanager.kube.hints import NAME_MAX, PRINTABLE, meta
from nodemanager.kube.objects import Struct

PHASES: Final = (
    "Pending",
    "WaitingForSlot",
    "WaitingForWindow",
    "WaitingForApproval",
    "Running",
    "Paused",
    "Stopped",
    "Succeeded",
    "Failed",
)
"""WaitingForSlot: nothing is due. Stopped: stopAfter was reached. Succeeded and Failed: all one-shots have
ended."""
OUTCOMES: Final = ("Succeeded", "Failed", "Stopped", "Replaced", "Aborted")
VALID: Final = "Valid"
"""Condition type: window, series and templates are there and can be read."""
PROGRESSING: Final = "Progressing"
"""Condition type: hosts are being worked on; if not, the reason is the code of what it waits for."""
COMPLETE: Final = "Complete"
"""Condition type: all one-shot operations have ended well. For `kubectl wait`."""
MAX_REASONS: Final = 40
MAX_ESCALATED: Final = 64
MAX_REFUSED: Final = 8
OWN_REQUEST: Final = "OwnRequest"
PLAN_CHANGED: Final = "PlanChanged"
MAX_NOTICES: Final = 20
MAX_NEXT: Final = 5


class WindowState(Struct):
    """Whether hosts may be begun with now."""

    open: Annotated[bool, meta("Whether the window is open.")] = False
    opens_at: Annotated[str | None, meta("When it opens next.", format="date-time")] = None
    closes_at: Annotated[str | None, meta("When it closes, if it is open.", format="date-time")] = None
    text: Annotated[str, meta("The same in words: open, or when it opens.", max_length=64)] = ""


class HostCounts(Struct, omit_defaults=False):
    """The hosts of the run, each counted once."""

    total: Annotated[int, meta("All of them.", format="int32")] = 0
    waiting: Annotated[int, meta("Not begun with.", format="int32")] = 0
    running: Annotated[int, meta("Being worked on.", format="int32")] = 0
    succeeded: Annotated[int, meta("Done with, and well.", format="int32")] = 0
    failed: Annotated[int, meta("Failed, undone or halted.", format="int32")] = 0
    skipped: Annotated[int, meta("Left out: gone, or given back by a drain.", format="int32")] = 0
    text: Annotated[str, meta("Done and all, such as 3/10.", max_length=32)] = ""


class OperationState(Struct):
    """When an operation was and is due."""

    name: Annotated[str, meta("Its name.", max_length=31, required=True)] = ""
    last_run: Annotated[str | None, meta("When its last run began.", format="date-time")] = None
    last_slot: Annotated[
        str | None, meta("The last slot of its schedule that was judged: run or skipped.", format="date-time")
    ] = None
    next_run: Annotated[str | None, meta("When it is due next.", format="date-time")] = None
    active: Annotated[bool, meta("Whether it is part of the run that is under way.")] = False
    done: Annotated[
        str, meta("Which one-shot has ended, by the hash of what it was; empty = none.", max_length=64)
    ] = ""
    skipped: Annotated[int, meta("How many slots were skipped, all together.", minimum=0)] = 0
    skipped_reason: Annotated[str, meta("Why the last of them was.", max_length=64)] = ""


class RunState(Struct):
    """The run that is under way."""

    id: Annotated[str, meta("Which one; label of its NodeTasks.", max_length=63)] = ""
    operations: Annotated[
        list[Annotated[str, meta("Name of an operation.", max_length=31)]],
        meta("What it consists of.", max_items=16),
    ] = []
    started_at: Annotated[str | None, meta("When it began.", format="date-time")] = None
    slots: Annotated[
        dict[str, Annotated[str, meta("The moment of a slot.", max_length=64)]],
        meta("Which slots of cron operations it is for, by operation.", max_properties=16),
    ] = {}
    digest: Annotated[
        str, meta("Hash of its steps; changed templates do not change them any more.", max_length=64)
    ] = ""
    replaced: Annotated[bool, meta("No further host is begun with: a newer slot takes over.")] = False
    stopped_at: Annotated[
        str | None, meta("When too many hosts had failed; nothing is begun from then on.", format="date-time")
    ] = None
    retried_at: Annotated[
        str | None,
        meta("When somebody last had it go on: what failed before does not count.", format="date-time"),
    ] = None
    failed: Annotated[int, meta("How many of its hosts have failed, as people were told.", minimum=0)] = 0


class EndedRun(Struct):
    """A run that has ended."""

    id: Annotated[str, meta("Which one.", max_length=63)] = ""
    operations: Annotated[
        list[Annotated[str, meta("Name of an operation.", max_length=31)]],
        meta("What it consisted of.", max_items=16),
    ] = []
    outcome: Annotated[str, meta("How it ended.", enum=OUTCOMES)] = ""
    started_at: Annotated[str | None, meta("When it began.", format="date-time")] = None
    ended_at: Annotated[str | None, meta("When it ended.", format="date-time")] = None
    hosts: Annotated[HostCounts | None, meta("Its hosts.")] = None


class WaitReason(Struct):
    """Why hosts wait: one entry for each reason, with the number of hosts that it is about."""

    reason: Annotated[str, meta("The reason code.", max_length=64)] = ""
    hosts: Annotated[int, meta("How many hosts.", format="int32")] = 0
    first: Annotated[
        list[Annotated[str, meta("Name of a host.", max_length=NAME_MAX)]],
        meta("Some of them, 5 at most.", max_items=5),
    ] = []
    object: Annotated[str, meta("What they wait for.", pattern=PRINTABLE, max_length=320)] = ""
    since: Annotated[str | None, meta("Since when.", format="date-time")] = None
    next_check: Annotated[str | None, meta("When this is looked at again.", format="date-time")] = None
    remedy: Annotated[str, meta("What ends it.", pattern=PRINTABLE, max_length=512)] = ""


class RefusedApproval(Struct):
    """An approval that does not count."""

    name: Annotated[str, meta("Name of the MaintenanceApproval.", max_length=NAME_MAX, required=True)] = ""
    approver: Annotated[str, meta("Who approved.", pattern=PRINTABLE, max_length=256)] = ""
    reason: Annotated[
        str,
        meta(
            "OwnRequest: it is of who asked for the plan, and somebody else has to approve."
            " PlanChanged: it is of another plan than the present one.",
            max_length=64,
        ),
    ] = ""


class PlanState(Struct):
    """What would be, or is being, done."""

    hash: Annotated[str, meta("Hash of the plan; an approval names it.", max_length=64)] = ""
    hosts: Annotated[int, meta("How many hosts it is about.", format="int32")] = 0
    disruption: Annotated[str, meta("What it does to a host: none, restart or reboot.", max_length=16)] = ""
    first: Annotated[
        list[Annotated[str, meta("Name of a host.", max_length=NAME_MAX)]],
        meta("The hosts that go first, 20 at most.", max_items=20),
    ] = []
    without_agent: Annotated[
        int,
        meta(
            "How many Kubernetes Nodes nodeSelector chooses that have no agent, and take no part.",
            format="int32",
        ),
    ] = 0
    first_without_agent: Annotated[
        list[Annotated[str, meta("Name of a Node.", max_length=NAME_MAX)]],
        meta("Some of them, 20 at most.", max_items=20),
    ] = []
    without_node: Annotated[
        int,
        meta("How many hosts nodeSelector leaves out because they are no Kubernetes Node.", format="int32"),
    ] = 0
    starts_at: Annotated[str | None, meta("When it is expected to begin.", format="date-time")] = None
    ends_at: Annotated[
        str | None, meta("When it is expected to end, by how long hosts took.", format="date-time")
    ] = None


class RealtimePlan(Struct):
    """What is enforced at all times while the window is open, where somebody has to say yes to that."""

    hash: Annotated[str, meta("Hash of it; an approval names it.", max_length=64)] = ""
    operations: Annotated[
        list[Annotated[str, meta("Name of an operation.", max_length=31)]],
        meta("The operations of type realtime that it is about.", max_items=16),
    ] = []


class EscalatedHosts(Struct):
    """Hosts on which something of an operation of type realtime was changed whose drift is escalate."""

    hosts: Annotated[int, meta("How many there are.", minimum=0)] = 0
    first: Annotated[
        list[Annotated[str, meta("Name of a host.", max_length=NAME_MAX)]],
        meta("The first of them, by name.", max_items=MAX_ESCALATED),
    ] = []


class Notice(Struct):
    """Something that people are told."""

    number: Annotated[
        int, meta("Counts up. With the uid of the maintenance it is the id by which doubles are known.")
    ] = 0
    event: Annotated[str, meta("What happened.", enum=EVENTS)] = ""
    run: Annotated[str, meta("In which run.", max_length=63)] = ""
    at: Annotated[str | None, meta("When it happened.", format="date-time")] = None
    message: Annotated[str, meta("What people read.", pattern=PRINTABLE, max_length=1024)] = ""
    to: Annotated[
        list[Annotated[str, meta("Name of a notification.", max_length=31)]],
        meta("Who wanted to be told.", max_items=MAX_TARGETS),
    ] = []
    hosts: Annotated[HostCounts | None, meta("The hosts of the run at that time.")] = None


class Delivery(Struct):
    """How far somebody has been told."""

    name: Annotated[str, meta("Of the notification.", max_length=31, required=True)] = ""
    number: Annotated[int, meta("The last notice that was delivered, or given up.")] = 0
    tries: Annotated[int, meta("How often the next one was tried in vain.", minimum=0)] = 0
    next_try: Annotated[str | None, meta("When it is tried again.", format="date-time")] = None
    failure: Annotated[
        str,
        meta("Why the last try failed; empty = it did not.", pattern=PRINTABLE, max_length=512),
    ] = ""
    dropped: Annotated[int, meta("How many notices were given up, all together.", minimum=0)] = 0


class NodeMaintenanceStatus(Struct):
    """How far it is; written by the operator."""

    observed_generation: Annotated[int, meta("The metadata.generation this status is about.", minimum=0)] = 0
    phase: Annotated[str, meta("Where it is.", enum=PHASES)] = ""
    window: Annotated[WindowState | None, meta("Whether hosts may be begun with now.")] = None
    hosts: Annotated[HostCounts | None, meta("Hosts of the run that is under way, or of the last one.")] = (
        None
    )
    next_run: Annotated[str | None, meta("When something is due next.", format="date-time")] = None
    operations: Annotated[
        list[OperationState],
        meta("When each operation was and is due.", list_map_keys=("name",), max_items=16),
    ] = []
    run: Annotated[RunState | None, meta("The run that is under way.")] = None
    next_hosts: Annotated[
        list[Annotated[str, meta("Name of a host.", max_length=NAME_MAX)]],
        meta("Hosts of the run that only wait for their turn and come next, 5 at most.", max_items=MAX_NEXT),
    ] = []
    plan: Annotated[PlanState | None, meta("What would be, or is being, done.")] = None
    realtime: Annotated[
        RealtimePlan | None, meta("What would be, or is being, enforced, if that needs an approval.")
    ] = None
    escalated: Annotated[
        EscalatedHosts | None, meta("Where somebody has to look at a drift; absent = nowhere.")
    ] = None
    waiting: Annotated[
        list[WaitReason], meta("Why hosts wait, counted by reason.", max_items=MAX_REASONS)
    ] = []
    refused_approvals: Annotated[
        list[RefusedApproval],
        meta(
            "Approvals of this maintenance that do not count, the newest, while somebody has to approve.",
            list_map_keys=("name",),
            max_items=MAX_REFUSED,
        ),
    ] = []
    history: Annotated[list[EndedRun], meta("Runs that have ended, the newest first.", max_items=20)] = []
    notices: Annotated[
        list[Notice], meta("What spec.notify is told, the last one last.", max_items=MAX_NOTICES)
    ] = []
    deliveries: Annotated[
        list[Delivery],
        meta("How far each of spec.notify has been told.", list_map_keys=("name",), max_items=64),
    ] = []
    conditions: Annotated[
        list[Condition],
        meta(
            "Valid, Progressing, Complete, and RealtimeKept where an operation is realtime.",
            list_map_keys=("type",),
            max_items=16,
        ),
    ] = []
