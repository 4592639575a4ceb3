"""The conditions of a ManagedNode and their reasons, beside `Ready` and what Kubernetes itself calls so."""

from __future__ import annotations

from typing import Final

CONFLICTED: Final = "Conflicted"
"""Condition type: several ConfigSets of equal priority declare one resource differently.

ConfigSets have it, too.
"""

RESOURCE_CONFLICT: Final = "ResourceConflict"
"""Reason of Conflicted=True; the message lists the resources and the sets."""

NO_CONFLICT: Final = "NoConflict"
"""Reason of Conflicted=False."""

DRIFTED: Final = "Drifted"
"""Condition type: the host differs, right now, from what its ConfigSets declare."""

APPLIED: Final = "Applied"
"""Reason of Ready=True: everything declared for the host holds."""

APPLY_FAILED: Final = "ApplyFailed"
"""Reason of Ready=False: at least one resource could not be brought about; the message names it."""

PROGRESSING: Final = "Progressing"
"""Condition type: the host is being changed right now, and the message says what is being done. Told of what
takes longer than about two seconds; when it is False, its reason is that of Ready."""

APPLYING: Final = "Applying"
"""Reason of Progressing=True, and of Ready=False as long as nothing has failed: the rest is to come."""

WAITING: Final = "Waiting"
"""Reason of Ready=False: what a resource needs is on its way, such as a Secret that the operator has yet to
let the host read; what has not come after a minute is ApplyFailed."""

REVISION_MISSING: Final = "RevisionMissing"
"""Reason of Ready=False: the host cannot read the revision of a ConfigSet that is for it, and has no other
one of that set. Where it has one, `waiting` of the set begins with this word."""

REVISION_UNDECIDED: Final = "RevisionUndecided"
"""Reason of Ready=False: a ConfigSet is rolled out in stages, the host has nothing of it, and no operator has
said yet what of it is for whom; or nobody can tell whether it is, by the default of its namespace. Where the
host has something of it, `waiting` of the set begins with this word."""

VALIDATION_FAILED: Final = "ValidationFailed"
"""Reason of Ready=False: `validate` refused the new content of a file, and the old one is in place."""

AGENT_SILENT: Final = "AgentSilent"
"""Reason of Ready=Unknown: the heartbeat Lease ran out, so nobody knows how the host is."""

ALIVE: Final = "Alive"
"""Condition type, written by the operator: the heartbeat Lease of the host is renewed in time."""

LEASE_RENEWED: Final = "LeaseRenewed"
"""Reason of Alive=True."""

LEASE_EXPIRED: Final = "LeaseExpired"
"""Reason of Alive=False: the operator has seen no renewal for as long as the Lease lasts."""

NO_LEASE: Final = "NoLease"
"""Reason of Alive=Unknown: there is no Lease to judge by."""

NO_DRIFT: Final = "NoDrift"
"""Reason of Drifted=False: the host is as declared."""

NOT_REPAIRED: Final = "NotRepaired"
"""Reason of Drifted=True: somebody changed a managed resource and it could not be put back yet."""

CONTESTED: Final = "Contested"
"""Condition type, and reason of Drifted=True: something keeps changing a resource back, so that repairing
it was slowed down."""

NOT_CONTESTED: Final = "NotContested"
"""Reason of Contested=False: nobody fights over a resource."""

OBSERVED: Final = "Observed"
"""Reason of Drifted=True: a resource differs and is left alone, as its drift policy says."""

ESCALATED: Final = "Escalated"
"""Condition type: a resource differs whose drift policy is escalate, and a person has to look at it. Absent
as long as none did."""

DRIFT_ESCALATED: Final = "DriftEscalated"
"""Reason of Escalated=True; the message says what differs."""

NOTHING_ESCALATED: Final = "NothingEscalated"
"""Reason of Escalated=False: all of it is as declared again, or is declared otherwise."""

CREDENTIAL_RENEWED: Final = "TokenRenewed"
"""Condition type: the host's own token is renewed in time. Absent where its agent uses another."""

CREDENTIAL_GOOD: Final = "Good"
"""Reason of TokenRenewed=True; the message says until when."""

RENEWAL_FAILING: Final = "RenewalFailing"
"""Reason of TokenRenewed=False: the token is due, and no new one could be had; the message says why."""

WATCHING: Final = "Watching"
"""Condition type: changes made behind our back are noticed when they happen, not by looking now and then."""

EVENT_DRIVEN: Final = "EventDriven"
"""Reason of Watching=True: everything declared is watched."""

INCOMPLETE: Final = "Incomplete"
"""Reason of Watching=False: some of it cannot be watched; the message says what, why, and what to do."""

PERIODIC: Final = "Periodic"
"""Reason of Watching=False: watching is turned off, or the host has no such means."""

DUPLICATED: Final = "Duplicated"
"""Condition type: another machine reports under the same name. Absent as long as none was seen."""

OTHER_AGENT: Final = "OtherAgent"
"""Reason of Duplicated=True: somebody else renews the heartbeat Lease between our own renewals."""

ONE_AGENT: Final = "OneAgent"
"""Reason of Duplicated=False: nobody else does any more."""

HELD: Final = "Held"
"""Condition type: nothing on the host is changed until the hold ends; its reasons are those of
`acting.HoldOrigin`. Absent as long as it never was. Also the reason of Ready=False: something waits for the
end of the hold."""

NOT_HELD: Final = "NotHeld"
"""Reason of Held=False: the hold has ended."""

SERVED: Final = "Served"
"""Condition type: metrics and health probes are served where the agent was told to. Absent as long as they
always were."""

ADDRESS_UNAVAILABLE: Final = "AddressUnavailable"
"""Reason of Served=False: the host does not have the address, or somebody else has, who answers there."""

LISTENING: Final = "Listening"
"""Reason of Served=True: the address could be had after all."""

LABELLED: Final = "Labelled"
"""Condition type: the host has the labels that its agent was told. Absent as long as none was refused."""

LABELS_SET: Final = "LabelsSet"
"""Reason of Labelled=True: the host has them after all."""

LABELS_REFUSED: Final = "LabelsRefused"
"""Reason of Labelled=False: nobody declared them for this host; the message says how."""

RECORDED: Final = "Recorded"
"""Condition type: what is done on the host is recorded in its own chain. Told once that could not be done."""

WRITTEN: Final = "Written"
"""Reason of Recorded=True."""

CANNOT_RECORD: Final = "CannotRecord"
"""Reason of Recorded=False: the disk does not take it; the message says why. The agent goes on, and the chain
says later how many records are missing."""

CHAIN_REPLACED: Final = "ChainReplaced"
"""Reason of Recorded=False: the chain is not the one that the status told of before, as after a restore of an
older state. The agent goes on with what is there, and says this until it is started again."""
