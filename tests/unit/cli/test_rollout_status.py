"""When `nodemanager rollout status` ends, and how."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.api.common.configset import ConfigSet, ConfigSetStatus
from nodemanager.api.common.rollout import PAUSED, STABLE, UNDOING, UNDONE, RevisionRef, RolloutStatus
from nodemanager.cli.commands.rollout import looking
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.kube.objects import ObjectMeta

LABELS = {"role": "web"}
NEWEST = RevisionRef(name="web-2", revision=2, labels=LABELS)


@pytest.mark.parametrize(
    ("status", "over", "failed"),
    [
        ({"phase": STABLE, "stable": NEWEST}, True, False),
        ({"phase": STABLE, "stable": RevisionRef(name="web-2", labels={"role": "db"})}, False, False),
        ({"phase": STABLE, "stable": NEWEST, "observed_generation": 1}, False, False),
        ({"phase": UNDONE, "refused": NEWEST}, True, True),
        ({"phase": PAUSED, "next": NEWEST, "reason": RolloutReason.STOPPED}, True, True),
        ({"phase": PAUSED, "next": NEWEST, "reason": RolloutReason.PAUSED}, False, False),
        ({"phase": UNDOING, "refused": NEWEST, "reason": RolloutReason.HOSTS_RETURNING}, False, False),
        ({"phase": UNDOING, "refused": NEWEST, "reason": RolloutReason.HOSTS_NOT_RETURNED}, True, True),
    ],
)
def test_when_it_is_over(status: dict[str, Any], over: bool, failed: bool) -> None:
    published = RolloutStatus(**{"observed_generation": 2, "current": "web-2", **status})
    meta = ObjectMeta(name="web", generation=2, labels=LABELS)
    found = ConfigSet(metadata=meta, status=ConfigSetStatus(rollout=published))
    assert (looking.is_over(found), looking.failed(published)) == (over, failed)
