"""How long the deletion of a set that prunes waits, and for whom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.fleet import pruning

DELETED = datetime(2026, 1, 1, tzinfo=UTC)


def leaving(**spec: Any) -> ConfigSet:
    meta = {"name": "web", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    return msgspec.convert({"metadata": meta, "spec": {"prune": True, **spec}}, ConfigSet)


def host(name: str, **status: Any) -> ManagedNode:
    return msgspec.convert({"metadata": {"name": name}, "status": status}, ManagedNode)


APPLIED = host("applied", configsets=[{"name": "web"}])
HELD = host("held", orphans={"pruning": [{"configset": "web", "resources": 2}]})
DONE = host("done", configsets=[{"name": "other"}], orphans={"count": 1})


@pytest.mark.parametrize(
    ("spec", "nodes", "after", "waiting", "over"),
    [
        ({}, [APPLIED, HELD, DONE], 0, ("applied", "held"), False),
        ({}, [APPLIED], 599, ("applied",), False),
        ({}, [APPLIED], 600, ("applied",), True),
        ({}, [DONE], 0, (), True),
        ({}, [], 0, (), True),
        ({"prune": False}, [APPLIED, HELD], 0, ("applied", "held"), False),
        ({"prune": False}, [DONE], 0, (), True),
        ({"pruneTimeout": "0"}, [APPLIED], 0, ("applied",), True),
        ({"pruneTimeout": "1h"}, [APPLIED], 3599, ("applied",), False),
        ({"pruneTimeout": "nonsense"}, [APPLIED], 599, ("applied",), False),
    ],
)
def test_it_waits_for_hosts_that_have_something_and_not_for_ever(
    spec: dict[str, Any], nodes: list[ManagedNode], after: float, waiting: tuple[str, ...], over: bool
) -> None:
    found = pruning.deletion(leaving(**spec), nodes, DELETED + timedelta(seconds=after))
    assert (found.waiting, found.over) == (waiting, over)


@pytest.mark.parametrize(
    ("spec", "waits"), [({}, True), ({"prune": False}, False), ({"pruneTimeout": "0"}, False)]
)
def test_only_a_set_that_is_waited_for_has_a_finalizer(spec: dict[str, Any], waits: bool) -> None:
    assert pruning.waits(leaving(**spec)) == waits
