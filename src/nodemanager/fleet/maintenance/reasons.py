"""Why something waits or has ended so: one code for each reason, and what ends it.

The same code is in the status, in Events, in metrics, and in what `nodemanager why` says.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """A reason code."""

    # What a whole maintenance waits for
    NOTHING_DUE = "NothingDue"
    PAUSED = "Paused"
    SUSPENDED = "Suspended"
    WINDOW_CLOSED = "WindowClosed"
    WINDOW_NOT_FOUND = "WindowNotFound"
    WINDOW_INVALID = "WindowInvalid"
    SERIES_NOT_FOUND = "SeriesNotFound"
    NO_HOSTS = "NoHosts"
    TEMPLATE_NOT_FOUND = "TemplateNotFound"
    STEPS_INVALID = "StepsInvalid"
    NODES_UNKNOWN = "NodesUnknown"
    GATE_INVALID = "GateInvalid"
    REQUESTER_UNKNOWN = "RequesterUnknown"
    NODE_LABELS_UNKNOWN = "NodeLabelsUnknown"
    NOT_APPROVED = "NotApproved"
    AUDIT_BROKEN = "AuditBroken"
    STOPPED = "Stopped"
    REPLACED = "Replaced"
    ABORTED = "Aborted"
    DELETED = "Deleted"
    # What a host waits for before it is begun with
    HOST_SILENT = "HostSilent"
    HOST_WITHOUT_AGENT = "HostWithoutAgent"
    HOST_HELD = "HostHeld"
    HOST_BUSY = "HostBusy"
    HOST_UPGRADING = "HostUpgrading"
    HOST_CHANGING = "HostChanging"
    NODE_NOT_READY = "NodeNotReady"
    NODE_CORDONED = "NodeCordoned"
    GATE_BEFORE = "GateBefore"
    GATE_NOT_ASKED = "GateNotAsked"
    GATE_UNANSWERED = "GateUnanswered"
    GATE_FORBIDDEN = "GateForbidden"
    POD_PROTECTED = "PodProtected"
    CLAIM_UNREADABLE = "ClaimUnreadable"
    BACKING_OFF = "BackingOff"
    TIME_TOO_SHORT = "TimeTooShort"
    BUDGET_SPENT = "BudgetSpent"
    ZONE_BUDGET_SPENT = "ZoneBudgetSpent"
    ZONES_BUSY = "ZonesBusy"
    GROUP_BUDGET_SPENT = "GroupBudgetSpent"
    PARALLELISM = "Parallelism"
    CANARIES_FIRST = "CanariesFirst"
    EARLIER_GROUP = "EarlierGroup"
    GROUP_BUSY = "GroupBusy"
    CLOCK_DIFFERS = "ClockDiffers"
    CONFIG_SET_UNKNOWN = "ConfigSetUnknown"
    # Where a host is that was begun with
    CORDONING = "Cordoning"
    DRAINING = "Draining"
    TASK_NOT_TAKEN = "TaskNotTaken"
    WORKING = "Working"
    REBOOTING = "Rebooting"
    PROVING = "Proving"
    SOAKING = "Soaking"
    RETURNING = "Returning"
    UNDOING = "Undoing"
    REPAIRING = "Repairing"
    # How a visit has ended
    SUCCEEDED = "Succeeded"
    DRAIN_TIMED_OUT = "DrainTimedOut"
    TASK_FAILED = "TaskFailed"
    TASK_UNDONE = "TaskUndone"
    TASK_HALTED = "TaskHalted"
    TASK_EXPIRED = "TaskExpired"
    TASK_REFUSED = "TaskRefused"
    TASK_LOST = "TaskLost"
    NOT_PROVEN = "NotProven"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    HOST_LOST = "HostLost"
    HOST_GONE = "HostGone"
    HOST_LEFT_SERIES = "HostLeftSeries"
    WAITED_TOO_LONG = "WaitedTooLong"
    NOT_REPAIRED = "NotRepaired"
    TURN_NOT_USED = "TurnNotUsed"
    # Why a slot was skipped
    SLOT_OUTSIDE_WINDOW = "SlotOutsideWindow"
    SLOT_TOO_LATE = "SlotTooLate"
    SLOT_SUPERSEDED = "SlotSuperseded"
    SLOT_STILL_RUNNING = "SlotStillRunning"


REMEDIES: Final[dict[Reason, str]] = {
    Reason.NOTHING_DUE: "It begins at its next slot. Change runID to have a one-shot done again.",
    Reason.PAUSED: "Run `nodemanager maintenance resume NAME`, or set spec.paused to false.",
    Reason.SUSPENDED: "Set suspend of the operation to false.",
    Reason.WINDOW_CLOSED: "It opens by itself; `nodemanager describe` of the maintenance says when.",
    Reason.WINDOW_NOT_FOUND: "Create the MaintenanceWindow that spec.windowRef names, or correct the name.",
    Reason.WINDOW_INVALID: "Correct what the condition Valid names; unreadable is shut.",
    Reason.SERIES_NOT_FOUND: "Create the NodeSeries that spec.seriesRef names, or correct the name.",
    Reason.NO_HOSTS: "Correct the selector or the names of the series: it chooses no host.",
    Reason.TEMPLATE_NOT_FOUND: "Create the NodeOperationTemplate that it names, or correct templateRef.",
    Reason.STEPS_INVALID: "Correct the parameters or steps that the condition Valid names.",
    Reason.NODES_UNKNOWN: (
        "Let the operator cordon and drain Nodes: kubectl apply -f config/rbac/operator-disruption.yaml, or"
        " operator.disruption of the chart. Or set disruption.cordon to false, if no host is a Node."
    ),
    Reason.GATE_INVALID: "Correct the expression or the address that the condition Valid names.",
    Reason.REQUESTER_UNKNOWN: (
        "Write your user name (`kubectl auth whoami`) into spec.approval.requester: somebody else approves."
    ),
    Reason.NODE_LABELS_UNKNOWN: (
        "Let the operator read Nodes: kubectl apply -f config/rbac/operator-disruption.yaml, or"
        " operator.disruption of the chart. Or choose hosts by selector, by labels of ManagedNodes."
    ),
    Reason.NOT_APPROVED: "Look at the plan, then run `nodemanager maintenance approve NAME`.",
    Reason.AUDIT_BROKEN: (
        "See what `nodemanager audit verify` says. To go on without a log that can be relied on, start the"
        " operator with --audit-on-failure continue."
    ),
    Reason.STOPPED: "Look at the hosts that failed, then run `nodemanager maintenance retry NAME`.",
    Reason.REPLACED: "Nothing to do: a newer slot begins when the hosts in work are done.",
    Reason.ABORTED: "Nothing to do: somebody ended the run. Change runID, or wait for the next slot.",
    Reason.DELETED: "Nothing to do: hosts in work are finished and given back, then the object goes.",
    Reason.HOST_SILENT: "Find out why its agent is silent; it is begun with when it is heard again.",
    Reason.HOST_WITHOUT_AGENT: "Install the agent, or exclude the host from the series.",
    Reason.HOST_HELD: (
        "Wait for the end of the hold, or run `nodemanager unhold HOST`. A task that was begun pauses until"
        " then, between two steps; its deadline holds."
    ),
    Reason.HOST_BUSY: "Nothing to do: another maintenance is at work there, one at a time.",
    Reason.HOST_UPGRADING: "Nothing to do: the host is upgrading by itself (spec.upgrade).",
    Reason.HOST_CHANGING: (
        "Nothing to do: it takes a change of a ConfigSet by stages, or returns from one, and is not healthy"
        " with it yet; status.rollout of that set says how far it is."
    ),
    Reason.NODE_NOT_READY: "Repair the Kubernetes Node; it is begun with when it is Ready.",
    Reason.NODE_CORDONED: "Uncordon the Node, if whoever cordoned it is done: `kubectl uncordon HOST`.",
    Reason.GATE_BEFORE: "See to it that the gate of health.before holds, or remove it.",
    Reason.GATE_NOT_ASKED: "Nothing to do: its turn has come, and the operator asks its gates.",
    Reason.GATE_UNANSWERED: (
        "See to it that the operator reaches what the gate of health.before asks, and gets an answer in 5 s."
    ),
    Reason.GATE_FORBIDDEN: (
        "Let the operator read the object that the gate asks for: give its account nodemanager-operator a"
        " Role with get on that kind."
    ),
    Reason.POD_PROTECTED: (
        "Nothing to do: a pod there asks for time. Take the annotation off the pod, or set"
        " disruption.drain.protectedPods to evict."
    ),
    Reason.CLAIM_UNREADABLE: (
        "Look whether anything is at work there, then remove the annotation maintenance.nodemanager/visit."
    ),
    Reason.BACKING_OFF: "Nothing to do: it failed and is tried again after a while, as backoffLimit allows.",
    Reason.TIME_TOO_SHORT: "Nothing to do, or open the window for longer: it would close too early.",
    Reason.BUDGET_SPENT: "Nothing to do, unless hosts are unavailable for another reason: repair those.",
    Reason.ZONE_BUDGET_SPENT: "Nothing to do, unless hosts of its zone are unavailable for another reason.",
    Reason.ZONES_BUSY: "Nothing to do: hosts of other zones are in work, and maxZones allows no more zones.",
    Reason.GROUP_BUDGET_SPENT: "Nothing to do, unless hosts of its group are unavailable for another reason.",
    Reason.PARALLELISM: "Nothing to do: as many hosts as spec.parallelism allows are in work.",
    Reason.CANARIES_FIRST: "Nothing to do, unless a canary cannot be begun with: see why it waits.",
    Reason.EARLIER_GROUP: "Nothing to do: hosts of an earlier group are not done.",
    Reason.GROUP_BUSY: "Nothing to do: another host of the group of its spec.upgrade has its turn.",
    Reason.CLOCK_DIFFERS: "Set the clock of the host: its slot has come by that, and not by the operator's.",
    Reason.CONFIG_SET_UNKNOWN: (
        "Nothing to do: the host asks for a ConfigSet that is gone, or is for it no longer, and will notice."
    ),
    Reason.CORDONING: "Nothing to do; if it lasts, see whether the operator may patch Nodes.",
    Reason.DRAINING: "See which pods are left, and which PodDisruptionBudget keeps them.",
    Reason.TASK_NOT_TAKEN: "See whether the agent of the host runs and may read NodeTasks.",
    Reason.WORKING: "Nothing to do: `nodemanager describe nodetask TASK` says at which step it is.",
    Reason.REBOOTING: "Nothing to do; if it lasts, look at the console of the host.",
    Reason.PROVING: "See which gate of health.after does not hold yet.",
    Reason.SOAKING: "Nothing to do: it has to stay healthy for as long as spec.soak says.",
    Reason.RETURNING: "Nothing to do; if it lasts, see whether the operator may patch Nodes.",
    Reason.UNDOING: "Nothing to do: what was done is being taken back.",
    Reason.REPAIRING: "Nothing to do: it has its turn, and puts back what drifted.",
    Reason.SUCCEEDED: "Nothing to do.",
    Reason.DRAIN_TIMED_OUT: "See which PodDisruptionBudget kept its pods; add replicas, or time.",
    Reason.TASK_FAILED: (
        "Read what the step said that failed: `nodemanager describe nodetask TASK`; when that is repaired,"
        " run `nodemanager maintenance retry NAME`."
    ),
    Reason.TASK_UNDONE: (
        "What was done has been taken back. Read what the step said that failed: `nodemanager describe"
        " nodetask TASK`; when that is repaired, run `nodemanager maintenance retry NAME`."
    ),
    Reason.TASK_HALTED: (
        "Repair the host by hand: taking back failed, too; `nodemanager describe nodetask TASK` says at which"
        " step. Then run `nodemanager maintenance retry NAME`."
    ),
    Reason.TASK_EXPIRED: "Give it more time: activeDeadlineSeconds, or a window that is open for longer.",
    Reason.TASK_REFUSED: "Read why its agent refused it: `nodemanager describe nodetask TASK`.",
    Reason.TASK_LOST: "Somebody deleted the NodeTask while it ran: look at the host, then retry.",
    Reason.NOT_PROVEN: (
        "What was done has been taken back, as far as its steps know how. Repair what did not hold"
        " afterwards, then run `nodemanager maintenance retry NAME`."
    ),
    Reason.DEADLINE_EXCEEDED: "Find out what took so long, or raise activeDeadlineSeconds.",
    Reason.HOST_LOST: "The host fell silent while it was worked on: look at its console, then retry.",
    Reason.HOST_GONE: "Nothing to do: its ManagedNode was deleted or made anew.",
    Reason.HOST_LEFT_SERIES: "Nothing to do: the series does not choose it any more.",
    Reason.WAITED_TOO_LONG: "See why it could not be begun with; the next run tries it again.",
    Reason.NOT_REPAIRED: (
        "Read what keeps it from being put back: `nodemanager describe mn HOST`; it gets another turn after"
        " ten minutes."
    ),
    Reason.TURN_NOT_USED: "See whether the agent of the host runs, and how old it is; it is tried again.",
    Reason.SLOT_OUTSIDE_WINDOW: "Have schedule and window agree: slots count while the window is open.",
    Reason.SLOT_TOO_LATE: "Nothing to do, or raise startingDeadlineSeconds.",
    Reason.SLOT_SUPERSEDED: "Nothing to do: of several missed slots the last one is made up for.",
    Reason.SLOT_STILL_RUNNING: "Have it run less often, or set concurrencyPolicy to Allow or Replace.",
}

OWN_FAULT: Final = frozenset((
    Reason.HOST_SILENT, Reason.HOST_WITHOUT_AGENT, Reason.HOST_HELD, Reason.HOST_BUSY, Reason.HOST_UPGRADING,
    Reason.HOST_CHANGING,
    Reason.NODE_NOT_READY, Reason.NODE_CORDONED, Reason.GATE_BEFORE, Reason.GATE_UNANSWERED,
    Reason.GATE_FORBIDDEN, Reason.CLAIM_UNREADABLE, Reason.POD_PROTECTED,
))  # fmt: skip
"""Waits that concern only one host: the others, and later groups, do not wait for it."""
_TASK: Final = re.compile(r"nodetask/([^\s:]+)")


def remedy(reason: Reason, maintenance: str = "", host: str = "", about: str = "") -> str:
    """Return what ends a wait, as it can be typed: with the names that are known."""
    task = _TASK.search(about)
    names = {"NAME": maintenance, "HOST": host, "TASK": task[1] if task is not None else ""}
    said = re.sub(r"\b(?:NAME|HOST|TASK)\b", lambda found: names[found[0]] or found[0], REMEDIES[reason])
    whole = "describe` of the maintenance"
    return said.replace(whole, f"describe nmaint {maintenance}`") if maintenance else said
