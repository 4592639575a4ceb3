"""What a host says, once for all sets that it has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from nodemanager.api.common.acting import Hold
from nodemanager.api.common.managednode import (
    AppliedConfigSet,
    ManagedNode,
    ManagedNodeSpec,
    ManagedNodeStatus,
)
from nodemanager.fleet.rollout import host_views
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MADE, SINCE = "2026-01-01T10:00:00Z", "2026-01-01T11:30:00Z"
ALIVE, SILENT = ("Alive", "True", "LeaseRenewed"), ("Alive", "False", "LeaseExpired")
HELD, DRIFTED = ("Held", "True", "Told"), ("Drifted", "True", "NotRepaired")
BROKEN = ("Ready", "False", "ApplyFailed")
OPEN = Hold(reason="disk", until="2026-01-01T12:00:01Z")
OVER = Hold(reason="disk", until="2026-01-01T12:00:00Z")


def node(*said: tuple[str, str, str], hold: Hold | None = None, **status: Any) -> ManagedNode:
    told = [
        Condition(type=kind, status=word, reason=why, last_transition_time=SINCE) for kind, word, why in said
    ]
    return ManagedNode(
        ObjectMeta(name="h", creation_timestamp=MADE),
        ManagedNodeSpec(hold=hold),
        ManagedNodeStatus(**{"release": "6.1", "conditions": told, **status}),
    )


@pytest.mark.parametrize(
    ("said", "lasts"),
    [
        ((), True),
        ((ALIVE,), True),
        ((HELD,), True),
        ((SILENT,), False),
        ((ALIVE, DRIFTED), False),
        ((SILENT, DRIFTED), False),
    ],
)
def test_a_view_lasts_unless_time_or_earlier_views_decide(
    said: tuple[tuple[str, str, str], ...], lasts: bool
) -> None:
    assert host_views.view_of(node(*said), NOW).lasts is lasts


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (node(ALIVE), ""),
        (node(SILENT), "silent"),
        (node(ALIVE, HELD), "held"),
        (node(SILENT, HELD), "held"),
        (node(SILENT, hold=OPEN), "held"),
        (node(SILENT, hold=OVER), "silent"),
        (node(SILENT, hold=Hold(reason="disk")), "silent"),
        (node(ALIVE, hold=OPEN), ""),  # it is to be held, and says itself when it is
        (node(SILENT, HELD, release=""), "has no agent"),
        (node(ALIVE, release="", agent_version="1"), ""),
        (node(ALIVE, release="", configsets=[AppliedConfigSet(name="web")]), ""),
    ],
)
def test_why_a_host_cannot_be_asked(one: ManagedNode, why: str) -> None:
    assert host_views.gone(one, NOW) == why


def test_without_a_time_every_hold_with_an_end_counts() -> None:
    assert host_views.gone(node(SILENT, hold=OVER)) == "held"


@pytest.mark.parametrize(
    ("said", "reports", "troubles"),
    [
        ((DRIFTED, ("Contested", "True", "Contested")), [], ["something is contested", "drifted"]),
        ((("Drifted", "True", "Observed"), ("Contested", "False", "NotContested")), [], []),
        ((("Drifted", "Unknown", "NotRepaired"),), [], []),
        ((BROKEN,), [AppliedConfigSet(name="web")], ["its last pass broke off"]),
        ((BROKEN, DRIFTED), [], ["drifted", "its last pass broke off"]),
        ((BROKEN,), [AppliedConfigSet(name="web"), AppliedConfigSet(name="db", error="no")], []),
        ((BROKEN,), [AppliedConfigSet(name="web", conflicts=["file:/x"])], []),
        ((("Ready", "Unknown", "ApplyFailed"),), [], []),
        ((("Ready", "False", "Applying"),), [], []),
        ((), [], []),
    ],
)
def test_what_troubles_a_host(
    said: tuple[tuple[str, str, str], ...], reports: list[AppliedConfigSet], troubles: list[str]
) -> None:
    one = node(*said, configsets=reports)
    assert [why for why, _ in host_views.view_of(one).troubles] == troubles
    assert host_views.calm([one]) == ([] if troubles else ["h"])


def test_since_when_a_host_is_there_and_is_heard() -> None:
    assert host_views.view_of(node(ALIVE)).since == datetime(2026, 1, 1, 11, 30, tzinfo=UTC)
    assert host_views.view_of(node()).since is None
    assert host_views.view_of(node()).made == datetime(2026, 1, 1, 10, tzinfo=UTC)


def test_of_two_reports_of_a_set_the_first_counts() -> None:
    twice = [AppliedConfigSet(name="web", digest="1"), AppliedConfigSet(name="web", digest="2")]
    assert host_views.view_of(node(configsets=twice)).reports == {"web": twice[0]}
