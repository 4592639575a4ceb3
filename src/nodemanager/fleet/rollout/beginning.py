"""Which revision of a ConfigSet is rolled out: the one of its spec, unless that was tried and undone."""

from __future__ import annotations

from datetime import datetime

import msgspec

from nodemanager.api.common.rollout import (
    PROGRESSING,
    STABLE,
    UNDOING,
    WAITING,
    RevisionRef,
    Rollout,
    RolloutStatus,
    is_staged,
)
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.kube import times


def begin(
    rollout: Rollout | None, old: RolloutStatus, current: RevisionRef, now: datetime, newest: datetime
) -> RolloutStatus:
    """Return the status from which to go on, with the revision that the spec is now.

    A change while another one is rolled out takes its place: hosts that had that one return to what is
    stable, and the new one begins with its first stage. `old` is after a look at the ConfigSet (`seen`);
    `newest` is when the last host joined, by the clock of the API.
    """
    base = msgspec.structs.replace(old, current=current.name)
    if not is_staged(rollout):
        return stable(base, current, RolloutReason.ALL_AT_ONCE, now)
    if base.stable is not None and base.stable.digest == current.digest:
        return _as_it_was(base, current, now)
    if base.next is not None and base.next.digest == current.digest:
        return msgspec.structs.replace(base, next=current)
    tried = base.refused is not None and base.refused.digest == current.digest
    if tried and base.reason != RolloutReason.REVERTED:
        return msgspec.structs.replace(base, refused=current)
    return started(base, current, now, newest)


def started(base: RolloutStatus, revision: RevisionRef, now: datetime, newest: datetime) -> RolloutStatus:
    """Return the status at the beginning of a rollout in which all present hosts take part."""
    return RolloutStatus(
        observed_generation=base.observed_generation,
        phase=WAITING,
        reason=RolloutReason.STARTED,
        message=f"{called(revision)} is to be rolled out",
        since=times.rfc3339(now),
        started_at=times.rfc3339(max(now, newest)),
        current=base.current,
        stable=base.stable,
        next=revision,
        restarted=base.restarted,
    )


def seen(old: RolloutStatus | None, generation: int, restart: str, now: datetime) -> RolloutStatus:
    """Return the status after a look at the ConfigSet: its generation, and whether somebody says `restart`.

    That has what was undone tried again, and what stopped go on from where it is. Who takes the annotation
    away says nothing by it.
    """
    if old is None:
        return RolloutStatus(observed_generation=generation, restarted=restart)
    base = msgspec.structs.replace(old, observed_generation=generation)
    if restart in ("", old.restarted):
        return base
    return again(msgspec.structs.replace(base, restarted=restart), now)


def again(base: RolloutStatus, now: datetime) -> RolloutStatus:
    """Return the status after a person asked to go on, or to try again."""
    if is_stopped(base):
        base = msgspec.structs.replace(
            base,
            phase=PROGRESSING,
            reason=RolloutReason.HOSTS_UNPROVEN,
            message="somebody has it go on",
            since=times.rfc3339(now),
            counts=None,
        )
    return msgspec.structs.replace(base, refused=None)


def called(revision: RevisionRef) -> str:
    """Return the name of a revision; one without a number is a change of a group, which names itself."""
    return f"revision {revision.revision}" if revision.revision else revision.name


def is_stopped(status: RolloutStatus) -> bool:
    """Tell whether hosts failed, so that the rollout goes on only if a person says so."""
    return status.reason == RolloutReason.STOPPED


def stable(
    base: RolloutStatus, revision: RevisionRef | None, reason: str, now: datetime, message: str = ""
) -> RolloutStatus:
    """Return the status of a set whose revision all hosts may have."""
    same = base.phase == STABLE and base.stable == revision and base.since
    return RolloutStatus(
        observed_generation=base.observed_generation,
        phase=STABLE,
        reason=reason,
        message=base.message if same else message,
        since=base.since if same else times.rfc3339(now),
        current=base.current,
        stable=revision,
        restarted=base.restarted,
    )


def _as_it_was(base: RolloutStatus, current: RevisionRef, now: datetime) -> RolloutStatus:
    """Return the status of a set that is stable again; hosts with another revision return first."""
    left = base.next or base.refused
    if left is None:
        known = base.phase == STABLE and base.reason != RolloutReason.ALL_AT_ONCE
        return stable(base, current, base.reason if known else RolloutReason.NO_CHANGE, now)
    going = base.reason == RolloutReason.REVERTED
    return RolloutStatus(
        observed_generation=base.observed_generation,
        phase=UNDOING,
        reason=RolloutReason.REVERTED,
        message=f"{called(left)} is taken back: what is declared is again what is stable",
        since=base.since if going else times.rfc3339(now),
        current=base.current,
        stable=current,
        refused=left,
        restarted=base.restarted,
    )
