"""Pods that ask for time: their host gives its turn to the next one, and is begun with later. Pure.

Owners of long jobs know two annotations from autoscalers, which say "not at all" until somebody takes them
off; ours says until when. An unreadable value also causes a wait: a late visit is better than a lost job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from nodemanager.kube import pods, times, wording
from nodemanager.kube.objects import Untyped

NOT_BEFORE: Final = "maintenance.nodemanager/not-before"
"""Annotation of a pod: it may be moved away from this moment on (RFC 3339)."""
FOREIGN: Final = {
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
"""What users of autoscalers write on a pod that must not be moved away."""
_EVER: Final = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Protection:
    """A pod that asks for time."""

    object: str
    """The pod, and what it says."""
    until: datetime | None = None
    """None: until the pod no longer asks, or has ended."""


def protection(pod: Untyped, now: datetime) -> Protection | None:
    """Return what a pod asks for; None: it may be moved away, or stays on the host anyway."""
    if not (pods.has_to_leave(pod) or pods.stays_unmanaged(pod)):
        return None
    said: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    name = f"pod/{pods.full_name(pod)}"
    if (text := said.get(NOT_BEFORE)) is not None:
        until = times.parse(text)
        if until is None:
            return Protection(
                f"{name}: {NOT_BEFORE} {text[:40]!a} is not a time such as 2026-01-31T18:00:00Z"
            )
        if until > now:
            shown = wording.flat(text, 40)  # any character may be between date and time
            return Protection(f"{name}: {NOT_BEFORE} {shown}", until if until - now < _EVER else None)
    key = next((key for key, value in FOREIGN.items() if said.get(key) == value), None)
    return Protection(f"{name}: {key}: {FOREIGN[key]}") if key is not None else None


def longest(found: Iterable[Untyped], now: datetime) -> Protection | None:
    """Return the pod of a host that asks for the longest time; None if no pod asks."""
    asked = [one for one in (protection(pod, now) for pod in found) if one is not None]
    endless = [one for one in asked if one.until is None]
    return endless[0] if endless else max(asked, key=lambda one: one.until or now, default=None)
