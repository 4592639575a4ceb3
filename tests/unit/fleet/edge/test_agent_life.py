"""Who of the agents of a site is known to live, by when its Lease was seen to change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.edge.edgecluster import (
    AGENT,
    BRIDGE,
    FRESH,
    STALE,
    UNPROVEN,
    EdgeClusterStatus,
    EdgeNode,
)
from nodemanager.api.edge.profile_parts import Thresholds
from nodemanager.fleet.edge import decoding
from nodemanager.fleet.edge.facts import AgentFacts, SignOfLife, Sources
from nodemanager.fleet.edge.hosts import agent_life
from nodemanager.fleet.edge.hosts.agent_life import AgentLife
from nodemanager.kube import times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from support import edge_profiles

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)
ALIVE = Condition(type="Alive", status="True", reason="LeaseRenewed")
OLD, NEW = decoding.digest("x"), decoding.digest("y")
NEVER = "no new sign of life was seen yet"


def ago(seconds: float) -> str:
    return times.rfc3339(NOW - timedelta(seconds=seconds))


def host(*said: Condition, seen: str | None = None) -> ManagedNode:
    return ManagedNode(
        metadata=ObjectMeta(name="a"), status=ManagedNodeStatus(conditions=list(said), last_seen=seen)
    )


def node(digest: str = OLD, changed: float | None = 40, name: str = "a") -> EdgeNode:
    stamp = ago(changed) if changed is not None else None
    return EdgeNode(name=name, source=AGENT, digest=digest, changed_at=stamp)


def judged(
    one: ManagedNode | None = None,
    beat: str | None = "y",
    *nodes: EdgeNode,
    looked: float | None = 10,
    lasts: float = 60,
    steady: bool = True,
    age: str | None = None,
) -> AgentLife:
    profile = edge_profiles.typed(edge_profiles.shipped("vx-rail", "", {"bridge": None}))
    spec = msgspec.structs.replace(profile.spec, thresholds=Thresholds(heartbeat_age=age))
    profile = msgspec.structs.replace(profile, spec=spec)
    beats = {"a": SignOfLife(beat, timedelta(seconds=lasts))} if beat is not None else {}
    stamp = ago(looked) if looked is not None else None
    before = EdgeClusterStatus(nodes=list(nodes), observed_at=stamp)
    return agent_life.judge(
        one or host(ALIVE), Sources(profile, AgentFacts(beats=beats, steady=steady), before, NOW)
    )


def test_a_sign_of_life_that_changed_was_given_at_the_look_before_at_the_earliest() -> None:
    assert judged(None, "y", node()) == AgentLife(FRESH, "", NEW, ago(10))


def test_one_that_did_not_change_is_as_old_as_it_was() -> None:
    assert judged(None, "x", node()) == AgentLife(FRESH, "", OLD, ago(40))


def test_what_changed_while_nobody_watched_is_no_younger_than_what_was_before() -> None:
    assert judged(None, "y", node(), steady=False) == AgentLife(FRESH, "", NEW, ago(40))


@pytest.mark.parametrize(
    ("nodes", "beat", "looked"),
    [
        pytest.param((), "y", 10, id="a host that was not there before"),
        pytest.param((node(name="b"),), "y", 10, id="another one was"),
        pytest.param((node(digest=""),), "y", 10, id="one of which no sign was seen"),
        pytest.param((node(),), None, 10, id="a host without a Lease"),
        pytest.param((node(),), "", 10, id="a Lease that was never renewed"),
        pytest.param((node(),), "y", None, id="the first look of all"),
        pytest.param((node(),), "y", -1, id="a clock that was set back"),
        pytest.param((node(changed=None),), "x", 10, id="a sign that never changed"),
    ],
)
def test_nothing_is_known_where_no_change_was_seen(
    nodes: tuple[EdgeNode, ...], beat: str | None, looked: float | None
) -> None:
    digest = decoding.digest(beat) if beat else ""
    assert judged(None, beat, *nodes, looked=looked) == AgentLife(UNPROVEN, NEVER, digest)


@pytest.mark.parametrize(
    ("lasts", "age", "limit"),
    [
        pytest.param(60, "60s", 90, id="one duration and a half of the Lease"),
        pytest.param(60, "100s", 100, id="what the profile says, if that is longer"),
        pytest.param(600, "100s", 900, id="a Lease that lasts long"),
    ],
)
def test_it_is_believed_for_so_long(lasts: float, age: str, limit: float) -> None:
    def after(seconds: float) -> AgentLife:
        return judged(None, "x", node(changed=seconds), lasts=lasts, age=age)

    assert after(limit) == AgentLife(FRESH, "", OLD, ago(limit))
    told = f"no new sign of life was seen since {ago(limit + 1)}"
    assert after(limit + 1) == AgentLife(UNPROVEN, told, OLD, ago(limit + 1))


def test_a_change_in_the_future_is_not_believed_and_one_of_now_is() -> None:
    assert judged(None, "x", node(changed=0)).word == FRESH
    assert judged(None, "x", node(changed=-1)).word == UNPROVEN
    assert judged(None, "y", node(), looked=0) == AgentLife(FRESH, "", NEW, ago(0))


def test_a_silent_host_is_called_so_with_the_time_that_is_known() -> None:
    gone = Condition(type="Alive", status="False", reason="LeaseExpired", message="silent for an hour")
    assert judged(host(gone, seen=ago(3600)), "x", node()) == AgentLife(
        STALE, "silent for an hour", OLD, ago(3600)
    )
    assert judged(host(gone), "y", node()) == AgentLife(STALE, "silent for an hour", NEW, ago(10))
    assert judged(host(gone), "y") == AgentLife(STALE, "silent for an hour", NEW, None)


def test_a_host_of_which_nobody_says_that_it_lives_is_not_known_to() -> None:
    asked = Condition(type="Alive", status="Unknown", reason="NoLease", message="there is no Lease")
    assert judged(host(), "y", node()) == AgentLife(UNPROVEN, "", NEW, ago(10))
    assert judged(host(asked), "y", node()) == AgentLife(UNPROVEN, "there is no Lease", NEW, ago(10))
    assert judged(host(asked), "y") == AgentLife(UNPROVEN, "there is no Lease", NEW, None)


def test_beside_a_daemon_set_its_signs_are_not_those_of_the_agent() -> None:
    other = EdgeNode(
        name="a", source=BRIDGE, digest=NEW, changed_at=ago(5), agent_digest=OLD, agent_changed_at=ago(40)
    )
    assert judged(None, "x", other) == AgentLife(FRESH, "", OLD, ago(40))
    assert judged(None, "y", other) == AgentLife(FRESH, "", NEW, ago(10))
