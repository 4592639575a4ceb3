"""What host and operator report to each other about drifts that are repaired in turn.

    status.leftDrifts.asks --> the operator decides --> a claim on the host --> one pass --> leftDrifts.used

A turn is a claim like that of a visit, so that all budgets count it. The host may put back what it asked for
in one pass that begins before the claim expires; then it says that the turn is over. It begins no other pass
for it, and without a claim none at all.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from nodemanager.api.common.left_drifts import LeftDrifts
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.nodetask import VISIT
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.kube import times

LONGEST: Final = timedelta(minutes=10)
"""How long a host has to begin its turn."""
_RUN: Final = "repair-%Y%m%dt%H%M%S.%fz"


class GrantedRepair(NamedTuple):
    """What a host may repair."""

    run: str
    config_set: str
    until: datetime
    """From this time on the host begins no repair."""


class Ask(NamedTuple):
    """A ConfigSet with a drift that the host may not repair yet."""

    config_set: str
    since: datetime


def claim_of(node: ManagedNode) -> Claim | None:
    """Return the turn that a host has, or had last; None = its last visit was for something else."""
    claim = claims.decode(node.metadata.annotations.get(VISIT))
    return claim if isinstance(claim, Claim) and claim.repairs else None


def turn_of(node: ManagedNode) -> GrantedRepair | None:
    """Return the turn that a host was given and has not reported as over; its time may be up."""
    claim = claim_of(node)
    used = (node.status.left_drifts or LeftDrifts()).used
    if claim is None or claim.state is not State.WORKING or claim.host_uid != node.metadata.uid:
        return None
    return None if claim.run == used else GrantedRepair(claim.run, claim.repairs, claim.expires)


def asks_of(node: ManagedNode, now: datetime) -> list[Ask]:
    """Return what a host asks for. A time in the future counts as now, because its clock may be wrong."""
    found = (node.status.left_drifts or LeftDrifts()).asks
    return [Ask(one.configset, min(times.parse(one.since) or now, now)) for one in found if one.configset]


def begun(node: ManagedNode, config_set: str, until: datetime, boot_id: str, now: datetime) -> Claim:
    """Return the claim that gives a host its turn."""
    meta = node.metadata
    return Claim(
        maintenance=claims.for_repair(config_set),
        uid=meta.uid,
        host_uid=meta.uid,
        run=now.astimezone(UTC).strftime(_RUN),
        attempt=0,
        state=State.WORKING,
        since=now,
        begun=now,
        expires=until,
        generation=meta.generation,
        boot_id=boot_id,
    )


def ended(claim: Claim, left: LeftDrifts | None, now: datetime) -> Claim | None:
    """Return how a turn has ended; None = it has not.

    The wait has an end, for agents that never report it, such as those of an older version.
    """
    left = left or LeftDrifts()
    if left.used == claim.run:
        open_still = any(one.configset == claim.repairs for one in left.asks)
        state, reason = (State.HALTED, Reason.NOT_REPAIRED) if open_still else (State.DONE, Reason.SUCCEEDED)
    elif now >= claim.expires + claims.GRACE:
        state, reason = State.HALTED, Reason.TURN_NOT_USED
    else:
        return None
    return msgspec.structs.replace(claim, state=state, since=now, reason=reason)
