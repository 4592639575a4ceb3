"""What a PodDisruptionBudget says of the pods it covers: pure functions.

A budget in numbers or percentages of a whole (`maxUnavailable`, `minAvailable: 50%`) needs to know the
whole. Kubernetes asks the ReplicaSet or StatefulSet of each pod how many there should be. None are
served here, so the whole is the pods that are stored, those that have finished aside. A pod that is
being terminated counts until it is gone, because controllers replace pods while they terminate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from nodemanager.kube import json_values, selectors, times
from nodemanager.kube.objects import Untyped

DELETION_TIMEOUT: Final = timedelta(minutes=2)
"""How long an evicted pod may take to end; after that it counts as not evicted."""
ALLOWED: Final = "DisruptionAllowed"
SYNC_FAILED: Final = "SyncFailed"
FINISHED: Final = ("Succeeded", "Failed")
_PERCENTAGE = re.compile(r"[0-9]{1,9}%")


class BudgetError(Exception):
    """A budget that cannot be counted; the message says why, in Kubernetes' words."""


class BudgetJudgement(NamedTuple):
    """What a budget's status should be, and when time alone will change it."""

    status: Untyped
    recheck: datetime | None = None


def covered(budget: Untyped, pods: Iterable[Untyped]) -> list[Untyped]:
    """Return those pods of its namespace that a budget is about; an absent selector covers nothing."""
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None:
        return []
    try:
        parsed = msgspec.convert(json_values.without_nulls(selector), selectors.LabelSelector)
    except msgspec.ValidationError:
        return []
    return [pod for pod in pods if selectors.matches(parsed, pod["metadata"].get("labels") or {})]


def is_ready(pod: Untyped) -> bool:
    """Tell whether a pod is healthy, which is: its Ready condition is True."""
    found = (pod.get("status") or {}).get("conditions") or []
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in found)


def phase(pod: Untyped) -> str:
    """Return the phase of a pod."""
    return str((pod.get("status") or {}).get("phase") or "")


def judge(budget: Untyped, pods: Sequence[Untyped], now: datetime) -> BudgetJudgement:
    """Return the status of a budget, given the pods it covers."""
    status: Untyped = budget.get("status") or {}
    try:
        expected, desired = _wanted(budget.get("spec") or {}, pods)
    except BudgetError as error:
        return BudgetJudgement(_failed(status, str(error), now))
    disrupted, recheck = _disrupted(status.get("disruptedPods") or {}, pods, now)
    healthy = sum(_counts(pod, disrupted) for pod in pods)
    counted = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        # A budget that covers nothing allows nothing: it is safe when its first pods appear.
        "disruptionsAllowed": max(0, healthy - desired) if expected > 0 else 0,
        "observedGeneration": budget["metadata"].get("generation", 1),
        **({"disruptedPods": disrupted} if disrupted else {}),
        **({"conditions": status["conditions"]} if status.get("conditions") else {}),
    }
    return BudgetJudgement(with_condition(counted, now), recheck)


def with_condition(status: Untyped, now: datetime) -> Untyped:
    """Return a status whose DisruptionAllowed condition says what its numbers say."""
    if status["disruptionsAllowed"] > 0:
        return _said(status, "True", "SufficientPods", "", now)
    return _said(status, "False", "InsufficientPods", "", now)


def condition(status: Untyped) -> Mapping[str, Any]:
    """Return the DisruptionAllowed condition of a status, or an empty one."""
    found = [one for one in status.get("conditions") or [] if one.get("type") == ALLOWED]
    return found[0] if found else {}


def _failed(status: Untyped, why: str, now: datetime) -> Untyped:
    return _said({**status, "disruptionsAllowed": 0}, "False", SYNC_FAILED, why, now)


def _said(status: Untyped, truth: str, reason: str, message: str, now: datetime) -> Untyped:
    said = {"type": ALLOWED, "status": truth, "reason": reason, "message": message}
    said["observedGeneration"] = status.get("observedGeneration", 0)
    return with_said(status, said, stamp(now))


def with_said(status: Untyped, said: Untyped, now: str) -> Untyped:
    """Return a status with a condition in it; its time moves only when it turns true or false."""
    listed = list(status.get("conditions") or [])
    at = next((place for place, one in enumerate(listed) if one.get("type") == said["type"]), len(listed))
    old = listed[at] if at < len(listed) else {}
    since = old.get("lastTransitionTime") if old.get("status") == said["status"] else None
    listed[at : at + 1] = [{**old, **said, "lastTransitionTime": since or now}]
    return {**status, "conditions": listed}


def _wanted(spec: Mapping[str, Any], pods: Sequence[Untyped]) -> tuple[int, int]:
    """Return how many pods there should be, and how many of them healthy."""
    whole = sum(phase(pod) not in FINISHED for pod in pods)
    most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
    if most is not None:
        return whole, max(0, whole - _scaled(most, whole))
    if isinstance(least, str):
        return whole, _scaled(least, whole)
    return (0, 0) if least is None else (len(pods), int(least))


def _scaled(value: int | str, whole: int) -> int:
    """Return a number as it is, and a percentage of the whole rounded up."""
    if not isinstance(value, str):
        return value
    if not _PERCENTAGE.fullmatch(value):
        raise BudgetError("invalid value for IntOrString: invalid type: string is not a percentage")
    return -(-int(value[:-1]) * whole // 100)


def _disrupted(
    named: Mapping[str, str], pods: Sequence[Untyped], now: datetime
) -> tuple[dict[str, str], datetime | None]:
    """Return the evicted pods that are still expected to go, and when the first is not any more."""
    left: dict[str, str] = {}
    ends = []
    for meta in (pod["metadata"] for pod in pods):
        since = named.get(meta["name"])
        if since is not None and not meta.get("deletionTimestamp") and (end := _end(since)) > now:
            left[meta["name"]] = since
            ends.append(end)
    return left, min(ends, default=None)


def _end(since: str) -> datetime:
    try:
        return datetime.fromisoformat(since).astimezone(UTC) + DELETION_TIMEOUT
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)


def _counts(pod: Untyped, disrupted: Mapping[str, str]) -> bool:
    meta = pod["metadata"]
    return not meta.get("deletionTimestamp") and meta["name"] not in disrupted and is_ready(pod)


def stamp(moment: datetime) -> str:
    """Return a time as Kubernetes writes it."""
    return times.rfc3339(moment)
