"""Why a rollout waits or has ended so: one code for each reason, and what ends it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class RolloutReason(StrEnum):
    """A reason code, in `status.rollout.reason`."""

    ALL_AT_ONCE = "AllAtOnce"
    ROLLED_OUT = "RolledOut"
    NO_HOSTS = "NoHosts"
    NO_CHANGE = "NoChange"
    STARTED = "Started"
    NO_CANARY = "NoCanary"
    HOSTS_SILENT = "HostsSilent"
    HOSTS_PUT_OFF = "HostsPutOff"
    REVISION_TOO_LARGE = "RevisionTooLarge"
    DEFAULT_GONE = "DefaultGone"
    GROUP_MISMATCH = "GroupMismatch"
    GROUP_SETTLING = "GroupSettling"
    GROUP_TOO_LARGE = "GroupTooLarge"
    NOT_APPROVED = "NotApproved"
    AUDIT_BROKEN = "AuditBroken"
    WINDOW_CLOSED = "WindowClosed"
    WINDOW_NOT_FOUND = "WindowNotFound"
    WINDOW_INVALID = "WindowInvalid"
    GATE_FAILS = "GateFails"
    GATE_NOT_ASKED = "GateNotAsked"
    GATE_UNANSWERED = "GateUnanswered"
    GATE_FORBIDDEN = "GateForbidden"
    GATE_INVALID = "GateInvalid"
    BUDGET_SPENT = "BudgetSpent"
    HOSTS_UNPROVEN = "HostsUnproven"
    SOAKING = "Soaking"
    PAUSED = "Paused"
    STOPPED = "Stopped"
    HOSTS_RETURNING = "HostsReturning"
    HOSTS_NOT_RETURNED = "HostsNotReturned"
    REVERTED = "Reverted"
    HOSTS_FAILED = "HostsFailed"


REMEDIES: Final[dict[RolloutReason, str]] = {
    RolloutReason.AUDIT_BROKEN: (
        "See what `nodemanager audit verify` says. To go on without a log that can be relied on, start the"
        " operator with --audit-on-failure continue."
    ),
    RolloutReason.ALL_AT_ONCE: "Nothing to do: every host takes a change as it comes.",
    RolloutReason.ROLLED_OUT: "Nothing to do: all hosts of the set may have the newest revision.",
    RolloutReason.NO_HOSTS: "Nothing to do: the set is for no host that was there when the change came.",
    RolloutReason.NO_CHANGE: "Nothing to do: the set says what its hosts have.",
    RolloutReason.STARTED: "Nothing to do: the first stage begins in a moment.",
    RolloutReason.NO_CANARY: (
        "Correct or remove spec.rollout.canary, or label a host of the set: it chooses none of them."
    ),
    RolloutReason.HOSTS_SILENT: (
        "Find out why the hosts of the stage are silent, held or gone: there is nobody to prove the change."
    ),
    RolloutReason.HOSTS_PUT_OFF: (
        "Nothing to do: hosts of the stage wait for the window of the set, or for a lock of another host."
    ),
    RolloutReason.REVISION_TOO_LARGE: (
        "Make the set smaller: divide it into several, or take large contents from ConfigMaps (contentFrom)."
        " Until then it is not rolled out in stages, and cannot be undone."
    ),
    RolloutReason.DEFAULT_GONE: (
        "Say in spec.rollout how it goes on, strategy AllAtOnce for all hosts at once; or make the"
        " RolloutPolicy again. Another change of the set reaches all its hosts at once."
    ),
    RolloutReason.GROUP_MISMATCH: (
        "Have all ConfigSets of the group say the same in spec.rollout (but for paused and"
        " approval.requester) and in spec.enforcement, or give one that shall move alone another group."
    ),
    RolloutReason.GROUP_SETTLING: "Nothing to do: it begins when no set of the group has changed for 10s.",
    RolloutReason.GROUP_TOO_LARGE: (
        "Divide the ConfigSets among several groups: at most 32 move together. Until then their hosts keep"
        " what they have."
    ),
    RolloutReason.NOT_APPROVED: "Look at the change, then run `nodemanager rollout approve NAME`.",
    RolloutReason.WINDOW_CLOSED: "Nothing to do: it goes on when the window of spec.rollout.windowRef opens.",
    RolloutReason.WINDOW_NOT_FOUND: (
        "Create the MaintenanceWindow that spec.rollout.windowRef names, or correct the name."
    ),
    RolloutReason.WINDOW_INVALID: "Correct the MaintenanceWindow as the message says; unreadable is shut.",
    RolloutReason.GATE_FAILS: "See to it that the gate of spec.rollout.health holds, or remove it.",
    RolloutReason.GATE_NOT_ASKED: "Nothing to do: the operator asks the gates of spec.rollout.health.",
    RolloutReason.GATE_UNANSWERED: (
        "See to it that whoever the gate asks answers the operator, or remove the gate: no answer is no yes."
    ),
    RolloutReason.GATE_FORBIDDEN: "Let the operator read what the gate asks for, or remove the gate.",
    RolloutReason.GATE_INVALID: "Correct the expression or the address of the gate that the message names.",
    RolloutReason.BUDGET_SPENT: (
        "Nothing to do: it goes on when others are done with hosts of the set, or raise"
        " spec.rollout.maxUnavailable. A host that is stuck and silent counts for an hour."
    ),
    RolloutReason.HOSTS_UNPROVEN: (
        "Nothing to do; if it lasts, `nodemanager describe configset NAME` says which hosts are not done."
    ),
    RolloutReason.SOAKING: "Nothing to do: hosts have to stay healthy for as long as spec.rollout.soak says.",
    RolloutReason.PAUSED: (
        "Run `nodemanager rollout resume NAME`, or set spec.rollout.paused to false; where it follows the"
        " default of its namespace, spec.paused of that RolloutPolicy."
    ),
    RolloutReason.STOPPED: (
        "Look at the hosts or the gate that failed. Then change the set, or run `nodemanager rollout restart"
        " NAME`."
    ),
    RolloutReason.HOSTS_RETURNING: "Nothing to do: hosts that took the change return to what they had.",
    RolloutReason.HOSTS_NOT_RETURNED: (
        "Look at the hosts that the message names: they wait for the window of the set, cannot read the "
        "stable revision, or their pass breaks off. Hold or remove those that will not return."
    ),
    RolloutReason.REVERTED: (
        "Nothing to do: the set says again what is stable, and hosts that took the change return to it."
    ),
    RolloutReason.HOSTS_FAILED: (
        "Look at the hosts or the gate that failed. Then change the set, or run `nodemanager rollout restart"
        " NAME`."
    ),
}
