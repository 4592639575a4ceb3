"""Signs of life of nodes: fresh by when they changed, never by what their clocks say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from nodemanager.api.edge.bridge_parts import Bridge
from nodemanager.api.edge.edgecluster import (
    AGENT,
    BRIDGE,
    FRESH,
    FUTURE,
    GONE,
    MAX_NODES,
    MISSING,
    STALE,
    UNANSWERED,
    UNPROVEN,
    UNREADABLE,
    EdgeClusterStatus,
    EdgeNode,
)
from nodemanager.api.edge.profile_parts import Thresholds
from nodemanager.fleet.edge import heartbeats
from nodemanager.fleet.edge.facts import Read
from nodemanager.fleet.edge.heartbeats import Limits
from nodemanager.kube import times
from support import edge_world

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)
LIMITS = Limits(timedelta(seconds=90), timedelta(seconds=30), timedelta(hours=1))
SECOND = timedelta(seconds=1)


def bridge_of(prefix: str = "", namespace: str = "edge") -> Bridge:
    given = edge_world.bridge()
    source = msgspec.structs.replace(given.heartbeats, key_prefix=prefix)
    return msgspec.structs.replace(given, namespace=namespace, heartbeats=source)


def text(seconds: float) -> str:
    return times.rfc3339(NOW + timedelta(seconds=seconds))


def looked(
    data: dict[str, str], at: datetime = NOW, before: EdgeClusterStatus | None = None, answer: str = FRESH
) -> EdgeClusterStatus:
    """Return what one look makes of signs of life, to go on from."""
    old = before or EdgeClusterStatus()
    found = heartbeats.nodes(bridge_of(), Read(answer, data), old, LIMITS, at)
    return EdgeClusterStatus(nodes=found, observed_at=times.rfc3339(at))


def words(status: EdgeClusterStatus) -> dict[str, str]:
    return {one.name: one.heartbeat for one in status.nodes}


def test_what_counts_where_a_profile_says_nothing() -> None:
    assert Limits.of(None) == Limits.of(Thresholds()) == LIMITS
    given = Thresholds(heartbeat_age="1s", clock_skew="2s", forget_nodes="3s")
    assert Limits.of(given) == Limits(SECOND, 2 * SECOND, 3 * SECOND)


def test_a_sign_of_life_proves_something_once_it_changes_and_counts_from_the_look_before() -> None:
    first = looked({"a": text(0)})
    assert (words(first), first.nodes[0].changed_at) == ({"a": UNPROVEN}, None)
    assert first.nodes[0].message == "no new sign of life was seen yet"
    same = looked({"a": text(0)}, NOW + 10 * SECOND, first)
    assert words(same) == {"a": UNPROVEN}
    second = looked({"a": text(20)}, NOW + 20 * SECOND, same)
    assert (words(second), second.nodes[0].message) == ({"a": FRESH}, "")
    assert second.nodes[0].changed_at == text(10)
    third = looked({"a": text(20)}, NOW + 30 * SECOND, second)
    assert (words(third), third.nodes[0].changed_at) == ({"a": FRESH}, text(10))


@pytest.mark.parametrize(
    ("after", "word"), [(90, FRESH), (91, STALE), (0, FRESH)], ids=["just", "too-old", "at-once"]
)
def test_it_is_fresh_for_so_long(after: int, word: str) -> None:
    known = looked({"a": text(1)}, NOW, looked({"a": text(0)}, NOW))
    found = looked({"a": text(1)}, NOW + after * SECOND, known)
    assert words(found) == {"a": word}
    assert (found.nodes[0].message == f"no new sign of life since {text(0)}") == (word == STALE)


def test_one_that_changed_in_the_future_is_stale() -> None:
    (known,) = looked({"a": text(0)}).nodes
    before = EdgeClusterStatus(
        nodes=[msgspec.structs.replace(known, changed_at=text(1))], observed_at=text(0)
    )
    assert words(looked({"a": text(0)}, NOW, before)) == {"a": STALE}


def test_where_our_clock_was_set_back_nothing_of_before_counts() -> None:
    known = looked({"a": text(1)}, NOW, looked({"a": text(0)}, NOW - SECOND))
    assert words(known) == {"a": FRESH}
    assert words(looked({"a": text(2)}, NOW - SECOND, known)) == {"a": UNPROVEN}
    assert words(looked({"a": text(2)}, NOW, known)) == {"a": FRESH}


def test_signs_of_life_from_elsewhere_are_others() -> None:
    found = heartbeats.nodes(
        bridge_of(namespace="other"), Read(data={"a": text(0)}), EdgeClusterStatus(), LIMITS, NOW
    )
    before = EdgeClusterStatus(nodes=found, observed_at=text(0))
    assert words(looked({"a": text(1)}, NOW + SECOND, before)) == {"a": UNPROVEN}


@pytest.mark.parametrize(("ahead", "word"), [(30, UNPROVEN), (31, FUTURE)])
def test_a_clock_may_be_ahead_a_little(ahead: int, word: str) -> None:
    found = looked({"a": text(ahead)})
    assert words(found) == {"a": word}
    assert ("its clock is ahead: it says " + text(ahead) == found.nodes[0].message) == (word == FUTURE)


def test_what_cannot_be_understood_is_said_to_be_so() -> None:
    (found,) = looked({"a": "yesterday"}).nodes
    assert (found.name, found.source, found.heartbeat) == ("a", BRIDGE, UNREADABLE)
    assert found.message
    assert (found.digest, found.changed_at) == ("", None)


def test_where_nobody_could_look_nodes_are_unproven_and_begin_anew() -> None:
    known = looked({"a": text(1), "b": text(1)}, NOW, looked({"a": text(0), "b": text(0)}))
    known.nodes.append(EdgeNode(name="c", source=AGENT, heartbeat=FRESH))
    found = looked({}, NOW, known, UNANSWERED)
    assert words(found) == {"a": UNPROVEN, "b": UNPROVEN}
    assert {(one.source, one.digest, one.message) for one in found.nodes} == {
        (BRIDGE, "", "its signs of life could not be read")
    }
    assert words(looked({}, NOW, known, MISSING)) == {"a": GONE, "b": GONE}


def test_a_node_that_left_is_gone_since_then() -> None:
    known = looked({"a": text(0), "b": text(0)})
    first = looked({"b": text(0)}, NOW + SECOND, known)
    assert words(first) == {"b": UNPROVEN, "a": GONE}
    gone = first.nodes[-1]
    assert (gone.source, gone.gone_since) == (BRIDGE, text(1))
    assert gone.message == f"it leaves no signs of life any more since {text(1)}"
    later = looked({"b": text(0)}, NOW + 2 * SECOND, first).nodes[-1]
    assert later.gone_since == text(1)
    back = looked({"b": text(0)}, NOW, first).nodes[-1]  # our clock was set back
    assert back.gone_since == text(0)
    unread = looked({}, NOW + 2 * SECOND, first, UNANSWERED)
    assert [one.gone_since for one in unread.nodes] == [None, text(1)]


def test_a_node_that_left_tells_when_it_last_changed() -> None:
    known = looked({"a": text(1)}, NOW + SECOND, looked({"a": text(0)}))
    assert looked({}, NOW + SECOND, known).nodes[0].changed_at == text(0)


@pytest.mark.parametrize(("ago", "is_forgotten"), [(3600, False), (3601, True)])
def test_it_is_forgotten_after_a_while(ago: int, is_forgotten: bool) -> None:
    node = EdgeNode(name="a", source=BRIDGE, heartbeat=GONE, gone_since=text(-ago))
    assert heartbeats.forgotten(node, LIMITS, NOW) == is_forgotten
    there = EdgeNode(name="a", source=BRIDGE, heartbeat=FRESH)
    assert not heartbeats.forgotten(there, LIMITS, NOW)


def test_only_keys_with_the_prefix_are_nodes() -> None:
    read = Read(data={"node-a": text(0), "node-": text(0), "other": text(0)})
    found = heartbeats.nodes(bridge_of("node-"), read, EdgeClusterStatus(), LIMITS, NOW)
    assert [one.name for one in found] == ["a"]


def test_a_flood_of_names_hides_no_node_that_was_there() -> None:
    known = looked({"z1": text(0), "z2": text(0)})
    flood = {f"n{number:03}": text(0) for number in range(MAX_NODES + 5)}
    found = looked({**flood, "z1": text(0)}, NOW + SECOND, known)
    assert len(found.nodes) == MAX_NODES
    names = [one.name for one in found.nodes]
    assert names == sorted(names)
    assert "z1" in names
