"""When a host is looked at again; what cannot be read of that is said once, not after every pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodemanager.agent.passes.housekeeping import Housekeeper
from nodemanager.agent.passes.pass_schedule import PassSchedule
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeSpec
from nodemanager.host.files.bucket import Bucket, BucketLimits
from nodemanager.host.files.tree import Tree


def test_a_period_that_is_none_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree = Tree(str(tmp_path))
    forever = Bucket(tree, "/bucket", BucketLimits(age=0))
    schedule = PassSchedule(Housekeeper(forever, lambda: 0.0), 600.0)
    for period in ("soon", "soon", "later"):
        assert schedule.next(ManagedNode(spec=ManagedNodeSpec(reconcile_period=period))) == 600.0
    tree.close()
    assert caplog.text.count("cannot use spec.reconcilePeriod") == 2
