"""How a rollout reports its state: its phase, since when, and a text about the hosts concerned."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from nodemanager.api.common.rollout import SOAKING, RolloutStatus
from nodemanager.fleet.rollout.facts import UNAWARE, RolloutHost, RolloutProgress
from nodemanager.fleet.rollout.looking import RolloutHosts, elapsed
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.kube import times, wording
from nodemanager.kube.wording import plural

MAX_NAMED: Final = 5
MAX_MESSAGE: Final = 1024
"""Most characters, as in the schema of the status."""
_JUST_BELOW_A_SECOND: Final = timedelta(microseconds=999_999)


def in_phase(
    status: RolloutStatus, phase: str, reason: RolloutReason, message: str, now: datetime
) -> RolloutStatus:
    """Return the status in a phase; since when is kept while that is the same, and not in the future.

    Whatever else a stage waits for after its soak: its hosts have been healthy since that began. Moments are
    written to the second, so it is said to begin with the next one: a soak is never shorter than declared.
    """
    same = status.phase == phase and (status.reason == reason or phase == SOAKING)
    kept = same and elapsed(status, now) >= 0
    begun = now + _JUST_BELOW_A_SECOND if phase == SOAKING else now
    since = status.since if kept else times.rfc3339(begun)
    said = wording.shorten(message, MAX_MESSAGE)
    return msgspec.structs.replace(status, phase=phase, reason=reason, message=said, since=since)


def named(hosts: Sequence[RolloutHost]) -> str:
    """Return the first hosts by name, each with a remark, and the number of the others."""
    names = sorted(f"{one.name} ({one.why})" if one.why else one.name for one in hosts)
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {plural(more, 'more host')}" if more > 0 else "")


def worked_on(seen: RolloutHosts) -> str:
    """Return which hosts use up maxUnavailable, if they are others."""
    names = wording.listed([f"{one.name} ({one.away})" for one in seen.away], MAX_NAMED)
    return f"as many hosts as maxUnavailable allows are being worked on, such as {names}"


def left_behind(seen: RolloutHosts) -> str:
    """Return the text about failed hosts that are too few to stop the rollout."""
    count = seen.counts.failed
    if not count:
        return ""
    return f"{named(seen.failed) or plural(count, 'host')} failed, fewer than stopAfter"


def not_returned(seen: RolloutHosts) -> str:
    """Return the text about hosts that should return and cannot report whether they did."""
    lost = [one for one in seen.awake if one.progress is RolloutProgress.LOST]
    return f"; {named(lost)} did not say that they returned" if lost else ""


def besides(seen: RolloutHosts) -> str:
    """Return the text about hosts that the rollout does not wait for."""
    unaware = sum(one.why == UNAWARE for one in seen.hosts)
    if not unaware:
        return ""
    return f"; {plural(unaware, 'host')} took it at once and will not return: the agent there knows no stages"
