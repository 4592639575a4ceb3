"""Whether the log is sound: what its conditions say, and whether workflows may begin new work."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from nodemanager.api.audit.auditcheckpoint import (
    CONTINUE,
    CURRENT,
    HOST_CHAINS,
    INTACT,
    STOP,
    AuditCheckpointStatus,
)
from nodemanager.fleet.audit import settings
from nodemanager.fleet.audit.chain_merging import Alarm
from nodemanager.fleet.audit.diagnosing import AuditFinding
from nodemanager.kube import conditions, times
from nodemanager.kube.conditions import FALSE, TRUE, Condition

PATIENCE: Final = timedelta(minutes=5)
"""How long records may wait before the log counts as behind."""
WAITING: Final = "Waiting"
BEHIND: Final = "Behind"
MAX_MESSAGE: Final = 1000
MAX_SAID: Final = 700
REMEDY: Final = (
    ". Keep what is there (nodemanager audit export), and find out who did it. To go on meanwhile:"
    " nodemanager operator --audit-on-failure continue; to begin another log: docs/audit.md"
)


@dataclass(slots=True)
class Soundness:
    """What is known about the log."""

    findings: list[AuditFinding] = field(default_factory=list)
    lost_key: str = ""
    """Why no key signs, though one should."""
    unsigned: str = ""
    """Why no key can sign here."""
    full: str = ""
    """Why no more records are stored, though they could be."""
    failure: str = ""
    """Why the last write failed."""
    failing_since: datetime | None = None
    stamped: Condition | None = None
    """Whether the API records who makes a request; None = not asked yet."""
    hosts: dict[str, Alarm] = field(default_factory=dict)
    """Hosts whose own chains contradict earlier reports. Work goes on, as each is about one host only."""

    doubt: Condition | None = None
    """Why the log was broken when this process began; None = it was not, or we have read it since."""

    def take_over(self, said: AuditCheckpointStatus, now: datetime) -> None:
        """Continue with the verdict of the operator before us: its end proves nothing about the log."""
        intact, current = conditions.get(said.conditions, INTACT), conditions.get(said.conditions, CURRENT)
        self.doubt = intact if intact is not None and intact.status == FALSE else None
        if current is None or current.status != FALSE or current.reason not in (WAITING, BEHIND):
            return
        since = times.parse(current.last_transition_time) or now
        # The condition may be younger than the trouble: an operator that cannot write cannot report that,
        # either.
        self.failing_since = min(since, now - PATIENCE if current.reason == BEHIND else now)
        self.failure = current.message

    def judge(self, findings: list[AuditFinding]) -> None:
        """Record what is wrong with the records, after all of them were read."""
        self.findings, self.doubt = findings, None

    def failed(self, why: str, now: datetime) -> None:
        """Remember that records could not be written."""
        self.failure = why
        self.failing_since = self.failing_since or now

    def succeeded(self) -> None:
        """Remember that records could be written."""
        self.failure, self.failing_since = "", None

    @property
    def intact(self) -> bool:
        """Whether no record was altered, as far as we know."""
        return not self.findings and not self.lost_key and self.doubt is None

    def behind(self, now: datetime) -> bool:
        """Tell whether records have waited too long."""
        return self.failing_since is not None and now - self.failing_since >= PATIENCE

    def stops(self, on_failure: str, now: datetime) -> bool:
        """Tell whether workflows must not begin new work."""
        return on_failure == settings.STOP and (not self.intact or self.behind(now))


def status(
    old: AuditCheckpointStatus, sound: Soundness, sizes: tuple[int, int], on_failure: str, now: datetime
) -> AuditCheckpointStatus:
    """Return the status; `sizes` are the number of segments and their bytes."""
    found = old.conditions
    stamped = (sound.stamped,) if sound.stamped is not None else ()
    for one in (_intact(sound), _current(sound, now), _host_chains(sound), *stamped):
        found = conditions.set_condition(found, one, times.rfc3339(now))
    return AuditCheckpointStatus(
        workflows=STOP if sound.stops(on_failure, now) else CONTINUE,
        segments=sizes[0],
        bytes=sizes[1],
        webhook=old.webhook,  # another controller writes it
        conditions=list(found),
    )


def _intact(sound: Soundness) -> Condition:
    if sound.findings:
        said = "; ".join(str(one) for one in sound.findings[:5])
        return Condition(type=INTACT, status=FALSE, reason="Bent", message=said[:MAX_SAID] + REMEDY)
    if sound.lost_key:
        return Condition(type=INTACT, status=FALSE, reason="KeyLost", message=sound.lost_key[:MAX_MESSAGE])
    if sound.doubt is not None:
        return sound.doubt
    return Condition(
        type=INTACT, status=TRUE, reason="Verified", message="all records are as they were signed"
    )


def _current(sound: Soundness, now: datetime) -> Condition:
    if sound.failing_since is not None:
        reason = BEHIND if sound.behind(now) else WAITING
        message = f"since {times.rfc3339(sound.failing_since)}: {sound.failure}"
        return Condition(type=CURRENT, status=FALSE, reason=reason, message=message[:MAX_MESSAGE])
    if sound.full:
        return Condition(type=CURRENT, status=FALSE, reason="Full", message=sound.full)
    if sound.unsigned:
        return Condition(type=CURRENT, status=FALSE, reason="NotSigned", message=sound.unsigned[:MAX_MESSAGE])
    return Condition(type=CURRENT, status=TRUE, reason="Recorded", message="")


def _host_chains(sound: Soundness) -> Condition:
    if not sound.hosts:
        said = "all chains of hosts go on from what they told before"
        return Condition(type=HOST_CHAINS, status=TRUE, reason="Kept", message=said)
    told = [f"{name}: {one.verdict}: {one.message}" for name, one in sorted(sound.hosts.items())]
    said = f"{len(told)} hosts: " + "; ".join(told)
    return Condition(type=HOST_CHAINS, status=FALSE, reason="NotKept", message=said[:MAX_MESSAGE])
