"""Who else works on a host, in words; and for how long that excuses its silence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.rollout import visitors
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def visit(maintenance: str, state: State = State.WORKING, group: str = "") -> str:
    return claims.encode(Claim(maintenance, "u", "h", "r", 0, state, NOW, NOW, NOW, group=group))


def node(claim: str = "", *, silent: bool = False, **status: Any) -> ManagedNode:
    alive = Condition(type="Alive", status="False" if silent else "True", reason="Lease")
    meta = ObjectMeta(name="h", annotations={ANNOTATION_VISIT: claim} if claim else {})
    return ManagedNode(metadata=meta, status=ManagedNodeStatus(conditions=[alive], **status))


@pytest.mark.parametrize(
    ("claim", "who", "claimed"),
    [
        ("", "", False),
        ("no claim", "some maintenance", True),
        (visit("monday"), "maintenance monday", True),
        (visit("monday", State.DONE), "", False),
        (visit(claims.for_repair("web")), "the repair of configset/web", True),
        (visit(claims.for_repair("web"), State.UNDONE), "", False),
        (visit(claims.for_upgrade("h")), "its upgrade", True),
        (visit(claims.for_upgrade("h"), State.DONE), "", False),
        (
            visit(claims.for_upgrade("h"), State.DONE, group="db"),
            "its upgrade",
            True,
        ),  # its Lease is yet held
    ],
)
def test_who_works_on_a_host(claim: str, who: str, claimed: bool) -> None:
    assert visitors.named(node(claim)) == who
    assert visitors.is_claimed(node(claim)) is claimed
    assert visitors.of(node(claim), NOW, NOW) == who
    own = node(claim, kubernetes_node_cordoned="2026-01-01T11:00:00Z")  # as it does by itself
    assert visitors.named(own) == (who or "its upgrade")
    assert visitors.is_claimed(own) is claimed


@pytest.mark.parametrize(
    ("silent", "since", "now", "counts"),
    [
        (True, NOW - visitors.LONGEST + SECOND, NOW, True),
        (True, NOW - visitors.LONGEST, NOW, False),
        (True, None, NOW, True),
        (True, NOW - visitors.LONGEST, None, True),  # nobody looks at a clock
        (False, NOW - timedelta(days=9), NOW, True),
    ],
)
def test_a_host_that_is_silent_for_long_is_dead_whatever_is_written_there(
    silent: bool, since: datetime | None, now: datetime | None, counts: bool
) -> None:
    one = node(visit("monday"), silent=silent)
    assert visitors.of(one, since, now) == ("maintenance monday" if counts else "")
    assert visitors.is_claimed(one), "the operator ends that by itself"
