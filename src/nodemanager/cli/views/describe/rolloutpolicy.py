"""A RolloutPolicy in words: how changes reach hosts where ConfigSets do not say it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nodemanager.api.common.rollout import STAGES, Rollout
from nodemanager.api.common.rolloutpolicy import RolloutPolicy
from nodemanager.cli.views import describing, output
from nodemanager.kube import core


def render(policy: RolloutPolicy, events: Sequence[core.Event], now: datetime) -> str:
    """Return the description of a policy."""
    report, spec = output.Report(), policy.spec
    describing.add_head(report, policy.metadata, now)
    report.field("For", "every ConfigSet of the namespace without spec.rollout")
    report.field("Strategy", spec.strategy)
    report.field("Stages", ", ".join(spec.stages or STAGES))
    report.field("Soak", spec.soak)
    report.field("On failure", f"{spec.on_failure}, after {spec.stop_after}")
    waits = _waits_for(spec)
    report.field("Waits for", ", ".join(waits) or "nothing else")
    if spec.paused:
        report.field("Paused", "no further host takes a change")
    describing.add_events(report, events, now)
    return report.text()


def _waits_for(spec: Rollout) -> list[str]:
    waits = [f"window {spec.window_ref.name}"] if spec.window_ref is not None else []
    waits += ["an approval"] if spec.approval is not None and spec.approval.required else []
    return waits + ([f"{len(spec.health)} gates of health"] if spec.health else [])
