"""Which maintenance works on a host, and how far it is: an annotation of the ManagedNode.

It is written with a resourceVersion, before anything is ordered. So of two operators, or two maintenances,
only one has a host; and an operator that restarts continues from here. When a visit has ended, the annotation
stays as the record of how, until the next one begins.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from nodemanager.fleet.maintenance.reasons import Reason

GRACE: Final = timedelta(hours=1)
"""How long we wait after the limit of a visit for something that should have ended by itself."""
MAX_TEXT: Final = 2048
"""Longer than every claim that we write: names are bounded."""
_UNDO: Final = "-undo"
_HOST: Final = "managednode/"
"""Prefix of the name under which a host is visited for an upgrade; no maintenance can have such a name."""
_SET: Final = "configset/"
"""Prefix of the name under which a host has its turn to repair drift; no maintenance can have such a name."""


class State(StrEnum):
    """Where a visit is."""

    CORDONING = "Cordoning"
    DRAINING = "Draining"
    WORKING = "Working"
    REBOOTING = "Rebooting"
    PROVING = "Proving"
    SOAKING = "Soaking"
    UNDOING = "Undoing"
    RETURNING = "Returning"
    DONE = "Done"
    UNDONE = "Undone"
    HALTED = "Halted"

    @property
    def is_end(self) -> bool:
        """Whether no other state follows."""
        return self in ENDS


ENDS: Final = frozenset((State.DONE, State.UNDONE, State.HALTED))


class Claim(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One visit of one host."""

    maintenance: str
    """Its name; of an upgrade that the host asked for, that of the host (`for_upgrade`); of its turn to put
    back what drifted, that of the ConfigSet (`for_repair`)."""
    uid: str
    """The uid of the maintenance or host: an object of the same name that was made later is another one."""
    host_uid: str
    """The uid of the ManagedNode: one of the same name that was made later was not visited."""
    run: str
    attempt: int
    state: State
    since: datetime
    """When the visit entered this state: only newer evidence proves that the order of this state was carried
    out."""
    begun: datetime
    expires: datetime
    """When the visit counts as failed, if it has not ended by then."""
    generation: int = 0
    task: str = ""
    """Name of its NodeTask; that of the undoing has it with -undo."""
    seen: bool = False
    """Whether the task was seen: if it is missing later, somebody deleted it, and it is not made again."""
    cordoned: bool = False
    """Whether this visit cordoned the Node: a cordon of somebody else is never removed."""
    boot_id: str = ""
    """The boot in which it began."""
    end: State | None = None
    """How the visit will have ended when the host is given back."""
    reason: Reason | None = None
    """Why it ends so."""
    missing: str = ""
    """What did not hold when it had to be proven."""
    group: str = ""
    """The group whose Lease is held for the host, until it has been given back."""

    @property
    def is_upgrade(self) -> bool:
        """Whether the host is visited for its own spec.upgrade."""
        return self.maintenance.startswith(_HOST)

    @property
    def repairs(self) -> str:
        """The ConfigSet whose drift the host repairs in its turn; empty = the visit is for something else."""
        return self.maintenance.removeprefix(_SET) if self.maintenance.startswith(_SET) else ""

    @property
    def object(self) -> str:
        """For which object the host is visited."""
        own = self.is_upgrade or self.repairs
        return self.maintenance if own else f"nodemaintenance/{self.maintenance}"

    @property
    def holds(self) -> bool:
        """Whether the host is being worked on, or the Lease of its group is yet to be given back."""
        return self.state not in ENDS or bool(self.group)


class Unreadable(msgspec.Struct, frozen=True):
    """An annotation that is no readable claim. Nobody knows what works there, so the host counts as held."""

    why: str
    reason: Reason = Reason.CLAIM_UNREADABLE

    @property
    def holds(self) -> bool:
        """Tell whether the host is being worked on: it may be, so the answer is yes."""
        return True


def encode(claim: Claim) -> str:
    """Return the value of the annotation."""
    return msgspec.json.encode(claim).decode()


def decode(text: str | None) -> Claim | Unreadable | None:
    """Return what an annotation says; None if there is none."""
    if not text:
        return None
    if len(text) > MAX_TEXT:
        return Unreadable(f"it has {len(text)} characters; at most {MAX_TEXT} are read")
    try:
        claim = msgspec.json.decode(text, type=Claim)
    except msgspec.DecodeError as error:
        return Unreadable(f"it cannot be read: {str(error)[:200]}")
    moments = (claim.since, claim.begun, claim.expires)
    if any(moment.tzinfo is None for moment in moments):
        return Unreadable("it has a time without a time zone")
    if claim.state is State.RETURNING and claim.end is None:
        return Unreadable("it is Returning, and does not say how it ends")
    return claim


def for_upgrade(host: str) -> str:
    """Return under which name a host is visited to be upgraded."""
    return f"{_HOST}{host}"


def for_repair(config_set: str) -> str:
    """Return under which name a host has its turn to put back what drifted of a ConfigSet."""
    return f"{_SET}{config_set}"


def undo_name(task: str) -> str:
    """Return the name of the task that takes another one back."""
    return f"{task}{_UNDO}"


def taken_back(task: str) -> str:
    """Return the name of the task that one takes back; empty = it is no such task."""
    return task.removesuffix(_UNDO) if task.endswith(_UNDO) else ""


def task_name(host: str, maintenance_uid: str, run: str, host_uid: str, attempt: int) -> str:
    """Return the name of a visit's NodeTask: always the same, so that it is not created twice."""
    said = "\0".join((maintenance_uid, run, host_uid, str(attempt)))
    return f"{host[:200].rstrip('-.')}-{hashlib.sha256(said.encode()).hexdigest()[:10]}"
