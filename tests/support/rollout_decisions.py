"""Rollouts at one moment, in few words, for tests of single decisions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from nodemanager.api.common.rollout import PROGRESSING, SOAKING, STAGED, RevisionRef, Rollout, RolloutStatus
from nodemanager.fleet.rollout import stages
from nodemanager.fleet.rollout.deciding import RolloutDecision
from nodemanager.fleet.rollout.facts import RolloutHost, RolloutProgress
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.kube import times
from nodemanager.kube.selectors import LabelSelector

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OLD = RevisionRef(name="web-1", revision=1, digest="a" * 64)
NEW = RevisionRef(name="web-2", revision=2, digest="b" * 64)
CHOSEN = LabelSelector(match_labels={"canary": "true"})
H, U, F = RolloutProgress.HEALTHY, RolloutProgress.UNPROVEN, RolloutProgress.FAILED
STEP = 1000


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def rollout(**changes: Any) -> Rollout:
    return Rollout(**{"strategy": STAGED, "soak": "5m", **changes})


def status(phase: str, *, since: float = 0, moved: int = 1, **changes: Any) -> RolloutStatus:
    reasons = {PROGRESSING: RolloutReason.HOSTS_UNPROVEN, SOAKING: RolloutReason.SOAKING}
    return RolloutStatus(
        **{
            "observed_generation": 1,
            "phase": phase,
            "reason": reasons.get(phase, RolloutReason.STARTED),
            "since": times.rfc3339(ago(since)),
            "started_at": times.rfc3339(ago(7200)),
            "stable": OLD,
            "next": NEW,
            "threshold": (moved - 1) * STEP + 1 if moved else 0,
            "stage": 1,
            **changes,
        }
    )


def host(name: str, position: int, progress: RolloutProgress = U, **of: Any) -> RolloutHost:
    return RolloutHost(name, position, **{"canary": False, "progress": progress, **of})


def fleet(moved: str, total: int) -> list[RolloutHost]:
    """Return hosts in the order of their positions: the first ones as told, the others as they were."""
    words = {
        "h": H,
        "u": U,
        "f": F,
        "a": RolloutProgress.ABSENT,
        "p": RolloutProgress.PUT_OFF,
        "l": RolloutProgress.LOST,
    }
    found = [words[one] for one in moved] + [U] * (total - len(moved))
    return [host(f"h{number}", number * STEP, one) for number, one in enumerate(found)]


def said(decision: RolloutDecision) -> tuple[str, str, int]:
    found = decision.status
    return found.phase, found.reason, found.stage


def moved(decision: RolloutDecision, hosts: list[RolloutHost]) -> int:
    return len(stages.moved(decision.status, hosts))
